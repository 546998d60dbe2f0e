"""Random numbers: the digits of PyTorch's CPU generator.

randperm: The numbers from 0 to n - 1 in random order.
normal_: Normal numbers, in place.
uniform_: Uniform numbers from a to b, in place.
multinomial: Numbers of entries, drawn with probability proportional to them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import _core, random
from . import _dtypes
from ._arguments import floating, number
from ._change import assign
from ._creation import factory
from ._elementwise import as_numbers, cast
from ._shaping import in_memory_order, memory_order, sizes
from ._tensor import Tensor, define, named, wrap_array

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
        self._stream = _core.Generator(67280421310721) if _stream is None else _stream

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at the beginning of a seed's."""
        self._stream.manual_seed(int(seed))
        return self


default_generator = Generator(_stream=_core.default_generator())


@named("torch.manual_seed")
def manual_seed(seed: Any) -> Generator:
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


randperm = factory("randperm", lambda: _dtypes.int64)(
    lambda n, *, generator=None: random.randperm(n, rng=_stream(generator))
)


@factory("normal", _dtypes.get_default_dtype)
def normal(mean=0.0, std=1.0, size=(), *, generator: Generator | None = None, dtype):
    """Normal numbers of a mean and a deviation."""
    return random.normal(mean, std, sizes((size,)), dtype=dtype.core, rng=_stream(generator))


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


_NUMBERS_OF = {"normal": ("mean", "std"), "uniform": ("from", "to")}


def _drawn(t, name: str, version: int, generator: Generator | None, *given) -> Tensor:
    """Numbers of the stream in the shape and dtype of a Tensor, in place."""
    numbers = (number(f"{name}_", word, one) for word, one in zip(_NUMBERS_OF[name], given, strict=True))
    draw: Any = partial(getattr(random, name), *numbers)
    if name == "normal" and not _core.is_packed(t):
        draw = _each(draw)
    options = {"dtype": t.dtype.core, "rng": _stream(generator)}
    return _fill(t, in_memory_order(t, partial(draw, **options)), name, version)


_TABLE = {
    ".normal_": lambda t, mean=0.0, std=1.0, *, generator=None: _drawn(t, "normal", 3, generator, mean, std),
    ".uniform_": lambda t, a=0.0, b=1.0, *, generator=None: _drawn(t, "uniform", 0, generator, a, b),
    "multinomial": lambda input, num_samples, replacement=False, *, generator=None: wrap_array(
        random.multinomial(
            as_numbers(floating("multinomial", "input", input)),
            num_samples,
            replacement,
            rng=_stream(generator),
        )
    ),
}
define(_TABLE)
