"""CamemBERT: RoBERTa in French."""

from dataclasses import replace

from .roberta import ARCHITECTURE as ROBERTA

DEFAULTS = {**ROBERTA.defaults, "vocab_size": 30522}

ARCHITECTURE = replace(ROBERTA, model_type="camembert", classes="Camembert", defaults=DEFAULTS)
