"""Products of matrices, and sums of products in Einstein's notation."""

from __future__ import annotations

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import shown

__all__ = ["einsum", "matmul"]


@explained
def matmul(a: Numbers, b: Numbers) -> Result:
    """Matrix product ``a @ b`` by NumPy's rules: the last two axes multiply, the others broadcast.

    Parameters
    ----------
    a : array_like or Tensor
        ``(..., M, K)`` or ``(K,)``.
    b : array_like or Tensor
        ``(..., K, N)`` or ``(K,)``.

    Returns
    -------
    ndarray or Tensor
        ``(..., M, N)``; differentiable. Of integers exact integers, as in NumPy; beside floats they
        count as float32.

    Raises
    ------
    ValueError
        If ``K`` differs or the other axes do not broadcast.

    Examples
    --------
    >>> qkv.matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    return _core.matmul(a, b)


@explained
def einsum(subscripts: str, *operands: Numbers) -> Result:
    """Sums of products by names of axes: ``einsum("bqd,bkd->bqk", queries, keys)``.

    Parameters
    ----------
    subscripts : str
        A letter for each axis of each operand, separated by commas, and after ``->`` those of the result; ``...``
        stands for axes that broadcast. Letters that the result lacks are summed over. Without ``->`` the result has
        the letters that occur once, in alphabetical order.
    *operands : array_like or Tensor
        As many as terms; integers beside floats count as float32, among themselves they stay integers.

    Returns
    -------
    ndarray or Tensor
        Differentiable; computed by matrix products, two operands at a time from the left.

    Raises
    ------
    TypeError
        If ``subscripts`` is no string.
    ValueError
        If a term does not name each axis of its operand, an axis has two sizes, or the numbers of terms and operands
        differ.

    Examples
    --------
    >>> qkv.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum: subscripts must be a string such as 'ij,jk->ik'; got {shown(subscripts)}")
    if not operands:
        raise ValueError("einsum: operands must hold an array for each term; got none")
    return _core.einsum(subscripts, operands)
