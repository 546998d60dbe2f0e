"""NaN and infinity in rows that no query may attend to, and whose results the loss leaves out, reach no gradient."""

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import nn

B, L, LQ, M, H = 3, 11, 7, 24, 4
LENS = np.array([11, 5, 8])
REAL = np.arange(L) < LENS[:, None]  # (B, L)
KEYS = REAL[:, None, None, :].repeat(L, axis=2)  # (B, 1, L, L)
BOTH = REAL[:, None, :] & REAL[:, :, None]  # (B, L, L): rows of padding see nothing
OTHERS_SEE_ALL = np.where(REAL, LENS[:, None], L)  # (B, L): rows of padding see padding
ADDED = np.where(KEYS, 0, -np.inf).astype(np.float32)


class Distance(nn.Attention):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(M, M)

    def score(self, queries, keys):
        return -((self.project(queries)[:, :, None] - self.project(keys)[:, None]) ** 2).sum(axis=-1)


class Bilinear(nn.Attention):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(M, M)

    def score(self, queries, keys):
        return self.project(queries) @ keys.swapaxes(1, 2)


class HiddenLayer(nn.Attention):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(M, M)
        self.weigh = nn.Linear(M, 1)

    def score(self, queries, keys):
        return self.weigh(qkv.tanh(self.project(queries)[:, :, None] + keys[:, None]))[..., 0]


class ProjectedDotProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(M, M)
        self.attention = nn.DotProductAttention()

    def forward(self, x, **restriction):
        x = self.project(x)
        return self.attention(x, x, x, **restriction)


def own_rows(**restriction):
    """A call on x, whose padded rows are queries too."""
    return lambda layer, x: layer(x, **restriction)


def three_times(**restriction):
    return lambda layer, x: layer(x, x, x, **restriction)


def memory(**restriction):
    """A call on queries and x, which is keys and values."""
    return lambda layer, q, x: layer(q, x, x, **restriction)


def decoder_memory(layer, q, x):
    return layer(q, x, memory_valid_lens=LENS, is_causal=True)


def decoder(layer, x, q):
    return layer(x, q, valid_lens=LENS, is_causal=True)


def multi_head(**options):
    return lambda: nn.MultiHeadAttention(M, H, **options)


def additive():
    return nn.AdditiveAttention(13, query_size=M, key_size=M)


def encoder_layers(**options):
    return lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 37, dropout=0.0, **options), 2)


def decoder_layers(**options):
    return lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(M, H, 37, dropout=0.0, **options), 2)


SELF = {  # make, call
    "heads, lengths": (multi_head(), own_rows(valid_lens=LENS)),
    "heads without biases": (multi_head(bias=False), own_rows(valid_lens=LENS)),
    "grouped heads": (multi_head(num_kv_heads=2), own_rows(valid_lens=LENS)),
    "rotary heads": (multi_head(rotary_base=100.0), own_rows(valid_lens=LENS)),
    "heads, boolean mask": (multi_head(), own_rows(attn_mask=KEYS)),
    "heads, added mask": (multi_head(), own_rows(attn_mask=ADDED)),
    "heads, mask of queries and keys": (multi_head(), own_rows(attn_mask=BOTH)),
    "heads, lengths per query": (multi_head(), own_rows(valid_lens=OTHERS_SEE_ALL)),
    "heads, causal": (multi_head(is_causal=True), own_rows(valid_lens=LENS)),
    "one head": (lambda: nn.SelfAttention(M, 17, bias=True), own_rows(valid_lens=LENS)),
    "dot product": (ProjectedDotProduct, own_rows(valid_lens=LENS)),
    "additive, lengths": (additive, three_times(valid_lens=LENS)),
    "additive, boolean mask": (additive, three_times(attn_mask=BOTH)),
    "additive, added mask": (additive, three_times(attn_mask=ADDED[:, 0])),
    "own score, distance": (Distance, three_times(valid_lens=LENS)),
    "own score, bilinear": (Bilinear, three_times(valid_lens=LENS)),
    "own score, hidden layer": (HiddenLayer, three_times(valid_lens=LENS)),
    "encoder": (encoder_layers(), own_rows(valid_lens=LENS)),
    "encoder, norm first, gelu": (
        encoder_layers(norm_first=True, activation="gelu"),
        own_rows(valid_lens=LENS),
    ),
    "GRU": (lambda: nn.GRU(M, 17, 2), lambda layer, x: layer(x, valid_lens=LENS)[0]),
    "norms and activations": (
        lambda: nn.Sequential(
            nn.LayerNorm(M), nn.Linear(M, M), nn.GELU(), nn.Linear(M, M), nn.Tanh(), nn.RMSNorm(M)
        ),
        own_rows(),
    ),
}
CROSS = {
    "heads": (multi_head(), memory(valid_lens=LENS)),
    "heads, boolean mask": (multi_head(), memory(attn_mask=KEYS[:, :, :LQ])),
    "additive": (additive, memory(valid_lens=LENS)),
    "own score, distance": (Distance, memory(valid_lens=LENS)),
    "own score, bilinear": (Bilinear, memory(valid_lens=LENS)),
    "own score, hidden layer": (HiddenLayer, memory(valid_lens=LENS)),
    "decoder": (decoder_layers(), decoder_memory),
    "decoder, norm first": (decoder_layers(norm_first=True), decoder_memory),
}


def gradients(layer, call, inputs, rows):
    """The loss over the rows named, and the gradients of all parameters and of the real rows of the inputs."""
    layer.zero_grad()
    tensors = [qkv.tensor(x, requires_grad=True) for x in inputs]
    y = call(layer, *tensors)
    kept = y[rows]
    slopes = np.cos(np.arange(kept.size, dtype=np.float32)).reshape(kept.shape)
    loss = (kept * slopes).sum()
    loss.backward()
    results = {name: p.grad.numpy().copy() for name, p in layer.named_parameters() if p.grad is not None}
    results["output"] = kept.numpy().copy()
    for i, (x, t) in enumerate(zip(inputs, tensors, strict=True)):
        results[f"input {i}"] = t.grad.numpy()[REAL] if x.shape[1] == L else t.grad.numpy()
    return results


def check(make, call, inputs, padded, value, rows):
    qkv.manual_seed(3)
    layer = make()
    expected = gradients(layer, call, inputs, rows)
    inputs[padded][~REAL] = value
    actual = gradients(layer, call, inputs, rows)
    assert expected.keys() == actual.keys()
    for name, gradient in actual.items():
        assert np.isfinite(gradient).all(), name
        np.testing.assert_allclose(gradient, expected[name], rtol=2e-4, atol=1e-5, err_msg=name)


def draw(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


VALUES = pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)


@VALUES
@sweep("name", SELF)
def test_padded_rows_of_x_reach_no_gradient(name, value):
    make, call = SELF[name]
    check(make, call, [draw(B, L, M)], 0, value, REAL)


@VALUES
@pytest.mark.parametrize("queries", [1, LQ])
@sweep("name", CROSS)
def test_padded_rows_of_keys_and_values_reach_no_gradient(name, queries, value):
    make, call = CROSS[name]
    if "boolean" in name and queries == 1:
        pytest.skip("the mask has LQ queries")
    check(make, call, [draw(B, queries, M), draw(B, L, M)], 1, value, np.ones((B, queries), bool))


@VALUES
def test_padded_rows_of_a_decoders_own_input(value):
    check(decoder_layers(), decoder, [draw(B, L, M), draw(B, 9, M)], 0, value, REAL)


@VALUES
def test_sinks_and_biases_get_finite_gradients(value):
    x = draw(B, 2, L, M)
    bias = qkv.tensor(draw(2, L, L), requires_grad=True)
    sinks = qkv.tensor(draw(2), requires_grad=True)

    def run(x):
        x = qkv.tensor(x, requires_grad=True)
        y = qkv.scaled_dot_product_attention(x, x, x, bias, valid_lens=LENS, sinks=sinks)
        y.swapaxes(1, 2)[REAL].sum().backward()
        found = [bias.grad.numpy().copy(), sinks.grad.numpy().copy()]
        bias.grad = sinks.grad = None
        return found

    expected = run(x)
    x.swapaxes(1, 2)[~REAL] = value
    for a, b in zip(run(x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "out"), [(61, 5), (5, 61)])  # the smaller of input and result is searched
@pytest.mark.parametrize("where", ["padding", "used"])
def test_a_weight_sees_nan_only_where_a_gradient_arrives(rows, out, where):
    layer = nn.Linear(13, out)
    x = draw(rows, 13)
    x[2, 3] = np.nan
    y = layer(qkv.tensor(x))
    kept = [i for i in range(rows) if i != 2] if where == "padding" else list(range(rows))
    y[kept].sum().backward()
    gradient = layer.weight.grad.numpy()
    assert np.isnan(gradient).any() == (where == "used")
    assert not np.isnan(np.delete(gradient, 3, axis=1)).any()
    np.testing.assert_array_equal(layer.bias.grad.numpy(), np.full(out, len(kept), np.float32))


@pytest.mark.parametrize("f", ["exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "gelu", "relu", "abs"])
def test_a_gradient_of_zero_stays_zero_in_functions_of_one_number(f):
    x = qkv.tensor([0.5, np.nan, np.inf, -np.inf], requires_grad=True)
    getattr(qkv, f)(x)[:1].sum().backward()
    gradient = x.grad.numpy()
    assert gradient[0] != 0
    np.testing.assert_array_equal(gradient[1:], 0)
