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

import math
from functools import partial
from typing import Any

import numpy as np

from .. import _core, random
from . import _dtypes
from ._arguments import flag, floating, number
from ._change import assign
from ._creation import factory
from ._elementwise import as_numbers, cast
from ._shaping import in_memory_order, memory_order, sizes
from ._tensor import Core, Tensor, _core_shape, define, named, wrap, wrap_array

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
        self._stream, self._seed = _stream, 67280421310721
        if _stream is None:
            self._stream = _core.Generator(self._seed)

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
        one_by_one = name == "randn" and memory_order(input)
        drawn = _each(draw) if one_by_one else draw
        return in_memory_order(input, partial(drawn, dtype=dtype.core, rng=_stream(generator)))

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
    return random.randint(low, high, sizes((size,)), rng=_stream(generator))


@factory("randint_like", like=True)
def randint_like(input, low: int, high=None, *, generator: Generator | None = None):
    """`randint` in the shape and dtype of another."""
    first, last = (0, low) if high is None else (low, high)
    return in_memory_order(input, lambda shape: random.randint(first, last, shape, rng=_stream(generator)))


randperm = factory("randperm", lambda: _dtypes.int64)(
    lambda n, *, generator=None: random.randperm(n, rng=_stream(generator))
)


_drawn_alike = factory("normal", _dtypes.get_default_dtype)(
    lambda mean, std, size, *, generator=None, dtype: random.normal(
        number("normal", "mean", mean),
        number("normal", "std", std),
        sizes((size,)),
        dtype=dtype.core,
        rng=_stream(generator),
    )
)


@named("torch.normal")
def normal(mean=0.0, std=1.0, size=None, *, generator: Generator | None = None, **kind) -> Tensor:
    """Normal numbers; ``mean`` and ``std`` are numbers with a ``size``, or Tensors."""
    given = [t for t in (mean, std) if isinstance(t, Core)]
    if size is not None or not given:
        return _drawn_alike(mean, std, () if size is None else size, generator=generator, **kind)  # type: ignore[no-any-return]
    if kind:
        raise TypeError(
            f"normal: {next(iter(kind))} must not be given because mean or std is a Tensor and has it"
        )
    dtype = floating("normal", "mean or std", given[0]).dtype
    if any(t.requires_grad for t in given):
        raise RuntimeError(
            "normal: mean and std must not require gradients; compute mean + std * randn instead"
        )
    m, s = as_numbers(mean), as_numbers(std)
    if (s < 0).any():
        raise RuntimeError("normal: std must be at least 0; got others")
    shape = np.broadcast_shapes(m.shape, s.shape)
    return wrap_array(random.randn(shape, dtype=dtype.core, rng=_stream(generator)) * s + m, dtype)


@named("bernoulli")
def bernoulli(input, p=None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the Tensor holds, else 0."""
    rng = _stream(generator)
    if p is not None:
        numbers = random.bernoulli(number("bernoulli", "p", p), tuple(_core_shape(input)), rng=rng)
    else:
        chances = as_numbers(floating("bernoulli", "input", input))
        numbers = random.bernoulli(np.atleast_1d(chances), rng=rng).reshape(chances.shape)
    drawn = wrap_array(numbers, input.dtype)
    return drawn if p is not None else wrap(_core.constant_in(drawn, [input]), "BernoulliBackward0")


# In place.


def _fill(t, numbers, name: str, version: int, *operands) -> Tensor:
    op = f"{name.capitalize()}Backward{version}"
    new = cast(wrap_array(np.asarray(numbers).reshape(t.shape)), t.dtype)
    return assign(t, _core.constant_in(new, [*operands]) if operands else new, op, f"{name}_")


def _each(draw):
    """Draw numbers one by one, as PyTorch does where they are not one after the other in memory.

    Fewer than 16 are drawn so; more would be drawn in blocks.
    """

    def drawn(shape, **options) -> np.ndarray:
        parts = [draw((min(15, math.prod(shape) - i),), **options) for i in range(0, math.prod(shape), 15)]
        return np.concatenate(parts or [draw((0,), **options)]).reshape(shape)

    return drawn


_NUMBERS_OF = {"normal": ("mean", "std"), "uniform": ("from", "to"), "exponential": ("lambd",)}


def _drawn(t, name: str, version: int, generator: Generator | None, *given) -> Tensor:
    """Numbers of the stream in the shape and dtype of a Tensor, in place."""
    numbers = (number(f"{name}_", word, one) for word, one in zip(_NUMBERS_OF[name], given, strict=True))
    draw: Any = partial(getattr(random, name), *numbers)
    if name == "normal" and not _core.is_packed(t):
        draw = _each(draw)
    options = {"dtype": t.dtype.core, "rng": _stream(generator)}
    return _fill(t, in_memory_order(t, partial(draw, **options)), name, version)


def _coins(t, p, generator: Generator | None) -> np.ndarray:
    """1 with probability p: one for all, or one for each."""
    if not isinstance(p, Core) or not _core_shape(p):
        chance = number("bernoulli_", "p", p)
        return in_memory_order(t, lambda shape: random.bernoulli(chance, shape, rng=_stream(generator)))
    order = memory_order(t) or [*range(len(_core_shape(t)))]
    chances = np.broadcast_to(as_numbers(p), _core_shape(t)).transpose(order)
    drawn = random.bernoulli(np.atleast_1d(chances), rng=_stream(generator)).reshape(chances.shape)
    return drawn.transpose(np.argsort(order))


def _bernoulli_(t, p, generator: Generator | None) -> Tensor:
    chances = [p] if isinstance(p, Core) and t.dtype.kind == 2 else []
    return _fill(t, _coins(t, p, generator), "bernoulli", 1 if chances else 2, *chances)


def _whole_range(kind) -> tuple[int, int]:
    """The least and the largest whole number up to which all are of a dtype."""
    if kind.kind == 1:
        limits = np.iinfo(kind.dtype)
        return int(limits.min), int(limits.max)
    last = {"bool": 1, "float32": 2**24, "float64": 2**53}[kind.name]
    return (-last if kind.kind else 0), last


@named(".random_")
def random_(t, a: Any = ..., b: Any = ..., *, generator: Generator | None = None) -> Tensor:
    """Whole numbers below a bound, or from one to another, in place; without bounds all that the dtype has from 0."""
    stream, (least, last) = _stream(generator), _whole_range(t.dtype)
    if a is ... and t.dtype in (_dtypes.int64, _dtypes.int32):
        word = stream.random64 if t.dtype is _dtypes.int64 else stream.random32
        draw = lambda shape: np.reshape([word() & last for _ in range(t.numel())], shape)  # noqa: E731
        return _fill(t, in_memory_order(t, draw), "random", 2)
    low, high = (0, last + 1 if a is ... else a) if b is ... else (a, b)
    low, high = number("random_", "from", low), number("random_", "to", high)
    if not (least <= low and high <= last + 1):
        raise RuntimeError(
            f"random_: from and to must be in the range of {t.dtype}, {least} to {last + 1}; got {low} and {high}"
        )
    return _fill(
        t, in_memory_order(t, lambda shape: random.randint(low, high, shape, rng=stream)), "random", 2
    )


_TABLE = {
    "torch.seed": lambda: default_generator.seed(),
    "torch.initial_seed": lambda: default_generator.initial_seed(),
    "torch.get_rng_state": lambda: default_generator.get_state(),
    "torch.set_rng_state": lambda new_state: default_generator.set_state(new_state),
    ".normal_": lambda t, mean=0.0, std=1.0, *, generator=None: _drawn(t, "normal", 3, generator, mean, std),
    ".uniform_": lambda t, a=0.0, b=1.0, *, generator=None: _drawn(t, "uniform", 0, generator, a, b),
    ".bernoulli_": lambda t, p=0.5, *, generator=None: _bernoulli_(t, p, generator),
    ".exponential_": lambda t, lambd=1.0, *, generator=None: _drawn(t, "exponential", 0, generator, lambd),
    "multinomial": lambda input, num_samples, replacement=False, *, generator=None: wrap_array(
        random.multinomial(
            as_numbers(floating("multinomial", "input", input)),
            num_samples,
            flag("multinomial", "replacement", replacement),
            rng=_stream(generator),
        )
    ),
}
define(_TABLE)
