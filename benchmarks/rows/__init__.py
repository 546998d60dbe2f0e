"""The rows of the table, one file per subject; their order is that of the report."""

from importlib import import_module

SUBJECTS = [
    "attention",
    "inside pytorch",
    "models of transformers",
    "options",
    "formulas",
    "flex attention",
    "normalizers",
    "tiny",
    "small operations",
    "numpy functions",
    "additive",
    "pooling",
    "memory bound",
    "linear",
    "minilm",
    "whole models",
    "encode",
    "training",
    "recurrent",
    "linear attention",
    "looking",
    "threads",
    "scaling",
    "startup",
]
for _subject in SUBJECTS:
    import_module(f"{__name__}.{_subject.replace(' ', '_')}")
