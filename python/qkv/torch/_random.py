"""Random numbers: the digits of PyTorch's CPU generator.

seed: Restart the common stream somewhere.
initial_seed: The seed of the common stream.
get_rng_state: Everything that decides the future of the common stream.
set_rng_state: Continue the common stream where `get_rng_state` recorded it.
randperm: The numbers from 0 to n - 1 in random order.
normal_: Normal numbers, in place.
uniform_: Uniform numbers from a to b, in place.
bernoulli_: 1 with probability p, else 0, in place.
exponential_: Exponential numbers, in place.
multinomial: Numbers of entries, drawn with probability proportional to them.
"""

from __future__ import annotations

import numpy as np

from .. import _core, random
from . import _dtypes
from ._change import assign
from ._creation import factory
from ._elementwise import as_numbers, cast
from ._shaping import sizes
from ._tensor import Core, Tensor, define, named, wrap_array

_MASK = (1 << 63) - 1


class Generator:
    """A stream of random numbers of its own.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> g = torch.Generator().manual_seed(1)
    >>> torch.rand(2, generator=g)
    tensor([0.7576, 0.2793])
    """

    def __init__(self, device="cpu", *, _stream=None) -> None:
        _dtypes.check_device(device, "Generator")
        self._stream = _stream or _core.Generator()
        self._seed = 67280421310721

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at the beginning of a seed's."""
        self._stream.manual_seed(int(seed))
        self._seed = int(seed)
        return self

    def seed(self) -> int:
        """Restart the stream somewhere."""
        return self.manual_seed(int(np.random.SeedSequence().generate_state(1)[0]))._seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Everything that decides the future of the stream."""
        return wrap_array(self._stream.get_state().astype(np.int64))

    def set_state(self, new_state) -> None:
        """Continue where `get_state` recorded it."""
        if not isinstance(new_state, Tensor) or new_state.dtype is not _dtypes.int64:
            raise TypeError("set_state: new_state must be a Tensor that get_state() gave")
        self._stream.set_state(as_numbers(new_state).astype(np.uint32))


default_generator = Generator(_stream=_core.default_generator())


@named("torch.manual_seed")
def manual_seed(seed: int) -> Generator:
    """Restart the common stream at the beginning of a seed's."""
    return default_generator.manual_seed(seed)


def _stream(generator: Generator | None):
    return (generator or default_generator)._stream


def random_number(generator: Generator | None = None) -> int:
    """What ``torch.empty((), dtype=torch.int64).random_()`` draws."""
    return int(_stream(generator).random64()) & _MASK


def _drawing(name: str, draw, what: str) -> None:
    def make(*size, generator: Generator | None = None, dtype):
        return draw(sizes(size), dtype=dtype.core, rng=_stream(generator))

    def like(input, *, generator: Generator | None = None, dtype):
        return make(*input.shape, generator=generator, dtype=dtype)

    make.__doc__, like.__doc__ = what, f"`{name}` in the shape and dtype of another."
    factory(name, _dtypes.get_default_dtype)(make)
    factory(f"{name}_like", like=True)(like)


_drawing("rand", random.rand, "Uniform numbers from 0 to 1.")
_drawing("randn", random.randn, "Normal numbers with mean 0 and deviation 1.")


@factory("randint", lambda: _dtypes.int64)
def randint(low=None, high=None, size=None, *, generator: Generator | None = None):
    """Whole numbers from ``low`` (0) up to ``high``, without it."""
    if isinstance(high, (tuple, list)) and size is None:
        high, size = None, high
    low, high = (0, low) if high is None else (low or 0, high)
    if high is None or size is None:
        raise TypeError("randint: high and size must be given, as in randint(0, 5, (3,)) or randint(5, (3,))")
    return random.randint(int(low), int(high), sizes((size,)), rng=_stream(generator))


@factory("randint_like", like=True)
def randint_like(input, low: int, high=None, *, generator: Generator | None = None):
    """`randint` in the shape and dtype of another."""
    first, last = (0, low) if high is None else (low, high)
    return random.randint(int(first), int(last), tuple(input.shape), rng=_stream(generator))


randperm = factory("randperm", lambda: _dtypes.int64)(
    lambda n, *, generator=None: random.randperm(int(n), rng=_stream(generator))
)


@factory("normal", _dtypes.get_default_dtype)
def normal(mean=0.0, std=1.0, size=None, *, generator: Generator | None = None, dtype):
    """Normal numbers; ``mean`` and ``std`` are numbers with a ``size``, or Tensors."""
    rng = _stream(generator)
    if not isinstance(mean, Core) and not isinstance(std, Core):
        return random.normal(mean, std, () if size is None else sizes((size,)), dtype=dtype.core, rng=rng)
    m, s = as_numbers(mean), as_numbers(std)
    return random.randn(np.broadcast_shapes(m.shape, s.shape), dtype=dtype.core, rng=rng) * s + m


@named("bernoulli")
def bernoulli(input, p=None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the Tensor holds, else 0."""
    rng = _stream(generator)
    if p is not None:
        numbers = random.bernoulli(float(p), tuple(input.shape), dtype=input.dtype.core, rng=rng)
    else:
        numbers = random.bernoulli(np.atleast_1d(as_numbers(input)), rng=rng).reshape(input.shape)
    return wrap_array(numbers, input.dtype)


# In place.


def _fill(t, numbers, name: str, version: int) -> Tensor:
    op = f"{name.capitalize()}Backward{version}"
    return assign(t, cast(wrap_array(np.asarray(numbers).reshape(t.shape)), t.dtype), op, f"{name}_")


def _drawn(t, name: str, version: int, generator: Generator | None, *given) -> Tensor:
    """Numbers of the stream in the shape and dtype of a Tensor, in place."""
    drawn = getattr(random, name)(*given, tuple(t.shape), dtype=t.dtype.core, rng=_stream(generator))
    return _fill(t, drawn, name, version)


_DIGITS = {_dtypes.float32: 2**24 + 1, _dtypes.float64: 2**53 + 1}  # up to which all whole numbers are


@named(".random_")
def random_(t, a=None, b=None, *, generator: Generator | None = None) -> Tensor:
    """Whole numbers below a bound, or from one to another, in place; int64 without bounds up to 2**63 - 1."""
    if a is None and t.dtype is _dtypes.int64:
        return _fill(t, [random_number(generator) for _ in range(t.numel())], "random", 2)
    low, high = (0, a) if b is None else (a, b)
    if high is None:
        high = _DIGITS.get(t.dtype) or 2 ** (8 * t.dtype.itemsize - 1)
    numbers = random.randint(low, high, tuple(t.shape), rng=_stream(generator))
    return _fill(t, numbers, "random", 2)


_TABLE = {
    "torch.seed": lambda: default_generator.seed(),
    "torch.initial_seed": lambda: default_generator.initial_seed(),
    "torch.get_rng_state": lambda: default_generator.get_state(),
    "torch.set_rng_state": lambda new_state: default_generator.set_state(new_state),
    ".normal_": lambda t, mean=0.0, std=1.0, *, generator=None: _drawn(t, "normal", 3, generator, mean, std),
    ".uniform_": lambda t, a=0.0, b=1.0, *, generator=None: _drawn(t, "uniform", 0, generator, a, b),
    ".bernoulli_": lambda t, p=0.5, *, generator=None: _fill(
        t, random.bernoulli(float(p), tuple(t.shape), rng=_stream(generator)), "bernoulli", 2
    ),
    ".exponential_": lambda t, lambd=1.0, *, generator=None: _fill(
        t, _stream(generator)._exponential(float(lambd), tuple(t.shape), t.dtype.core), "exponential", 0
    ),
    "multinomial": lambda input, num_samples, replacement=False, *, generator=None: wrap_array(
        random.multinomial(as_numbers(input), num_samples, replacement, rng=_stream(generator))
    ),
}
define(_TABLE)
