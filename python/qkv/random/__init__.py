"""Random arrays: the stream of PyTorch's CPU generator, to the bit.

All functions draw from one generator of the process, which :func:`manual_seed` restarts, or from the
:class:`Generator` that is passed as ``rng=``. The digits are those of PyTorch on CPUs with AVX2, for
any order and mix of calls and sizes; they do not depend on this CPU or on the number of threads.
"""

from .._core import Generator
from .._public import publish
from .continuous import exponential, normal, rand, randn, uniform
from .discrete import bernoulli, multinomial, randint, randperm
from .stream import get_rng_state, manual_seed, set_rng_state

__all__ = [
    "Generator",
    "bernoulli",
    "exponential",
    "get_rng_state",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "randint",
    "randn",
    "randperm",
    "set_rng_state",
    "uniform",
]

publish(__name__)
