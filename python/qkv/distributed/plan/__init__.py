"""Time and memory of a step for any number of ranks, predicted from measured rates: ``qkv plan``.

:func:`measure` times pieces of work (products, attention, copies) and messages on this machine; :class:`Train`,
:class:`Attention` and :class:`Embed` add them up for as many ranks as are wanted, on this machine or on many with a
network between them, and say where a job stops scaling and why.
"""

from ..._public import publish
from .corpus import Embed
from .job import Step
from .measuring import measure, measure_network
from .networks import NETWORKS, Network, network
from .rates import Rates, load_rates
from .sequence import Attention
from .train import Train

__all__ = [
    "NETWORKS",
    "Attention",
    "Embed",
    "Network",
    "Rates",
    "Step",
    "Train",
    "load_rates",
    "measure",
    "measure_network",
    "network",
]

publish(__name__)
