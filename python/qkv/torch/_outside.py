"""Names of PyTorch that qkv.torch lacks: which lie outside what it holds, and what there is in their place."""

from __future__ import annotations

import importlib
import re

import numpy as np

_FAMILIES = re.compile(
    # pictures and sound
    r"conv|pool|fold|pad[123]d|upsampl|interpolat|pixel|shuffle|grid|dropout[123]d|softmax2d"
    r"|batch_?norm|instance_?norm|group_?norm|response_?norm|MapLRN"
    # losses and activations of other fields, and what sums over bags of words
    r"|margin|(ctc|poisson_?nll|gaussian_?nll|hinge_?embedding|cosine_?embedding)_?loss|linear_?cross_?entropy"
    r"|NLLLoss2d|WithLoss|adaptive|embedding_?bag|alpha_?dropout|shrink|hardsig|hardswish|softsign"
    r"|prelu|rrelu|celu|threshold|pdist|pairwise_?dist"
    # activations, layers and losses that programs on transformers leave alone
    r"|^elu$|glu|selu|^mish|hardtanh|relu6|leaky_?relu|softmin|bilinear|cosine_?similarity|huber|smooth_?l1|unflatten$"
    r"|ParameterDict|cell$"
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


_RENAMED = {
    **dict.fromkeys(["gradcheck", "gradgradcheck"], "qkv.testing.check_gradient"),
    **dict.fromkeys(["huber_loss", "HuberLoss"], "qkv.losses.huber"),
    "OneCycleLR": "qkv.optim.CosineSchedule",
    "ConstantLR": "qkv.optim.ConstantSchedule",
    "bernoulli_": "qkv.bernoulli",
    "LeakyReLU": "qkv.leaky_relu",
    "ELU": "qkv.elu",
    "take_along_dim": "qkv.take_along_axis",
}


def equal_of(name: str) -> str | None:
    """What of qkv does the same, or of NumPy for its Tensors."""
    if name in _RENAMED or name.startswith("_"):
        return _RENAMED.get(name)
    for place in ("qkv", "qkv.nn", "qkv.losses", "qkv.optim", "qkv.testing"):
        if callable(vars(importlib.import_module(place)).get(name)):
            return f"{place}.{name}"
    known = importlib.import_module("qkv._numpy.functions").TABLE
    return f"np.{name}" if vars(np).get(name) in known else None
