"""Random masks and scores beside plain NumPy: what blocks decide, what attention computes, what pictures show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qkv
from qkv._formulas import program
from qkv._formulas.errors import FormulaError
from qkv._formulas.evaluation import check_integers, evaluate
from qkv._formulas.graph import PAIR, Graph
from qkv._formulas.intervals import EMPTY, FULL, MIXED, Blocks
from qkv._formulas.trace import trace

from .expressions import B, Draw, H, UnsureError, differs, spelt

REFUSALS = ("of 32 bits", "none that is 0", "fit 32 bits", "of 64 bits at most")


def drawn(seed: int, length: int, kind: str = "b") -> tuple[Any, Any, str]:
    """Return a random expression, a formula that says so, and a dtype; tables of every second one are not finite."""
    rng = np.random.default_rng(seed)
    expression = Draw(rng, length, bool(seed % 2)).expression(kind, int(rng.integers(2, 6)))
    return (
        expression,
        lambda *indices: spelt(expression, dict(zip("bhqk", indices[-4:], strict=True))),
        ("float32", "float64")[seed // 2 % 2],
    )


def refused(error: Exception, seed: int) -> str:
    assert isinstance(error, UnsureError) or any(text in str(error) for text in REFUSALS), (seed, error)
    return "refused"


def check_blocks(seed: int, length: int = 24) -> str:
    """Compare the kinds of blocks with all pairs, and these with NumPy's; say what came of it."""
    expression, formula, dtype = drawn(seed, length)
    shape = (B, H, length, length)
    graph = Graph(shape, dtype=dtype)
    try:
        node = trace(graph, formula, False)
        check_integers(graph, node)
    except FormulaError as error:
        return refused(error, seed)
    if node.level != PAIR:
        return "below pairs"
    dense = np.broadcast_to(evaluate(graph, node), shape)
    decided = 0
    for rows, columns in ((6, 8), (8, 8), (length, length)):
        kinds = np.broadcast_to(
            Blocks(graph, (rows, columns)).kinds(node), (B, H, length // rows, length // columns)
        )
        pairs = dense.reshape(B, H, length // rows, rows, length // columns, columns)
        assert not (pairs.any((3, 5)) & (kinds == EMPTY)).any(), seed
        assert not (~pairs.all((3, 5)) & (kinds == FULL)).any(), seed
        decided += np.count_nonzero(kinds != MIXED)
    try:
        assert not differs(expression, dense, dtype), seed
    except UnsureError:
        return "unsure"
    return "decided" if decided else "mixed"


def test_blocks_decide_as_all_pairs_do():
    outcomes = [check_blocks(seed) for seed in range(3000)]
    assert outcomes.count("decided") > 800
    assert outcomes.count("refused") < 600


def attend(monkeypatch: pytest.MonkeyPatch, blocks: Any, inputs: Any, **formulas: Any) -> Any:
    """Return weights and gradients, with blocks as they are classified or all mixed."""
    monkeypatch.setattr(program, "Blocks", blocks)
    tensors = [qkv.tensor(x, requires_grad=True) for x in inputs]
    output, weights = qkv.scaled_dot_product_attention(*tensors, **formulas, return_weights=True)
    return [weights.detach().numpy(), *qkv.grad((output * inputs[2]).sum(), tensors)]


class AllMixed(Blocks):
    def kinds(self, mask: Any) -> Any:
        return np.full_like(super().kinds(mask), MIXED)


def check_attention(monkeypatch: pytest.MonkeyPatch, seed: int, length: int) -> str:
    expression, mask, dtype = drawn(seed, length)
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((B, H, length, 4)).astype(dtype) for _ in range(3)]
    try:
        found = attend(monkeypatch, Blocks, inputs, mask_mod=mask)
    except ValueError as error:
        return refused(error, seed)
    for one, other in zip(found, attend(monkeypatch, AllMixed, inputs, mask_mod=mask), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(seed))
    try:
        assert not differs(expression, found[0] > 0, dtype), seed
    except UnsureError:
        return "unsure"
    return "judged"


@pytest.mark.parametrize(
    ("length", "seeds"), [(19, range(400)), (131, range(400, 480)), (263, range(480, 500))]
)
def test_attention_allows_what_numpy_does(monkeypatch, length, seeds):
    outcomes = [check_attention(monkeypatch, seed, length) for seed in seeds]
    assert outcomes.count("judged") > len(seeds) // 2


def check_scores(seed: int, length: int = 11) -> str:
    """Compare a random score between -4 and 4 with NumPy's, by its sigmoid weights, and two ways to its gradients."""
    expression, score, dtype = drawn(seed, length, "f")
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((B, H, length, 4)).astype(dtype) for _ in range(3)]
    tensors = [qkv.tensor(x, requires_grad=True) for x in inputs]

    def bounded(s: Any, *indices: Any) -> Any:
        x = score(*indices)
        return s * 0.5 + np.minimum(np.maximum(np.where(x == x, x, 0.0), -4.0), 4.0)

    tolerance = 1e-12 if dtype == "float64" else 1e-5
    try:
        output, weights = qkv.scaled_dot_product_attention(
            *tensors, score_mod=bounded, normalizer="sigmoid", return_weights=True
        )
        w = weights.detach().numpy()
        found = np.log(w / (1 - w)) - inputs[0] @ np.swapaxes(inputs[1], -1, -2) / 4
        assert not differs(expression, found, dtype, 30 * tolerance), seed
    except (ValueError, UnsureError) as error:
        return refused(error, seed)
    loss = (output * output).sum()
    fused = qkv.grad(loss, tensors, retain_graph=True)
    for one, other in zip(fused, qkv.grad(loss, tensors, create_graph=True), strict=True):
        np.testing.assert_allclose(one, other.detach(), 100 * tolerance, 100 * tolerance, err_msg=str(seed))
    return "judged"


def test_scores_are_what_numpy_makes_of_them():
    outcomes = [check_scores(seed) for seed in range(10_000, 10_500)]
    assert outcomes.count("judged") > 350


def test_the_judge_notices_a_wrong_decision(monkeypatch):
    """With ranges as they would be if NaN compared as a number and products of one node as those of two."""
    from qkv._formulas import ranges

    monkeypatch.setitem(ranges._CONDITIONS, "less_equal", lambda a, b: (a[1] <= b[0], a[0] <= b[1]))
    monkeypatch.setitem(ranges._CONDITIONS, "less", lambda a, b: (a[1] < b[0], a[0] < b[1]))
    with pytest.raises(AssertionError):
        [check_blocks(seed) for seed in range(1000)]


def test_masks_are_pytorchs():
    torch = pytest.importorskip("torch")
    real = pytest.importorskip("torch.nn.attention.flex_attention")
    from qkv.torch.nn.attention import flex_attention as ours

    t, n = (
        torch.tensor([0.3, -1.5, 2.5, float("nan"), 4.0, float("inf"), 0.0]),
        torch.tensor([3, 2, 5, 7, 1, 4, 6]),
    )
    masks = {
        "roots": lambda b, h, q, k: torch.sqrt((t[q] - t[k]) ** 2 + (q - k) ** 2) <= 2.5,
        "logarithms": lambda b, h, q, k: torch.log(t[q] * t[k]) > 0.5,
        "unequal": lambda b, h, q, k: t[q] != t[k],
        "not above": lambda b, h, q, k: ~(t[q] * t[k] > 1),
        "bits": lambda b, h, q, k: 2 * (q ^ k) - (~(q | k)) < 12,
        "shifts": lambda b, h, q, k: ((q * k) << 1) >> (k & 1) > 5,
        "remainders": lambda b, h, q, k: (n[q] * n[k]) % 4 + n[q] // n[k] > 1,
        "of floats": lambda b, h, q, k: (t[q] * t[k]) % 0.7 < 0.3,
        "quotients": lambda b, h, q, k: (t[q] * t[k]) // 0.7 < 3,
        "powers": lambda b, h, q, k: (t[q] - k) ** 3 > -4.0,
        "rounded": lambda b, h, q, k: (t[q] + 1e-9 * k) <= t[q],
        "integers": lambda b, h, q, k: (t[q] * 3 + k).int() % 2 == 0,
    }
    for name, mask in masks.items():
        wanted = real.create_mask(mask, 1, 1, 7, 7, device="cpu").numpy()
        np.testing.assert_array_equal(ours.create_mask(mask, 1, 1, 7, 7), wanted, err_msg=name)
        x = np.zeros((1, 1, 7, 4), "float32")
        found = qkv.scaled_dot_product_attention(x, x, x, mask_mod=mask, return_weights=True)[1] > 0
        np.testing.assert_array_equal(found, wanted, err_msg=name)
