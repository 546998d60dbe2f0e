"""CamemBERT: RoBERTa in French."""

from dataclasses import replace

from .roberta import ARCHITECTURE as ROBERTA

ARCHITECTURE = replace(ROBERTA, model_type="camembert", classes="Camembert")
