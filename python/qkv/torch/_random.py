"""Random numbers: the digits of PyTorch's CPU generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core, random
from . import _dtypes
from ._change import assign
from ._creation import factory
from ._elementwise import as_numbers, cast
from ._shaping import sizes
from ._tensor import Core, Tensor, both, function, method, wrap_array

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

    def __init__(self, device: Any = "cpu") -> None:
        _dtypes.check_device(device, "Generator")
        self._stream = _core.Generator()
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

    def set_state(self, new_state: Tensor) -> None:
        """Continue where `get_state` recorded it."""
        if not isinstance(new_state, Tensor) or new_state.dtype is not _dtypes.int64:
            raise TypeError("set_state: new_state must be a Tensor that get_state() gave")
        self._stream.set_state(as_numbers(new_state).astype(np.uint32))


class _Default(Generator):
    def __init__(self) -> None:
        self._stream = _core.default_generator()
        self._seed = 67280421310721


default_generator = _Default()


@function("manual_seed")
def manual_seed(seed: int) -> Generator:
    """Restart the common stream at the beginning of a seed's."""
    return default_generator.manual_seed(seed)


function("seed")(lambda: default_generator.seed())
function("initial_seed")(lambda: default_generator.initial_seed())
function("get_rng_state")(lambda: default_generator.get_state())
function("set_rng_state")(lambda new_state: default_generator.set_state(new_state))


def _stream(generator: Generator | None) -> Any:
    return (generator or default_generator)._stream


def random_number(generator: Generator | None = None) -> int:
    """What ``torch.empty((), dtype=torch.int64).random_()`` draws."""
    return int(_stream(generator).random64()) & _MASK


def _drawing(name: str, draw: Any, what: str) -> None:
    def make(*size: Any, generator: Generator | None = None, dtype: Any) -> Any:
        return draw(sizes(size), dtype=dtype.core, rng=_stream(generator))

    def like(input: Tensor, *, generator: Generator | None = None, dtype: Any) -> Any:
        return make(*input.shape, generator=generator, dtype=dtype)

    make.__doc__, like.__doc__ = what, f"`{name}` in the shape and dtype of another."
    function(name)(factory(name, _dtypes.get_default_dtype)(make))
    function(f"{name}_like")(factory(f"{name}_like", like=True)(like))


_drawing("rand", random.rand, "Uniform numbers from 0 to 1.")
_drawing("randn", random.randn, "Normal numbers with mean 0 and deviation 1.")


@function("randint")
@factory("randint", lambda: _dtypes.int64)
def randint(
    low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None
) -> Any:
    """Whole numbers from ``low`` (0) up to ``high``, without it."""
    if isinstance(high, (tuple, list)) and size is None:
        high, size = None, high
    low, high = (0, low) if high is None else (low or 0, high)
    if high is None or size is None:
        raise TypeError("randint: high and size must be given, as in randint(0, 5, (3,)) or randint(5, (3,))")
    return random.randint(int(low), int(high), sizes((size,)), rng=_stream(generator))


@function("randint_like")
@factory("randint_like", like=True)
def randint_like(input: Tensor, low: int, high: Any = None, *, generator: Generator | None = None) -> Any:
    """`randint` in the shape and dtype of another."""
    first, last = (0, low) if high is None else (low, high)
    return random.randint(int(first), int(last), tuple(input.shape), rng=_stream(generator))


@function("randperm")
@factory("randperm", lambda: _dtypes.int64)
def randperm(n: int, *, generator: Generator | None = None) -> Any:
    """The numbers from 0 to n - 1 in random order."""
    return random.randperm(int(n), rng=_stream(generator))


@function("normal")
@factory("normal", _dtypes.get_default_dtype)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any
) -> Any:
    """Normal numbers; ``mean`` and ``std`` are numbers with a ``size``, or Tensors."""
    rng = _stream(generator)
    if not isinstance(mean, Core) and not isinstance(std, Core):
        return random.normal(mean, std, () if size is None else sizes((size,)), dtype=dtype.core, rng=rng)
    m, s = as_numbers(mean), as_numbers(std)
    return random.randn(np.broadcast_shapes(m.shape, s.shape), dtype=dtype.core, rng=rng) * s + m


@both("bernoulli")
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the Tensor holds, else 0."""
    rng = _stream(generator)
    if p is not None:
        numbers = random.bernoulli(float(p), tuple(input.shape), dtype=input.dtype.core, rng=rng)
    else:
        numbers = random.bernoulli(np.atleast_1d(as_numbers(input)), rng=rng).reshape(input.shape)
    return wrap_array(numbers, input.dtype)


@both("multinomial")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Numbers of entries, drawn with probability proportional to them."""
    return wrap_array(random.multinomial(as_numbers(input), num_samples, replacement, rng=_stream(generator)))


# In place.


def _fill(t: Tensor, numbers: Any, operation: str, op: str) -> Tensor:
    return assign(t, cast(wrap_array(np.asarray(numbers).reshape(t.shape)), t.dtype), op, operation)


@method("normal_")
def normal_(t: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal numbers, in place."""
    numbers = random.normal(mean, std, tuple(t.shape), dtype=t.dtype.core, rng=_stream(generator))
    return _fill(t, numbers, "normal_", "NormalBackward3")


@method("uniform_")
def uniform_(t: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Uniform numbers from a to b, in place."""
    numbers = random.uniform(a, b, tuple(t.shape), dtype=t.dtype.core, rng=_stream(generator))
    return _fill(t, numbers, "uniform_", "UniformBackward0")


@method("bernoulli_")
def bernoulli_(t: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0, in place."""
    numbers = random.bernoulli(float(p), tuple(t.shape), rng=_stream(generator))
    return _fill(t, numbers, "bernoulli_", "BernoulliBackward2")


@method("exponential_")
def exponential_(t: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Exponential numbers, in place."""
    drawn = _stream(generator)._exponential(float(lambd), tuple(t.shape), t.dtype.core)
    return _fill(t, drawn, "exponential_", "ExponentialBackward0")


_DIGITS = {_dtypes.float32: 2**24 + 1, _dtypes.float64: 2**53 + 1}  # up to which all whole numbers are


@method("random_")
def random_(t: Tensor, a: Any = None, b: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Whole numbers below a bound, or from one to another, in place; int64 without bounds up to 2**63 - 1."""
    if a is None and t.dtype is _dtypes.int64:
        return _fill(t, [random_number(generator) for _ in range(t.numel())], "random_", "RandomBackward2")
    low, high = (0, a) if b is None else (a, b)
    if high is None:
        high = _DIGITS.get(t.dtype) or 2 ** (8 * t.dtype.itemsize - 1)
    numbers = random.randint(low, high, tuple(t.shape), rng=_stream(generator))
    return _fill(t, numbers, "random_", "RandomBackward2")
