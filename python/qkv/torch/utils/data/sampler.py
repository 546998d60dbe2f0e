"""``torch.utils.data.sampler``: the samplers of ``torch.utils.data`` under PyTorch's other path."""

from . import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler"]
