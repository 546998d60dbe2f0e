"""Operations, each told once: by what the core computes it, its names in NumPy and PyTorch, its arguments, the dtype of
its result, and inputs to try it at.

The docstrings of qkv's functions, NumPy's functions of Tensors (`_numpy`), what formulas know (`_formulas.operations`),
hints of errors (`_words`), functions and methods of `qkv.torch` (`torch._views`), their signatures, and the
table of gradients that the tests check are views of this table. It imports nothing but the core.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from . import _core

# dtypes of results, as PyTorch has them. The core's own rules are in its bindings: whole numbers become floating ones
# where a function has no others, and two operands get the dtype that both have together.
FLOATS = "floats"  # whole numbers become the default dtype
OWN = "own"  # of the argument, whole numbers too
COMMON = "common"  # that both operands have together
QUOTIENT = "quotient"  # the same, but whole numbers become the default dtype
TRUTH = "truth"  # compared as COMMON: booleans
BITS = "bits"  # the same of booleans and integers; floating ones are refused
TOTAL = "total"  # whole numbers are added up as int64
FLOATING = "floating"  # whole numbers are refused
PLACE = "place"  # int64
JOINED = "joined"  # that all fit, by Tensors alone

# What a parameter is called, here and in NumPy, and in PyTorch.
SPELLINGS = {"x": "input", "a": "input", "b": "other", "axis": "dim", "keepdims": "keepdim"}


class Operation(NamedTuple):
    """One row; `core` is the function of the core, `parameters` its arguments as qkv and NumPy spell them."""

    name: str
    formula: str
    parameters: str = "x"
    dtype: str = FLOATS
    core: str = ""  # a method of the core's Tensor; "" the function of that name
    numpy: str = ""  # the ufunc; "" none
    torch: str = ""  # functions and methods, with blanks between; "" none
    operator: str = ""  # of classes of Tensors, without underscores
    gradient: str = ""  # what the operation is called where PyTorch prints grad_fn
    samples: tuple[str, ...] = ("any",)
    traced: bool = False  # score_mod and mask_mod compute it for pairs, too

    @property
    def compute(self) -> Any:
        """The core's function."""
        return getattr(_core.Tensor, self.core) if self.core else getattr(_core, self.name)

    @property
    def whole(self) -> Any:
        """What gives whole numbers as they are; None where the core computes with these, too."""
        return _core.Tensor.copy if self.name in ("floor", "ceil", "trunc") else None

    @property
    def signature(self) -> str:
        """The parameters as PyTorch spells them."""
        parts = (part.partition("=") for part in self.parameters.split(", "))
        return ", ".join(SPELLINGS.get(name, name) + equal + default for name, equal, default in parts)


# A line for each: name (with a + if formulas know it), NumPy's, PyTorch's names, an operator or .method that computes
# it, gradient, samples, formula; under their parameters and the rule for the dtype.
_TABLE = """
(x) -> floats
  exp+      exp    exp      -  Exp      any       Exponential ``e^x``
  exp2+     exp2   exp2     -  Exp2     any       Power of two ``2^x``
  expm1     expm1  expm1    -  Expm1    any       ``e^x - 1``, with its digits near 0
  log+      log    log      -  Log      positive  Natural logarithm; -inf at 0, NaN below
  log1p     log1p  log1p    -  Log1P    positive  ``log(1 + x)``, with its digits near 0
  log2      log2   log2     -  Log2     positive  Logarithm to base 2
  log10     log10  log10    -  Log10    positive  Logarithm to base 10
  sqrt+     sqrt   sqrt     -  Sqrt     positive  Square root; NaN below 0
  sin+      sin    sin      -  Sin      any       Sine of an angle in radians
  cos+      cos    cos      -  Cos      any       Cosine of an angle in radians
  tan       tan    tan      -  Tan      small     Tangent of an angle in radians
  sinh      sinh   sinh     -  Sinh     any       Hyperbolic sine
  cosh      cosh   cosh     -  Cosh     any       Hyperbolic cosine
  tanh+     tanh   tanh     -  Tanh     any       Hyperbolic tangent ``(e^x - e^-x) / (e^x + e^-x)``
  sigmoid+  -      sigmoid  -  Sigmoid  any       ``1 / (1 + e^-x)``, without overflow and with all digits near 0
  erf+      -      erf      -  Erf      any       ``2 / sqrt(pi)`` times the integral of ``e^(-t^2)`` from 0
  relu+     -      -        -  Relu     any       ``max(x, 0)``; the derivative at 0 is 0, NaN stays NaN
  gelu      -      -        -  Gelu     any       ``x Phi(x)``, Phi the standard normal distribution function
  silu      -      -        -  Silu     any       ``x / (1 + exp(-x))``, also called swish
(x) -> own
  abs+       absolute  abs,absolute  abs  Abs    any  Absolute value; its gradient at 0 is 0
  negative+  negative  neg,negative  neg  Neg    any  ``-x``
  floor+     -         floor         -    Floor  any  The next whole number below
  ceil       -         ceil          -    Ceil   any  The next whole number above
  trunc      -         trunc         -    Trunc  any  Without what follows the point
(x, low=None, high=None) -> own
  clip+  -  -  -  Clamp  any  Numbers below ``low`` become ``low``, above ``high`` ``high``; these get no gradient
(condition, a, b) -> common
  where+  -  -  -  Where  any  ``a`` where the condition holds, ``b`` elsewhere; all three broadcast
(a, b) -> common
  add+           add           add           add       Add        any,positive  ``a + b``
  subtract+      subtract      sub,subtract  sub       Sub        any,positive  ``a - b``
  multiply+      multiply      mul,multiply  mul       Mul        any,positive  ``a * b``
  power+         power         pow           pow       Pow        positive      ``a ** b``
  remainder+     remainder     remainder     mod       Remainder  any,positive  ``a % b``, with the sign of ``b``
  fmod           fmod          fmod          -         Fmod       any,positive  ``a % b``, with the sign of ``a``
  floor_divide+  floor_divide  floor_divide  floordiv  -          any,positive  ``a // b``; backward is refused
  maximum+       maximum       maximum       -         Maximum    any,positive  The larger; equals share the gradient
  minimum+       minimum       minimum       -         Minimum    any,positive  The smaller; equals share the gradient
(a, b) -> quotient
  divide+  divide  div,divide,true_divide  truediv  Div  any,positive  ``a / b``
(a, b) -> bits
  bitwise_and+  bitwise_and  bitwise_and  and  -  any,positive  ``a & b`` of booleans, or bit by bit of integers
  bitwise_or+   bitwise_or   bitwise_or   or   -  any,positive  ``a | b`` of booleans, or bit by bit of integers
  bitwise_xor+  bitwise_xor  bitwise_xor  xor  -  any,positive  ``a ^ b`` of booleans, or bit by bit of integers
(a, b) -> truth
  equal+          equal          eq  eq  -  any,positive  ``a == b``
  not_equal+      not_equal      ne  ne  -  any,positive  ``a != b``
  less+           less           lt  lt  -  any,positive  ``a < b``
  less_equal+     less_equal     le  le  -  any,positive  ``a <= b``
  greater+        greater        gt  gt  -  any,positive  ``a > b``
  greater_equal+  greater_equal  ge  ge  -  any,positive  ``a >= b``
(x, axis=None, keepdims=False) -> total
  sum   -  sum   .sum   Sum   any  Sum over axes, or of everything
  prod  -  prod  .prod  Prod  any  Product along an axis, or of everything
(x, axis=None, keepdims=False) -> floating
  mean  -  mean  .mean  Mean  any  Mean over axes, or of everything
(x, axis=None, keepdims=False) -> own
  amax  -  amax  .max  Amax  any  The largest numbers; equal ones share the gradient
  amin  -  amin  .min  Amin  any  The smallest numbers; equal ones share the gradient
(x, axis=None, keepdims=False) -> place
  any     -  any     .any     -  any  Whether any of the numbers over axes, or of everything, is not 0
  all     -  all     .all     -  any  Whether all of the numbers over axes, or of everything, are not 0
  argmax  -  argmax  .argmax  -  any  Number of the largest entry; the first of equal ones
  argmin  -  argmin  .argmin  -  any  Number of the smallest entry; the first of equal ones
(x, axis) -> floating
  softmax      -  softmax      -  Softmax     any  ``exp(x)`` divided by its sum along an axis
  log_softmax  -  log_softmax  -  LogSoftmax  any  Logarithm of the softmax
(tensors, axis=0) -> joined
  concatenate  -  cat,concat,concatenate  -  Cat    any  Joined along an axis that they have
  stack        -  stack                   -  Stack  any  Joined along a new axis, of equal shapes
"""


def _read(table: str) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    parameters = dtype = ""
    for line in table.strip().split("\n"):
        if line[0] == "(":
            parameters, _, dtype = line[1:].partition(") -> ")
            continue
        cells = re.split(r"  +", line.strip(), maxsplit=6)
        name, numpy, torch, core, gradient, samples, formula = ("" if cell == "-" else cell for cell in cells)
        operator = "" if core.startswith(".") else core
        core = f"__{operator}__" if operator else core[1:]
        words, tried = torch.replace(",", " "), tuple(samples.split(","))
        name, traced = name.rstrip("+"), name.endswith("+")
        found[name] = Operation(
            name, formula, parameters, dtype, core, numpy, words, operator, gradient, tried, traced
        )
    return found


OPERATIONS = _read(_TABLE)
