"""The seed and the state of a stream."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core import Generator
from .._public import explained
from .arguments import DEFAULT, generator_of


@explained
def manual_seed(s: int) -> Generator:
    """Restart the default generator at the beginning of the stream of seed ``s``.

    Parameters
    ----------
    s : int
        In [-2**63, 2**64). Only the low 32 bits matter, as in PyTorch.

    Returns
    -------
    Generator
        The default generator.

    Raises
    ------
    TypeError
        If ``s`` is not an integer.
    ValueError
        If ``s`` has more than 64 bits.

    Examples
    --------
    >>> import qkv
    >>> _ = qkv.manual_seed(123)
    >>> print(qkv.rand(2).round(4))
    [0.2961 0.5166]
    """
    return DEFAULT.manual_seed(s)


@explained
def get_rng_state(rng: Generator | None = None) -> npt.NDArray[np.uint32]:
    """Everything that decides the future of a stream, for exact resumption.

    Parameters
    ----------
    rng : Generator, optional
        The generator; the default one if None.

    Returns
    -------
    ndarray of uint32, shape (628,)
        Also holds the second normal of a pair that waits for its use. The layout differs from PyTorch's.

    Examples
    --------
    >>> import qkv
    >>> state = qkv.random.get_rng_state()
    >>> first = qkv.rand(3)
    >>> qkv.random.set_rng_state(state)
    >>> bool((qkv.rand(3) == first).all())
    True
    """
    state: npt.NDArray[np.uint32] = generator_of("get_rng_state", rng).get_state()
    return state


@explained
def set_rng_state(state: npt.NDArray[np.uint32], rng: Generator | None = None) -> None:
    """Continue a stream where :func:`get_rng_state` recorded it.

    Parameters
    ----------
    state : ndarray of uint32, shape (628,)
        What :func:`get_rng_state` returned.
    rng : Generator, optional
        The generator to change; the default one if None.

    Raises
    ------
    TypeError
        If ``state`` is not a uint32 array with one axis.
    ValueError
        If ``state`` does not come from a generator.
    """
    generator_of("set_rng_state", rng).set_state(np.asarray(state))
