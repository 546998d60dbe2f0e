"""The rows of the table, one file per subject; their order is that of the report."""

from . import attention, minilm

__all__ = ["attention", "minilm"]
