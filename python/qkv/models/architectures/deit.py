"""DeiT: a vision transformer with a second row before the patches, which learns from a teacher."""

from dataclasses import replace

from .table import HeadTable
from .vit import ARCHITECTURE as VIT
from .vit import NAMES

ARCHITECTURE = replace(
    VIT,
    model_type="deit",
    classes="DeiT",
    prefix="deit",
    names={**NAMES, "distillation_token": "embeddings.distillation_token"},
    heads={
        **VIT.heads,
        "ForImageClassificationWithTeacher": HeadTable(
            lambda c: {"outputs": c.num_labels, "pooling": "two"},
            {"head.output": "cls_classifier", "head.second": "distillation_classifier"},
        ),
    },
)
