"""Names of PyTorch that lie outside what qkv holds, by what stands in them."""

from __future__ import annotations

import re

_FAMILIES = re.compile(
    # pictures and sound
    r"conv|pool|fold|pad[123]d|upsampl|interpolat|pixel|shuffle|grid|dropout[123]d|softmax2d"
    r"|batch_?norm|instance_?norm|group_?norm|response_?norm|MapLRN"
    # losses and activations of other fields, and what sums over bags of words
    r"|margin|(ctc|poisson_?nll|gaussian_?nll|hinge_?embedding|cosine_?embedding)_?loss|linear_?cross_?entropy"
    r"|NLLLoss2d|WithLoss|adaptive|embedding_?bag|alpha_?dropout|shrink|hardsig|hardswish|softsign"
    r"|prelu|rrelu|celu|threshold|pdist|pairwise_?dist"
    # packed sequences, weights that are computed, quantization, several devices
    r"|packed_?sequence|pack_(padded_)?sequence|(pad_packed|unpack|unpad)_sequence"
    r"|spectral_norm|weight_norm|parametri[sz]|fuse_|quantized|quantizable|qat$|intrinsic$|parallel|distribut"
    # other optimizers, schedules and loaders
    r"|adadelta|adafactor|adamax|asgd|lbfgs|muon|nadam|radam|rprop|swa_|cyclic|sparse|dirac"
    r"|datapipe|worker_info|weightedrandom|chaindataset|stackdataset|^(fft|special|jit|onnx|hub|profiler)$",
    re.IGNORECASE,
)


def lies_outside(name: str) -> bool:
    """Whether a name is one of PyTorch's for other things than attention and transformers."""
    return _FAMILIES.search(name) is not None
