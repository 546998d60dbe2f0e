"""``torch.utils.data.dataset``: the data sets of ``torch.utils.data`` under PyTorch's other path."""

from . import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split

__all__ = ["ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "random_split"]
