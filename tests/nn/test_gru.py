"""GRU: golden and reference values, slopes, lengths, first digits, rejections."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from golden import golden
from helpers import close, gradients, same_bits_for_any_threads
from layer_checks import randomised, state

import qkv
from qkv import nn, reference
from qkv.testing import check_gradient

RNG = np.random.default_rng(71)
B, T, M, H = 3, 7, 5, 11


def small(num_layers=2, dtype="float64", **options):
    """A layer whose gates are not saturated."""
    layer = randomised(nn.GRU(M, H, num_layers, **options), dtype)
    for p in layer.parameters():
        p.copy_(p.numpy() / 3)
    return layer


def test_golden_values_and_gradients():
    g = golden("X-GRU")
    layer = nn.GRU(5, 6, 2).to("float64")
    layer.load_state_dict(g.params())
    x = qkv.tensor(g["x"].swapaxes(0, 1), requires_grad=True)
    h0 = qkv.tensor(g["h0"], requires_grad=True)
    outputs, last = layer(x, h0)
    ((outputs * g["G"].swapaxes(0, 1)).sum() + (last * g["Gh"]).sum()).backward()
    g.close_all({"y": outputs.numpy().swapaxes(0, 1), "h": last})
    found = {n: p.grad for n, p in layer.named_parameters()}
    found |= {"x": x.grad.numpy().swapaxes(0, 1), "h0": h0.grad}
    for name in g.names("grad"):
        g.close(name, found[name.removeprefix("grad.")])
    assert len(found) == len(g.names("grad"))


@pytest.mark.parametrize("lens", [None, [7, 0, 4]])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [1, 11, 37])
def test_values(width, bias, lens):
    layer = nn.GRU(M, width, 2, bias=bias)
    x, h0 = RNG.standard_normal((B, T, M)), RNG.standard_normal((2, B, width))
    for dtype in ("float64", "float32"):
        layer.to(dtype)
        for start in (None, h0):
            for actual, expected in zip(
                layer(x, start, valid_lens=lens),
                reference.gru(state(layer), x, start, valid_lens=lens),
                strict=True,
            ):
                assert actual.dtype == dtype
                close(actual, expected, dtype)


@pytest.mark.parametrize("batch", range(1, 20))
def test_any_number_of_sequences(batch):
    """Rows are worked on in groups of 8 and what is left."""
    layer = nn.GRU(M, 13).to("float64")
    x, lens = RNG.standard_normal((batch, T, M)), RNG.integers(0, T + 1, batch)
    for actual, expected in zip(
        layer(x, valid_lens=lens), reference.gru(state(layer), x, valid_lens=lens), strict=True
    ):
        close(actual, expected)


def test_wide_states_are_worked_on_in_larger_pieces():
    layer = nn.GRU(2, 521)
    x, lens = RNG.standard_normal((37, 3, 2)).astype("float32"), RNG.integers(0, 4, 37)
    for actual, expected in zip(
        layer(x, valid_lens=lens), reference.gru(state(layer), x, valid_lens=lens), strict=True
    ):
        close(actual, expected, "float32")


@pytest.mark.parametrize("lens", [None, [7, 0, 4]])
@pytest.mark.parametrize("bias", [True, False])
def test_slopes(lens, bias):
    layer = small(bias=bias)
    x, h0 = RNG.standard_normal((B, T, M)), RNG.standard_normal((2, B, H))
    parameters = dict(layer.named_parameters())

    def f(x, h0, *values):
        for p, value in zip(parameters.values(), values, strict=True):
            p.copy_(value.numpy())
        outputs, last = layer(x, h0, valid_lens=lens)
        return qkv.concatenate([outputs.reshape(-1), last.reshape(-1)])

    check_gradient(lambda x, h0: f(x, h0, *parameters.values()), x, h0)
    start = [p.numpy().copy() for p in parameters.values()]
    G = RNG.standard_normal(B * T * H + 2 * B * H)

    def value(values):
        return float((f(x, h0, *(qkv.tensor(v) for v in values)).numpy() * G).sum())

    layer.zero_grad()
    f(x, h0, *(qkv.tensor(v) for v in start)).backward(G)
    analytic = [p.grad.numpy().copy() for p in parameters.values()]
    for i, name in enumerate(parameters):
        direction, h = RNG.standard_normal(start[i].shape), 1e-6
        up, down = ([v + s * h * direction if i == j else v for j, v in enumerate(start)] for s in (1, -1))
        np.testing.assert_allclose(
            (analytic[i] * direction).sum(), (value(up) - value(down)) / (2 * h), 1e-6, 1e-7, err_msg=name
        )


@pytest.mark.parametrize("which", ["outputs", "state"])
def test_either_result_alone_has_a_gradient(which):
    layer = small(1)
    x = qkv.tensor(RNG.standard_normal((B, T, M)), requires_grad=True)
    outputs, last = layer(x, valid_lens=[7, 2, 5])
    (outputs if which == "outputs" else last).sum().backward()
    slopes = np.abs(x.grad.numpy()).sum(-1)  # (B, T)
    assert (slopes[0] > 0).all()
    assert (slopes[1, :2] > 0).all()
    assert (slopes[1, 2:] == 0).all()


def test_the_graph_can_be_kept():
    layer = small(1)
    x = qkv.tensor(RNG.standard_normal((B, T, M)), requires_grad=True)
    y = layer(x)[0].sum()
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward()
    close(x.grad, 2 * once)
    y = layer(x)[0].sum()
    layer.weight_hh_l0.copy_(layer.weight_hh_l0.numpy())
    with pytest.raises(RuntimeError, match="changed by copy_"):
        y.backward()


def test_gradients_are_added_to_what_is_there():
    layer = small(1)
    x = RNG.standard_normal((B, T, M))
    layer(x)[0].sum().backward()
    once = {n: p.grad.numpy().copy() for n, p in layer.named_parameters()}
    layer(x)[0].sum().backward()
    for n, p in layer.named_parameters():
        close(p.grad, 2 * once[n])


def test_padding_is_never_read():
    layer, lens = small(), [7, 0, 4]
    x = RNG.standard_normal((B, T, M))
    dirty = x.copy()
    for b, n in enumerate(lens):
        dirty[b, n:] = np.nan

    def results(x):
        layer.zero_grad()
        t = qkv.tensor(x, requires_grad=True)
        outputs, last = layer(t, valid_lens=lens)
        (outputs.sum() + last.sum()).backward()
        return [outputs, last, t.grad, *(p.grad for p in layer.parameters())]

    for clean, found in zip(results(x), results(dirty), strict=True):
        np.testing.assert_array_equal(found, clean)
    outputs = results(dirty)[0].numpy()
    assert all((outputs[b, n:] == 0).all() for b, n in enumerate(lens))


def test_sequences_do_not_see_each_other():
    layer, lens = small(dtype="float32"), np.array([7, 3, 5])
    x = RNG.standard_normal((B, T, M)).astype("float32")
    outputs, last = layer(x, valid_lens=lens)
    for b in range(B):
        alone, end = layer(x[b : b + 1], valid_lens=lens[b : b + 1])
        np.testing.assert_allclose(alone[0], outputs[b], 1e-5, 1e-6)
        np.testing.assert_allclose(end[:, 0], last[:, b], 1e-5, 1e-6)
        cut, end = layer(x[b : b + 1, : lens[b]])
        np.testing.assert_allclose(cut[0], outputs[b, : lens[b]], 1e-5, 1e-6)
        np.testing.assert_allclose(end[:, 0], last[:, b], 1e-5, 1e-6)
    order = [2, 0, 1]
    np.testing.assert_allclose(layer(x[order], valid_lens=lens[order])[0], outputs[order], 1e-5, 1e-6)


def test_steps_one_by_one_and_together_are_the_same():
    layer = small()
    x = RNG.standard_normal((B, T, M))
    outputs, last = layer(x)
    h, steps = None, []
    for t in range(T):
        y, h = layer(x[:, t : t + 1], h)
        steps.append(y.numpy())
    close(np.concatenate(steps, axis=1), outputs)
    close(h, last)
    future = x.copy()
    future[:, 4:] += 1
    np.testing.assert_array_equal(layer(future)[0][:, :4], outputs[:, :4])


def test_a_length_of_zero_leaves_the_state():
    h0 = RNG.standard_normal((2, B, H))
    t = qkv.tensor(h0, requires_grad=True)
    outputs, last = small()(RNG.standard_normal((B, T, M)), t, valid_lens=[0, 0, 0])
    assert (outputs.numpy() == 0).all()
    np.testing.assert_array_equal(last, h0)
    (last * h0).sum().backward()
    close(t.grad, h0)


@pytest.mark.parametrize(("batch", "steps"), [(0, 7), (3, 0), (0, 0), (1, 1)])
def test_small_sizes(batch, steps):
    layer = small()
    x = qkv.tensor(RNG.standard_normal((batch, steps, M)), requires_grad=True)
    outputs, last = layer(x)
    assert outputs.shape == (batch, steps, H)
    assert last.shape == (2, batch, H)
    (outputs.sum() + last.sum()).backward()
    assert x.grad.shape == x.shape
    assert np.isfinite(layer.weight_hh_l0.grad.numpy()).all()


def test_weights_that_change_are_packed_again():
    layer = small(1)
    x = RNG.standard_normal((B, T, M))
    before = layer(x)[0].numpy().copy()
    layer.weight_hh_l0.copy_(layer.weight_hh_l0.numpy() * 2)
    close(layer(x)[0], reference.gru(state(layer), x)[0])
    assert np.abs(layer(x)[0].numpy() - before).max() > 1e-3
    layer.weight_hh_l0 = nn.Parameter(layer.weight_hh_l0.numpy() / 3)
    close(layer(x)[0], reference.gru(state(layer), x)[0])
    optimizer = qkv.optim.SGD(layer.parameters(), 0.1)
    layer(x)[0].sum().backward()
    optimizer.step()
    close(layer(x)[0], reference.gru(state(layer), x)[0])
    close(layer.to("float32")(x)[0], reference.gru(state(layer), x)[0], "float32")


def test_dropout_acts_between_layers_in_training():
    layer = nn.GRU(M, H, 2, dropout=0.5).to("float64")
    first, second = nn.GRU(M, H).to("float64"), nn.GRU(H, H).to("float64")
    values = state(layer)
    first.load_state_dict({n: v for n, v in values.items() if n.endswith("_l0")})
    second.load_state_dict({n.replace("_l1", "_l0"): v for n, v in values.items() if n.endswith("_l1")})
    x = RNG.standard_normal((B, T, M))
    qkv.manual_seed(3)
    dropped = layer(x)[0]
    qkv.manual_seed(3)
    hidden = nn.Dropout(0.5)(first(x)[0].numpy().swapaxes(0, 1)).numpy().swapaxes(0, 1)  # drawn (T, B, H)
    close(dropped, second(hidden)[0])
    close(layer.eval()(x)[0], second(first(x)[0])[0])
    only = nn.GRU(M, H, dropout=0.9).to("float64")
    np.testing.assert_array_equal(only(x)[0], only.eval()(x)[0])
    nothing = nn.GRU(M, H, 2, dropout=1.0).to("float64")
    nothing.load_state_dict(values)
    close(nothing(x)[0], second(np.zeros((B, T, H)))[0])


def test_dropout_has_a_gradient():
    layer = nn.GRU(M, H, 3, dropout=0.4).to("float64")

    def f(x):
        qkv.manual_seed(8)
        return layer(x)[0]

    check_gradient(f, RNG.standard_normal((B, T, M)))


def test_names_copies_and_text():
    layer = small()
    names = [f"{kind}_l{i}" for i in range(2) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    assert [n for n, _ in layer.named_parameters()] == names
    assert layer.num_parameters() == 3 * H * (M + H + 2) + 3 * H * (2 * H + 2)
    assert list(nn.GRU(M, H, bias=False).state_dict()) == ["weight_ih_l0", "weight_hh_l0"]
    text = "GRU(input_size=5, hidden_size=11, num_layers=2, bias=True, dropout=0.5)"
    assert repr(nn.GRU(M, H, 2, dropout=0.5)) == text
    x = RNG.standard_normal((B, T, M))
    expected = layer(x)[0].numpy()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(other(x)[0], expected)
        other.weight_ih_l0.copy_(np.zeros((3 * H, M)))
    np.testing.assert_array_equal(layer(x)[0], expected)


def test_first_digits_are_pytorchs():
    torch = pytest.importorskip("torch")
    torch.manual_seed(17)
    theirs = torch.nn.GRU(M, H, 2)
    qkv.manual_seed(17)
    ours = nn.GRU(M, H, 2).state_dict()
    for name, value in theirs.named_parameters():
        np.testing.assert_array_equal(ours[name], value.detach().numpy(), err_msg=name)
    again = nn.GRU(M, H, 2)
    again.load_state_dict(theirs.state_dict())
    x = RNG.standard_normal((T, B, M)).astype("float32")
    with torch.no_grad():
        close(again(x.swapaxes(0, 1))[0], theirs(torch.tensor(x))[0].numpy().swapaxes(0, 1), "float32")


def test_draws_come_in_order():
    qkv.manual_seed(5)
    layer, after = nn.GRU(3, 7, 2), qkv.rand(3)
    qkv.manual_seed(5)
    for p in layer.parameters():
        np.testing.assert_array_equal(p, qkv.uniform(-(7**-0.5), 7**-0.5, p.shape))
    np.testing.assert_array_equal(qkv.rand(3), after)


def test_the_same_bits_for_any_number_of_threads():
    x = RNG.standard_normal((37, 13, 29)).astype("float32")
    layer, lens = nn.GRU(29, 131, 2), RNG.integers(0, 14, 37)

    def f():
        layer.zero_grad()
        return [
            *gradients(lambda x: layer(x, valid_lens=lens)[0], x),
            *(p.grad.numpy() for p in layer.parameters()),
        ]

    same_bits_for_any_threads(f)


def test_widths_of_numbers():
    layer = nn.GRU(M, H)
    x = RNG.standard_normal((B, T, M))
    assert layer(x)[0].dtype == "float32", "that of the parameters"
    assert layer(x.astype("float16"))[1].dtype == "float32"
    close(layer(x.tolist())[0], layer(x)[0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 3), "GRU: input_size must be at least 1; got 0"),
        ((3, 0), "GRU: hidden_size must be at least 1; got 0"),
        ((3, 3, 0), "GRU: num_layers must be at least 1; got 0"),
        ((3, 3, 1, True, 1.5), "GRU: dropout must be from 0 to 1; got 1.5"),
    ],
)
def test_rejected_arguments(arguments, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        nn.GRU(*arguments)


@pytest.mark.parametrize(
    ("x", "options", "text"),
    [
        ((3, 7, 4), {}, r"GRU: x must be \(B, T, 5\) or \(T, 5\) because input_size = 5; got x \(3, 7, 4\)"),
        ((5,), {}, r"GRU: x must be \(B, T, 5\) or \(T, 5\) because input_size = 5; got x \(5,\)"),
        (
            (3, 7, 5),
            {"state": np.zeros((3, 2, 11))},
            r"GRU: state must be \(num_layers, B, hidden_size\) = \(2, 3, 11\); got state \(3, 2, 11\)",
        ),
        (
            (3, 7, 5),
            {"valid_lens": [7, 7]},
            r"GRU: valid_lens must be \(B,\) = \(3,\); got valid_lens \(2,\)",
        ),
        (
            (3, 7, 5),
            {"valid_lens": [7, 8, 0]},
            "GRU: valid_lens must be from 0 to T = 7; got 8",
        ),
        (
            (3, 7, 5),
            {"valid_lens": [-1, 0, 0]},
            "GRU: valid_lens must be from 0 to T = 7; got -1",
        ),
    ],
)
def test_rejected_calls(x, options, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        small()(np.zeros(x), **options)


def test_other_rejections():
    with pytest.raises(TypeError, match="GRU: valid_lens must hold integers; got dtype float64"):
        small()(np.zeros((1, 2, M)), valid_lens=[1.5])
    layer = small()
    layer.weight_ih_l1 = nn.Parameter(np.zeros((3 * H, M)))
    with pytest.raises(
        ValueError, match=r"GRU: weight_ih_l1 must be \(33, 11\) of the dtype of x, float\d\d; got"
    ):
        layer(np.zeros((1, 2, M)))
    with pytest.raises(TypeError, match="GRU: bias_hh_l0 must be a Parameter"):
        layer.bias_hh_l0 = None
