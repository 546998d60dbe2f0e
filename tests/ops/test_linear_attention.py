"""`qkv.linear_attention` against its recurrence in float64 and against ONNX's own cases."""

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv.reference import linear_attention as expected
from qkv.testing import check_gradient

RULES = ("linear", "gated", "delta", "gated_delta")
# Rules, and whether features have decays of their own.
KINDS = [*((rule, False) for rule in RULES), ("gated", True), ("gated_delta", True)]
RNG = np.random.default_rng(7)


def inputs(rule, *, B=2, H=2, shared=1, T=37, D=5, Dv=3, per_feature=False, strength=0.3):
    """Arrays by name, with keys of length 1."""
    k = RNG.standard_normal((B, H, T, D))
    made = {
        "query": RNG.standard_normal((B, H * shared, T, D)),
        "key": k / np.linalg.norm(k, axis=-1, keepdims=True),
        "value": RNG.standard_normal((B, H, T, Dv)),
    }
    if "gated" in rule:
        size = (B, H, T, D) if per_feature else (B, H, T)
        made["decay"] = -strength * np.abs(RNG.standard_normal(size))
    if "delta" in rule:
        made["beta"] = RNG.random((B, H, T))
    return made


def both(rule, made, dtype="float64", **options):
    state = options.pop("state", None)
    given = {name: x.astype(dtype) for name, x in made.items()}
    y, last = qkv.linear_attention(**given, update_rule=rule, state=state, return_state=True, **options)
    assert y.dtype == last.dtype == np.dtype(dtype)
    options.pop("chunk_size", None)
    wanted = expected(**made, state=state, **options)
    return (y, last), wanted


@pytest.mark.parametrize(("rule", "per_feature"), KINDS)
@pytest.mark.parametrize("T", [1, 7, 8, 9, 31, 32, 33, 100])
@sweep("dtype, tolerance", [("float64", 1e-12), ("float32", 2e-5)])
def test_it_is_the_recurrence(rule, per_feature, T, dtype, tolerance):
    for shared, chunk_size, strength in ((1, 64, 0.1), (3, 10, 1.0), (2, 1, 5.0)):
        made = inputs(rule, T=T, shared=shared, per_feature=per_feature, strength=strength)
        state = RNG.standard_normal((2, 2, 5, 3))
        got, wanted = both(rule, made, dtype, chunk_size=chunk_size, state=state.astype(dtype))
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


@pytest.mark.parametrize("rule", RULES)
def test_with_and_without_gradients_it_is_the_same_bits(rule):
    made = inputs(rule)
    plain = qkv.linear_attention(**made, update_rule=rule)
    recorded = qkv.linear_attention(
        **{name: qkv.tensor(x, requires_grad=True) for name, x in made.items()}, update_rule=rule
    )
    assert recorded.requires_grad
    assert (recorded.numpy() == plain).all()


@pytest.mark.parametrize(("rule", "per_feature"), KINDS)
def test_gradients(rule, per_feature):
    made = inputs(rule, B=1, H=2, shared=2, T=19, D=3, Dv=2, per_feature=per_feature)
    names, factor = list(made), qkv.tensor(RNG.standard_normal((1, 4, 19, 2)))

    def loss(state, *arrays):
        y, last = qkv.linear_attention(
            **dict(zip(names, arrays, strict=True)),
            state=state,
            update_rule=rule,
            chunk_size=9,
            return_state=True,
        )
        return (y * factor).sum() + (last * last).sum()

    state = RNG.standard_normal((1, 2, 3, 2))
    check_gradient(loss, state, *made.values())

    # The second derivative, along one direction.
    arrays = [state, *made.values()]
    directions = [RNG.standard_normal(x.shape) for x in arrays]

    def squares(tensors, **options):
        return sum((g * g).sum() for g in qkv.grad(loss(*tensors), tensors, **options))

    def at(step):
        return [qkv.tensor(x + step * d, requires_grad=True) for x, d in zip(arrays, directions, strict=True)]

    tensors = at(0.0)
    exact = sum(
        float((g * d).sum())
        for g, d in zip(qkv.grad(squares(tensors, create_graph=True), tensors), directions, strict=True)
    )
    step = 1e-5
    measured = (float(squares(at(step))) - float(squares(at(-step)))) / (2 * step)
    assert exact == pytest.approx(measured, rel=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_it_goes_on_from_a_state(rule):
    made = inputs(rule, T=50, per_feature=True)
    whole, last = qkv.linear_attention(**made, update_rule=rule, return_state=True)
    state, parts = None, []
    for begin, end in ((0, 33), (33, 34), (34, 50)):
        part = {name: x[:, :, begin:end] for name, x in made.items()}
        y, state = qkv.linear_attention(**part, update_rule=rule, state=state, return_state=True)
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, 2), whole, atol=1e-12)
    np.testing.assert_allclose(state, last, atol=1e-12)


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("rule", ["gated", "gated_delta"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_forgotten_is_gone(rule, per_feature, dtype):
    made = inputs(rule, T=40, per_feature=per_feature)
    made["decay"][:, :, 20] = -np.inf
    made["decay"][:, :, 30:35] = -1e30
    (got, _), (wanted, _) = both(rule, made, dtype)
    np.testing.assert_allclose(got, wanted, atol=1e-4 if dtype == "float32" else 1e-10)
    tensors = {name: qkv.tensor(x, requires_grad=True) for name, x in made.items()}
    qkv.linear_attention(**tensors, update_rule=rule)[:, :, 20:].sum().backward()
    for name, t in tensors.items():
        assert np.isfinite(t.grad.numpy()).all(), name
    assert (tensors["key"].grad.numpy()[:, :, :20] == 0).all()
    assert (tensors["value"].grad.numpy()[:, :, 20:40] != 0).any()


def test_no_steps_and_no_items():
    q = np.ones((2, 4, 0, 3), "float32")
    state = RNG.standard_normal((2, 2, 3, 5)).astype("float32")
    y, last = qkv.linear_attention(
        q, q[:, :2], np.ones((2, 2, 0, 5), "float32"), state=state, return_state=True
    )
    assert y.shape == (2, 4, 0, 5)
    assert (last == state).all()
    assert qkv.linear_attention(*np.ones((3, 0, 2, 4, 3))).shape == (0, 2, 4, 3)
    assert (
        qkv.linear_attention(np.ones((1, 1, 4, 0)), np.ones((1, 1, 4, 0)), np.ones((1, 1, 4, 2))) == 0
    ).all()


def test_any_memory_and_threads():
    made = inputs("gated_delta", B=3, H=4, T=70)
    turned = {name: np.asfortranarray(x) for name, x in made.items()}
    for x in turned.values():
        x.flags.writeable = False
    plain = qkv.linear_attention(**made, update_rule="gated_delta")
    assert (qkv.linear_attention(**turned, update_rule="gated_delta") == plain).all()
    before = qkv.get_num_threads()
    try:
        qkv.set_num_threads(1)
        assert (qkv.linear_attention(**made, update_rule="gated_delta") == plain).all()
    finally:
        qkv.set_num_threads(before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": np.ones((2, 4, 3))}, r"query must be \(B, H, T, D\); got query \(2, 4, 3\) with 3 axes"),
        (
            {"key": np.ones((1, 2, 5, 3))},
            r"key must be \(B, Hkv, T, D\) = \(1, 2, 4, 3\); got key \(1, 2, 5, 3\)",
        ),
        (
            {"query": np.ones((1, 3, 4, 3))},
            r"query must have a multiple of the keys' heads, 2; got query \(1, 3, 4, 3\)",
        ),
        ({"value": np.ones((1, 1, 4, 3))}, r"value must be \(B, Hkv, T, Dv\) = \(1, 2, 4, 3\); got value"),
        (
            {"update_rule": "gated"},
            'decay must be given because update_rule="gated" fades the state; got None',
        ),
        (
            {"update_rule": "delta"},
            'beta must be given because update_rule="delta" corrects by this rate; got None',
        ),
        (
            {"decay": np.ones((1, 2, 4))},
            'decay must be left out because update_rule="linear" does not use it; got',
        ),
        (
            {"update_rule": "gated", "decay": np.ones((1, 2, 3))},
            r"decay must be \(B, Hkv, T\) = \(1, 2, 4\); got decay",
        ),
        (
            {"state": np.ones((1, 2, 3))},
            r"state must be \(B, Hkv, D, Dv\) = \(1, 2, 3, 3\); got state \(1, 2, 3\)",
        ),
        (
            {"update_rule": "fast"},
            'update_rule must be "linear", "gated", "delta" or "gated_delta"; got "fast"',
        ),
        ({"chunk_size": 0}, "chunk_size must be at least 1; got 0"),
        ({"scale": np.inf}, "scale must be finite; got inf"),
    ],
)
def test_rejections(changes, message):
    given = dict.fromkeys(("query", "key", "value"), np.ones((1, 2, 4, 3))) | changes
    with pytest.raises(ValueError, match=f"^linear_attention: {message}"):
        qkv.linear_attention(**given)


def onnx_cases():
    cases = pytest.importorskip("onnx.backend.test.case.node.linear_attention")
    found = {}
    before = cases.expect
    cases.expect = lambda node, inputs, outputs, name, **_: found.update({name: (node, inputs, outputs)})
    try:
        for name in dir(cases.LinearAttention):
            if name.startswith("export"):
                getattr(cases.LinearAttention, name)()
    finally:
        cases.expect = before
    return found


def test_the_cases_of_onnx():
    cases = onnx_cases()
    assert len(cases) >= 14
    for name, (node, arrays, outputs) in cases.items():
        attributes = {a.name: a.s.decode() if a.s else a.f or a.i for a in node.attribute}
        given = dict(zip([n for n in node.input if n], arrays, strict=True))
        heads, shared = attributes["kv_num_heads"], attributes["q_num_heads"]

        def split(x, count):
            return np.moveaxis(x.reshape(*x.shape[:2], count, -1), 2, 1)

        decay, beta = given.get("decay"), given.get("beta")
        if decay is not None:
            decay = split(decay, heads)
            decay = decay[..., 0] if given["decay"].shape[-1] == heads else decay
        if beta is not None:
            beta = np.broadcast_to(np.moveaxis(beta, 2, 1), (beta.shape[0], heads, beta.shape[1]))
        y, state = qkv.linear_attention(
            split(given["query"], shared),
            split(given["key"], heads),
            split(given["value"], heads),
            decay=decay,
            beta=beta,
            update_rule=attributes.get("update_rule", "gated_delta"),
            scale=attributes.get("scale") or None,
            state=given.get("past_state"),
            return_state=True,
        )
        tolerance = 2e-3 if outputs[0].dtype == np.float16 else 1e-5
        y = np.moveaxis(y, 1, 2).reshape(outputs[0].shape)
        np.testing.assert_allclose(y, outputs[0], rtol=tolerance, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(state, outputs[1], rtol=tolerance, atol=tolerance, err_msg=name)


def test_no_step_gives_the_state_and_records():
    made = {
        name: qkv.tensor(x, requires_grad=True) for name, x in inputs("gated_delta", T=0, shared=2).items()
    }
    y, last = qkv.linear_attention(**made, update_rule="gated_delta", return_state=True)
    assert (y.shape, last.shape) == ((2, 4, 0, 3), (2, 2, 5, 3))
    y.sum().backward()
    assert made["query"].grad.shape == (2, 4, 0, 5)
    check_gradient(
        lambda state: qkv.linear_attention(**made, update_rule="gated_delta", state=state, return_state=True)[
            1
        ],
        RNG.standard_normal((2, 2, 5, 3)),
    )
