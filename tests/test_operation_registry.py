"""Every operation that records a gradient is in the registry, and keeps the promise of its table."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.statements import core_methods
from operation_registry import ELEMENTWISE, FUSED, LAYOUT, covered
from second_checks import as_tuple

import qkv
from qkv import losses
from qkv._operations import BITS, OPERATIONS, PLACE, TRUTH

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan]
EXACT = {**ELEMENTWISE, **LAYOUT}


def bits(f, inputs, mask):
    """Gradients of the sum of what the mask leaves, not recorded and recorded."""
    results = []
    for create_graph in (False, True):
        tensors = [qkv.tensor(x, requires_grad=True) for x in inputs]
        outputs = as_tuple(f(*tensors))
        if mask is not None:
            outputs = [qkv.where(allowed, y, 0.0) for allowed, y in zip(mask, outputs, strict=True)]
        total = sum((y * math.prod(y.shape)).sum() for y in outputs)
        if not total.requires_grad:
            return None
        results.append(qkv.grad(total, tensors, create_graph=create_graph))
    return [[np.asarray(g.detach()) for g in gradients] for gradients in results]


def finite(f, inputs):
    with qkv.no_grad():
        return [np.isfinite(np.asarray(y)) for y in as_tuple(f(*(qkv.tensor(x) for x in inputs)))]


def specials(inputs):
    """The inputs with numbers at the edges in the first of them, at places that masks can leave out."""
    yield inputs
    for value in SPECIAL:
        planted = inputs[0].copy()
        planted.flat[1 :: max(2, planted.size // 3)] = value
        yield [planted, *inputs[1:]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EXACT)
def test_recorded_gradients_have_the_same_bits(name):
    f, *inputs = EXACT[name]
    for tried in specials(inputs):
        for mask in (None, finite(f, tried)):
            found = bits(f, tried, mask)
            if found is None:
                continue
            for plain, recorded in zip(*found, strict=True):
                assert plain.tobytes() == recorded.tobytes(), (plain, recorded)


LINE = np.array([-np.inf, -1.5, -0.0, 0.0, 0.5, 2.0, np.inf])


def of_any_shape(name):
    f, *inputs = EXACT[name]
    if len(inputs) > 1:
        return False
    try:
        return f(qkv.tensor(np.ones(7))).shape == (7,)
    except (ValueError, IndexError):
        return False


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in EXACT if of_any_shape(name)])
@pytest.mark.parametrize("allowed", [[2.0], [0.5, 2.0], [-1.5, 0.5, 2.0], [], list(LINE)], ids=str)
def test_recorded_gradients_have_the_same_bits_behind_masks(name, allowed):
    f, places = EXACT[name][0], np.isin(LINE, allowed)
    for y in (lambda x: qkv.where(places, f(x), 0.0), lambda x: f(x) * places):
        plain, recorded = bits(y, [LINE], None)
        assert plain[0].tobytes() == recorded[0].tobytes()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUSED)
def test_fused_gradients_are_those_of_the_composed_form(name):
    f, *inputs = FUSED[name]
    for plain, recorded in zip(*bits(f, inputs, None), strict=True):
        np.testing.assert_allclose(plain, recorded, rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_what_a_mask_leaves_out_has_no_gradient(name):
    """Where a result is left out, nothing of what it was computed from reaches the gradient."""
    f, *inputs = ELEMENTWISE[name]
    if inputs[0].shape != f(*map(qkv.tensor, inputs)).shape:
        return
    for tried in specials(inputs):
        nothing = np.zeros(tried[0].shape, bool)
        found = bits(f, tried, [nothing])
        for gradient in [] if found is None else [*found[0], *found[1]]:
            np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


# Functions of ops.h whose name in the registry is another one.
CALLED = {
    "binary": "add",
    "unary": "exp",
    "cast": "astype",
    "variance": "var",
    "stddev": "std",
    "product": "prod",
    "cumulative_sum": "cumsum",
    "cumulative_product": "cumprod",
    "linear_scan": "cumprod",
    "slice": "slices",
    "take_flat": "index",
    "lower_triangle": "tril",
    "upper_triangle": "triu",
    "linears": "linear",
    "activated": "gelu",
    "dropout": "dropout_with_mask",
    "binary_cross_entropy": "binary_cross_entropy_with_logits",
    "kl_divergence": "kl_div",
    "safe_sqrt": "scaled_distances",
    "weighted_values": "additive with dropout",
}
# Functions that record nothing, with the reason.
WITHOUT = {
    "compare bitwise invert all any": "their results are booleans or whole numbers",
    "argmax argmin topk entries_along one_hot": "their results are whole numbers",
    "scalar_like indicator": "constants",
    "times over negative scaled transposed sum_to softmax_gradient products_where_read": "parts of rules",
    "floating": "a cast",
    "dropped packed_as entries": "numbers of Tensors that others record",
}
# Functions and methods of Python that record nothing.
WITHOUT_IN_PYTHON = {
    "__bool__ __float__ __int__ __len__ item tolist tobytes numpy __array__ __dlpack__ __format__": "leave qkv",
    "__dlpack_device__ __repr__ __copy__ __deepcopy__ __delitem__ __array_function__": "no arithmetic",
    "__invert__ __rand__ __ror__ __rxor__ __iand__ __ior__ __ixor__ argsort one_hot": "booleans or whole numbers",
    "backward detach": "of the graph itself",
    "NadarayaWatson Generator Tensor tensor grad jacobian no_grad no_attention_record": "no operations",
    "manual_seed bernoulli normal rand randint randn randperm uniform": "random numbers",
    "alibi_slopes relative_rotation rotary_tables sinusoidal_positions": "tables",
    "attention_image": "a picture, without gradients",
    "cached_bytes config empty_cache get_reproducible get_num_threads set_reproducible "
    "set_num_threads show_config": "settings",
}
# Operators of Python, by the entry that uses them; others are those of rows.
OPERATORS = {
    "reflected": "__radd__ __rsub__ __rmul__ __rtruediv__ __rpow__ __rmod__",
    "kept": "__pos__",
    "of the quotient": "__floordiv__ __divmod__ __rdivmod__ __rfloordiv__",
    "matmul": "__matmul__",
    "matmul with an array": "__rmatmul__",
    "slices": "__getitem__",
    "iteration": "__iter__",
    "set item": "__setitem__",
    "+= and its kin": "__iadd__ __isub__ __imul__ __itruediv__ __ipow__ __ifloordiv__ __imod__",
}
WRITTEN = {*ELEMENTWISE, *LAYOUT, *FUSED}
HEADER = Path(__file__).parents[1] / "cpp" / "ops" / "ops.h"


# Rows of the table whose results are booleans or whole numbers.
WHOLE = {row.core or row.name for row in OPERATIONS.values() if row.dtype in (BITS, TRUTH, PLACE)}


def words(table):
    return {name for names in table for name in names.split()}


def operators():
    return {name for names in OPERATORS.values() for name in names.split()}


def test_no_operation_of_the_core_is_missing():
    text = HEADER.read_text(encoding="utf8")
    declared = set(re.findall(r"^(?:inline )?(?:Tensor|Tensors|Array) (\w+)\(", text, re.M))
    assert len(declared) > 60
    present = covered() | WRITTEN
    missing = {name for name in declared - words(WITHOUT) if CALLED.get(name, name) not in present}
    assert not missing
    assert set(CALLED) | words(WITHOUT) <= declared, "names that ops.h has no longer"


def public() -> set[str]:
    functions = {name for module in (qkv, losses) for name in module.__all__ if not name.startswith("_")}
    functions -= {name for name in functions if isinstance(getattr(qkv, name, None), type(qkv))}
    return functions | set(core_methods()["Tensor"]) - {"_data"}


def test_no_public_function_or_method_is_missing():
    present = covered() | operators() | words(WITHOUT_IN_PYTHON) | WHOLE
    assert not public() - present
    assert operators() | words(WITHOUT_IN_PYTHON) <= public() | {"__iter__"}
    assert set(OPERATORS) <= WRITTEN
