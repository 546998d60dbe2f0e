"""XLM-RoBERTa: RoBERTa of many languages."""

from dataclasses import replace

from .camembert import DEFAULTS
from .roberta import ARCHITECTURE as ROBERTA

ARCHITECTURE = replace(ROBERTA, model_type="xlm-roberta", classes="XLMRoberta", defaults=DEFAULTS)
