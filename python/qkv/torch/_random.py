"""Random numbers: the digits of PyTorch's CPU generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core, random
from . import _dtypes
from ._change import assign
from ._creation import finished
from ._dtypes import computed
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


def _drawing(name: str, draw: Any) -> None:
    def make(
        *size: Any,
        generator: Generator | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        kind = computed(dtype or _dtypes.get_default_dtype(), name)
        numbers = draw(sizes(size), kind.core, _stream(generator))
        return finished(wrap_array(numbers, kind), requires_grad, device, name)

    def like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        return make(*input.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)

    make.__doc__ = (
        "Uniform numbers from 0 to 1." if name == "rand" else "Normal numbers with mean 0 and deviation 1."
    )
    like.__doc__ = f"`{name}` in the shape and dtype of another."
    function(name)(make)
    function(f"{name}_like")(like)


_drawing("rand", lambda shape, kind, rng: random.rand(shape, dtype=kind, rng=rng))
_drawing("randn", lambda shape, kind, rng: random.randn(shape, dtype=kind, rng=rng))


@function("randint")
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers from ``low`` (0) up to ``high``, without it."""
    if isinstance(high, (tuple, list)) and size is None:
        high, size = None, high
    if high is None:
        low, high = 0, low
    if high is None or size is None:
        raise TypeError("randint: high and size must be given, as in randint(0, 5, (3,)) or randint(5, (3,))")
    low = 0 if low is None else low
    kind = computed(dtype or _dtypes.int64, "randint")
    numbers = random.randint(int(low), int(high), sizes((size,)), rng=_stream(generator))
    return finished(wrap_array(numbers.astype(kind.core), kind), requires_grad, device, "randint")


@function("randint_like")
def randint_like(input: Tensor, low: int, high: Any = None, *, dtype: Any = None) -> Tensor:
    """`randint` in the shape and dtype of another."""
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, tuple(input.shape), dtype=dtype or input.dtype)


@function("randperm")
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from 0 to n - 1 in random order."""
    kind = computed(dtype or _dtypes.int64, "randperm")
    numbers = random.randperm(int(n), rng=_stream(generator))
    return finished(wrap_array(numbers.astype(kind.core), kind), requires_grad, device, "randperm")


@function("normal")
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers; ``mean`` and ``std`` are numbers with a ``size``, or Tensors."""
    kind = computed(dtype or _dtypes.get_default_dtype(), "normal")
    if not isinstance(mean, Core) and not isinstance(std, Core):
        shape = () if size is None else sizes((size,))
        numbers = random.normal(mean, std, shape, dtype=kind.core, rng=_stream(generator))
    else:
        m, s = as_numbers(mean), as_numbers(std)
        unit = random.randn(np.broadcast_shapes(m.shape, s.shape), dtype=kind.core, rng=_stream(generator))
        numbers = (unit * s + m).astype(kind.core)
    return finished(wrap_array(numbers, kind), requires_grad, device, "normal")


@both("bernoulli")
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the Tensor holds, else 0."""
    if p is not None:
        numbers = random.bernoulli(
            float(p), tuple(input.shape), dtype=input.dtype.core, rng=_stream(generator)
        )
    else:
        numbers = random.bernoulli(np.atleast_1d(as_numbers(input)), rng=_stream(generator)).reshape(
            input.shape
        )
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
def uniform_(
    t: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **ends: float
) -> Tensor:
    """Uniform numbers from a to b, in place."""
    low, high = ends.get("from", a), ends.get("to", b)
    numbers = random.uniform(low, high, tuple(t.shape), dtype=t.dtype.core, rng=_stream(generator))
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


@method("random_")
def random_(t: Tensor, *bounds: int, generator: Generator | None = None) -> Tensor:
    """Whole numbers below a bound, or from one to another, in place; int64 without bounds up to 2**63 - 1."""
    if bounds:
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
        numbers = random.randint(low, high, tuple(t.shape), rng=_stream(generator))
    elif t.dtype is _dtypes.int64:
        numbers = np.array([random_number(generator) for _ in range(t.numel())], np.int64)
    else:
        high = (
            2**24 + 1
            if t.dtype is _dtypes.float32
            else 2**53 + 1
            if t.dtype.kind == 2
            else 2 ** (8 * t.dtype.itemsize - 1)
        )
        numbers = random.randint(0, high, tuple(t.shape), rng=_stream(generator))
    return _fill(t, numbers, "random_", "RandomBackward2")
