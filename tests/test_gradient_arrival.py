"""A Tensor that records, in place of any argument of a public function: its gradient arrives or a line says why not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from gradient_arrival import answers, lost_gradients

import qkv
from qkv import losses, masks, nn, optim, random, scores

X = np.linspace(0.1, 0.9, 15).reshape(3, 5)
CUBE = np.linspace(-1, 1, 70).reshape(2, 5, 7)
HEADS = np.linspace(-1, 1, 60).reshape(1, 2, 5, 6)
CLASSES = np.array([0, 1, 4])


def optimizer():
    return optim.SGD([nn.Parameter(np.ones(3))], 0.1)


ATTENTION = {
    "attn_mask": np.zeros((5, 5)), "alibi_slopes": np.ones(2), "sinks": np.ones(2), "valid_lens": [5], "window": (2, 2),
    "q_offset": 0,
}  # fmt: skip
# Arguments of legal calls; functions of one array are called with X.
ARGUMENTS = {
    "NadarayaWatson": {"bandwidth": np.ones(2)},
    "additive_attention": dict(
        queries=CUBE,
        keys=CUBE,
        values=CUBE,
        score_weight=np.ones(7),
        attn_mask=np.zeros((5, 5)),
        valid_lens=[5, 3],
    ),
    "alibi_slopes": {"num_heads": 3},
    "apply_rotary": dict(x=HEADS, cos=np.ones((5, 3)), sin=np.ones((5, 3))),
    "attention_image": dict(query=HEADS, key=HEADS, size=(3, 3), rows=(0, 4), columns=(0, 4), **ATTENTION),
    "bernoulli": {"p": X},
    "grad": None,  # asks for gradients
    "jacobian": None,
    "kernel_attention": dict(queries=X, keys=X, values=X, bandwidth=0.7, valid_lens=2),
    "kernel_values": {"u": X},
    "linear_attention": dict(
        query=HEADS,
        key=HEADS,
        value=HEADS,
        decay=-np.ones((1, 2, 5)),
        beta=np.ones((1, 2, 5)) / 2,
        update_rule="gated_delta",
        state=np.ones((1, 2, 6, 6)),
    ),
    "manual_seed": {"s": 3},
    "masked_softmax": dict(scores=X, valid_lens=[3, 4, 5]),
    "normal": dict(mean=0.5, std=0.5, size=3),
    "rand": {"*": (2, 3)},
    "randn": {"*": (2, 3)},
    "randint": dict(low=0, high=3, size=3),
    "randperm": {"n": 3},
    "relative_rotation": dict(offset=1, dim=4),
    "rotary_tables": dict(positions=[0.0, 1.0, 2.0], dim=4),
    "scaled_dot_product_attention": dict(query=HEADS, key=HEADS, value=HEADS, **ATTENTION),
    "set_reproducible": {"on": False},
    "set_num_threads": {"n": 1},
    "sinusoidal_positions": dict(max_len=3, dim=4),
    "tensor": None,  # makes a new Tensor, of numbers
    "uniform": dict(low=0.0, high=1.0, size=3),
    "maximum": dict(a=X, b=X),
    "minimum": dict(a=X, b=X),
    "where": dict(condition=X > 0.5, a=X, b=X),
    "clip": dict(x=X, low=0.2, high=0.8),
    "concatenate": {"tensors": [X, X]},
    "stack": {"tensors": [X, X]},
    "pad": dict(x=X, pad_width=1),
    "split": dict(x=X, indices_or_sections=[1, 2]),
    "einsum": {"*": ("ij,ij->i", X, X)},
    "matmul": dict(a=X, b=X.T.copy()),
    "take_along_axis": dict(x=X, indices=np.zeros((3, 1), int)),
    "topk": dict(x=X, k=2),
    "one_hot": {"ids": CLASSES},
    "binary_cross_entropy_with_logits": dict(logits=X, targets=X, weight=X, pos_weight=np.ones(5)),
    "cross_entropy": dict(logits=X, targets=CLASSES, weight=np.ones(5)),
    "nll_loss": dict(log_probs=X, targets=CLASSES, weight=np.ones(5)),
    "huber": dict(predictions=X, targets=X / 2),
    "l1": dict(predictions=X, targets=X / 2),
    "mse": dict(predictions=X, targets=X / 2),
    "kl_div": dict(log_probs=X, targets=X),
    "attention": dict(query_lens=[2], key_lens=[3], Lq=2, Lk=3),
    "causal": dict(Lq=3, q_offset=[0]),
    "lengths": dict(valid_lens=[1, 2], max_len=3),
    "padding": {"ids": [[1, 0]]},
    "window": dict(Lq=3, window=(1, 1), q_offset=[0]),
    "exponential": dict(rate=1.0, size=3),
    "multinomial": dict(p=X[0], num_samples=2),
    "set_rng_state": None,  # words of a generator
    "ConstantSchedule": None,
    "clip_grad_norm": None,
}
# Functions whose arguments are formulas' arrays: a call of attention shows whether the gradient arrives.
FORMULAS = {
    "alibi": {"slopes": np.ones(2)},
    "disentangled": dict(content_to_position=HEADS, position_to_content=HEADS, max_distance=3),
    "relative_bias": {"table": np.ones((32, 2))},
    "shaw": {"query_times_table": np.ones((1, 2, 5, 11))},
    "soft_cap": {"cap": 2.0},
    "transformer_xl": {"query_times_positions": np.ones((1, 2, 5, 11))},
}
OPTIMIZERS = {
    "SGD": dict(params=[nn.Parameter(np.ones(3))], lr=0.1, momentum=0.5),
    "Adam": dict(params=[nn.Parameter(np.ones(3))], lr=0.1),
    "AdamW": dict(params=[nn.Parameter(np.ones(3))], lr=0.1),
    "ConstantSchedule": dict(optimizer=optimizer()),
    "CosineSchedule": dict(optimizer=optimizer(), total_steps=9),
    "LinearSchedule": dict(optimizer=optimizer(), total_steps=9),
    "NoamSchedule": dict(optimizer=optimizer(), d_model=9),
    "ReduceLROnPlateau": dict(optimizer=optimizer()),
    "clip_grad_norm": dict(params=[nn.Parameter(np.ones(3))], max_norm=1.0),
}


def attended(make):
    def f(**arguments):
        return qkv.scaled_dot_product_attention(HEADS, HEADS, HEADS, score_mod=make(**arguments))

    f.__signature__ = inspect.signature(make)
    return f


def cases():
    for module in (qkv, losses, masks, random):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isclass(function) or inspect.ismodule(function) or not callable(function):
                continue
            given = ARGUMENTS.get(name, {})
            if given is not None:
                needed = [
                    p.name
                    for p in inspect.signature(function).parameters.values()
                    if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
                ]
                yield f"{name}", function, given or dict.fromkeys(needed, X)
    for name, given in FORMULAS.items():
        yield name, attended(getattr(scores, name)), given
    for name, given in OPTIMIZERS.items():
        yield name, getattr(optim, name), given


# Methods, by their arguments; the Tensor itself comes first.
T = qkv.tensor(X)
METHODS = {
    "astype": ("float64",), "broadcast_to": (2, 3, 5), "copy": (), "cumsum": (0,), "diagonal": (), "expand_dims": (0,),
    "flatten": (), "max": (0,), "mean": (0,), "min": (0,), "prod": (0,), "ravel": (), "repeat": (2,), "reshape": (5, 3),
    "squeeze": (), "std": (0,), "sum": (0,), "swapaxes": (0, 1), "transpose": (1, 0), "unsqueeze": (0,), "var": (0,),
    "all": (), "any": (), "argmax": (), "argmin": (), "copy_": (X,), "__getitem__": (0,), "__setitem__": (0, X[0]),
    "__abs__": (), "__neg__": (), "__pos__": (),
    **{f"__{name}__": (X,) for name in ["add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"]},
    **{f"__{name}__": (X,) for name in ["pow", "rpow", "mod", "rmod", "divmod"]},
    **{f"__{name}__": (X,) for name in ["floordiv", "rfloordiv", "iadd", "isub", "imul", "itruediv"]},
    **{f"__{name}__": (X,) for name in ["eq", "ne", "lt", "le", "gt", "ge"]},
    "__matmul__": (X.T.copy(),), "__rmatmul__": (X.T.copy(),),
}  # fmt: skip


def methods():
    for name, rest in METHODS.items():
        yield f"Tensor.{name}", called(name), {"*": (X, *rest)}


def called(name):
    def f(t, *rest):
        t = t if isinstance(t, qkv.Tensor) else qkv.tensor(t)
        result = getattr(t, name)(*rest)
        return t if result is None else result

    return f


EXCEPTIONS = {
    "dtype": "what has a dtype names it; no number is read",
    "Tensor.astype: argument 1": "what has a dtype names it; no number is read",
    "params": "its parameters are leaves, which keep their gradients",
    "where: condition": "the truth of a number has no gradient",
    "argsort: x": "places have no gradient",
    **{
        f"attention_image: {name}": "a picture, documented to have no gradient"
        for name in ("query", "key", "attn_mask", "alibi_slopes", "sinks")
    },
    **{
        f"Tensor.__{name}__: argument {i}": "the truth of a comparison has no gradient"
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for i in (0, 1)
    },
    **{
        f"Tensor.{name}: argument 0": "places and truth have no gradient"
        for name in ("all", "any", "argmax", "argmin")
    },
}


def test_no_gradient_is_lost_without_a_word():
    before = qkv.get_num_threads(), qkv.random.get_rng_state()
    try:
        assert lost_gradients([*cases(), *methods()], qkv.tensor, EXCEPTIONS) == []
    finally:
        qkv.set_num_threads(before[0])
        qkv.random.set_rng_state(before[1])


def test_every_public_function_is_judged():
    judged = {name for name, _, _ in cases()} | {name for name, given in ARGUMENTS.items() if given is None}
    for module in (qkv, losses, masks, random, scores, optim):
        for name in module.__all__:
            thing = getattr(module, name)
            if not name.startswith("_") and inspect.isfunction(thing):
                assert name in judged, name
    named = {
        name for name in dir(qkv.Tensor) if not name.startswith("_") and callable(getattr(qkv.Tensor, name))
    }
    assert named - {"backward", "detach", "item", "numpy", "tobytes", "tolist"} <= METHODS.keys()


def test_the_judge_sees_what_is_lost():
    """A gradient that is dropped, one of a list, one of a keyword with a default; and what arrives or is refused."""
    cases = [
        ("drops", lambda x: np.asarray(x) * 2, {"x": X}),
        ("keeps one", lambda x, y: x * 2 if isinstance(x, qkv.Tensor) else x * np.asarray(y), {"x": X, "y": X}),
        ("default", lambda x, scale=2.0: qkv.exp(x) * float(scale), {"x": X}),
        ("keeps", lambda x: qkv.exp(x), {"x": X}),
        ("by position", lambda *x: qkv.tensor(np.asarray(x[1])), {"*": (X, X)}),
    ]  # fmt: skip
    found = lost_gradients(cases, qkv.tensor, {"exp: x": "unused"})
    assert found[-1] == "exp: x is no exception"
    assert {what.partition(" (")[0] for what in found[:-1]} == {
        "drops: x", "keeps one: x", "keeps one: y", "default: scale",
        "by position: argument 0", "by position: argument 1",
    }  # fmt: skip
    assert lost_gradients([("keeps", lambda x: qkv.exp(x), {"x": X})], qkv.tensor) == []
    assert lost_gradients(cases[:1], qkv.tensor, {"drops: x": "for a test"}) == []


V = qkv.tensor([1.0, 2.0, 3.0], requires_grad=True)
REFUSED = {
    "pad: constant_values": (lambda: qkv.pad(np.ones(2), 1, constant_values=V[0]), "detach"),
    "normal: std": (lambda: qkv.normal(0, V[0], 3), "qkv.randn"),
    "uniform: high": (lambda: qkv.uniform(0, V[0], 3), "qkv.rand"),
    "exponential: rate": (lambda: random.exponential(V[0], 3), "/ rate"),
    "bernoulli: p": (lambda: qkv.bernoulli(V / 6), "detach"),
    "multinomial: p": (lambda: random.multinomial(V, 1), "detach"),
    "rotary_tables: positions": (lambda: qkv.rotary_tables(V, 4), "detach"),
    "elu: alpha": (lambda: qkv.elu(V, V[0]), "detach"),
    "huber: delta": (lambda: losses.huber(V, V, delta=V[0]), "detach"),
    "SGD: lr": (lambda: optim.SGD([nn.Parameter(np.ones(2))], V[0]), "detach"),
    "NadarayaWatson.fit: X": (lambda: qkv.NadarayaWatson().fit(V, np.ones(3)), "qkv.kernel_attention"),
    "NadarayaWatson.fit: bandwidth": (
        lambda: qkv.NadarayaWatson(bandwidth=V[0]).fit(np.ones(3), np.ones(3)), "qkv.kernel_attention",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_no_gradient_says_what_to_write(name):
    call, advice = REFUSED[name]
    with pytest.raises(
        TypeError,
        match=f"^{name} must be .* because it takes no gradient; got a Tensor that requires one, .*{advice}",
    ):
        call()
    with qkv.no_grad():
        call()


def test_weights_of_numpys_counts():
    for call in (
        lambda w: np.bincount([0, 1, 1], weights=w),
        lambda w: np.bincount([0, 1, 1], w),
        lambda w: np.histogram([0.1, 0.2, 0.3], weights=w),
        lambda w: np.histogram([0.1, 0.2, 0.3], 3, None, None, w),
    ):
        with pytest.raises(TypeError, match=r"the gradient would be lost .* write qkv\.one_hot\("):
            call(V)
        np.testing.assert_array_equal(call(V.detach())[0], call(V.numpy())[0])
    assert np.histogram(V)[0].sum() == 3  # counts have none
    np.testing.assert_allclose(qkv.one_hot([0, 1, 1]).T @ V, np.bincount([0, 1, 1], V.numpy()))
    with pytest.raises(TypeError, match=r"^numpy\.linspace: .*; write start \+ \(stop - start\)"):
        np.linspace(V[0], 5, 3)


if __name__ == "__main__":
    for what, answer in answers([*cases(), *methods()], qkv.tensor):
        print(what, "->", answer.replace("\n", " ")[:230])
