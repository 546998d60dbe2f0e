"""Looking inside: values of any module in a call, recorded or changed, and measures of heads.

A name is a module's path and one word: ``layers.0.self_attn.weights``. Attention layers have ``queries keys values
scores weights heads``, every module has ``input`` and ``output``; the values of the model itself have no path.
"""

from .._public import publish
from .changing import change, without_heads
from .effects import importance, logit_lens, rollout
from .head_measures import Measures, measures
from .recording import Recording, record
from .writing import Candidate, Writing, generate

__all__ = [
    "Candidate",
    "Measures",
    "Recording",
    "Writing",
    "change",
    "generate",
    "importance",
    "logit_lens",
    "measures",
    "record",
    "rollout",
    "without_heads",
]

publish(__name__, own_classes=True)
