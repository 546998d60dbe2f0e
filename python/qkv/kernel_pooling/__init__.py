"""Nadaraya-Watson pooling: attention whose weights are a kernel of the distance."""

from .estimator import NadarayaWatson
from .functions import Kernel, kernel_attention, kernel_values
from .inputs import NotFittedError

__all__ = ["Kernel", "NadarayaWatson", "NotFittedError", "kernel_attention", "kernel_values"]
