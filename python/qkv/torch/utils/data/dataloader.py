"""``torch.utils.data.dataloader``: the loader of ``torch.utils.data`` under PyTorch's other path."""

from . import DataLoader, default_collate

__all__ = ["DataLoader", "default_collate"]
