"""mT5: T5 of many languages, whose features are not scaled before its words."""

from dataclasses import replace

from .t5 import ARCHITECTURE as T5
from .t5 import OTHER_HEADS
from .table import language_head

ARCHITECTURE = replace(
    T5,
    model_type="mt5",
    classes="MT5",
    defaults={
        **T5.defaults,
        "vocab_size": 250112,
        "d_ff": 1024,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
        "decoder_start_token_id": 0,
    },
    heads={"ForConditionalGeneration": language_head(), **OTHER_HEADS},
)
