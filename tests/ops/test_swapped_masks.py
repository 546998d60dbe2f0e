"""A float mask of zeros and ones, and a mask of padding given as valid_lens, are most likely mistakes: they warn."""

import warnings

import numpy as np
import pytest
from sweep import sweep

import qkv

FLOAT = "a float mask is added to the scores, and this one holds only 0 and 1"
LENGTHS = "valid_lens counts keys, and this array of two axes holds only 0 and 1"
B, L, M = 2, 5, 6

x = np.linspace(-1, 1, B * L * M, dtype=np.float32).reshape(B, L, M)
zeros_and_ones = np.tril(np.ones((L, L), dtype=np.float32))
padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])


def layer(make, *names):
    """A call of a layer whose mask and lengths have these names."""
    mask_name, lengths_name = names or ("attn_mask", "valid_lens")
    return lambda mask=None, lens=None: make()(*inputs(make), **{mask_name: mask, lengths_name: lens})


def inputs(make):
    if make in (qkv.nn.DotProductAttention, additive):
        return x, x, x
    return (x, x) if make is decoder_layer else (x,)


def additive():
    return qkv.nn.AdditiveAttention(7, query_size=M, key_size=M)


def decoder_layer():
    return qkv.nn.TransformerDecoderLayer(M, 2, 11, dropout=0.0)


def encoder():
    return qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(M, 2, 11, dropout=0.0), 3)


CALLS = {
    "scaled_dot_product_attention": lambda mask=None, lens=None: qkv.scaled_dot_product_attention(
        x, x, x, mask, valid_lens=lens
    ),
    "additive_attention": lambda mask=None, lens=None: qkv.additive_attention(
        x, x, x, np.ones(M, np.float32), attn_mask=mask, valid_lens=lens
    ),
    "masked_softmax": lambda mask=None, lens=None: qkv.masked_softmax(x @ x.swapaxes(1, 2), lens, mask=mask),
    "DotProductAttention": layer(qkv.nn.DotProductAttention),
    "AdditiveAttention": layer(additive),
    "SelfAttention": layer(lambda: qkv.nn.SelfAttention(M, 7)),
    "MultiHeadAttention": layer(lambda: qkv.nn.MultiHeadAttention(M, 2)),
    "TransformerEncoderLayer": layer(lambda: qkv.nn.TransformerEncoderLayer(M, 2, 11, dropout=0.0)),
    "TransformerEncoder": layer(encoder),
    "TransformerDecoderLayer": layer(decoder_layer),
    "TransformerDecoderLayer, memory": layer(decoder_layer, "memory_attn_mask", "memory_valid_lens"),
}


def the_warning(call, text):
    """The one warning of the call: its text and the file that it names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert len(caught) == 1, [str(w.message) for w in caught]  # once per call, not once per layer of a stack
    assert caught[0].category is UserWarning
    assert text in str(caught[0].message)
    return caught[0]


@pytest.mark.parametrize("name", CALLS)
def test_a_float_mask_of_zeros_and_ones_warns_at_the_callers_line(name):
    warning = the_warning(lambda: CALLS[name](mask=zeros_and_ones), FLOAT)
    assert warning.filename == __file__
    assert "pass a boolean mask (True = may attend) to exclude" in str(warning.message)


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_of_padding_as_lengths_warns_at_the_callers_line(name):
    warning = the_warning(lambda: CALLS[name](lens=padding), LENGTHS)
    argument = "memory_valid_lens" if name.endswith("memory") else "valid_lens"
    assert f": {argument} counts keys" in str(warning.message)
    assert warning.filename == __file__
    assert "pass the mask as a boolean one, or the number of real keys per item" in str(warning.message)


@pytest.mark.parametrize("kernel", ["gaussian", lambda u: qkv.exp(-u)])
def test_kernel_attention_warns_of_lengths(kernel):
    the_warning(lambda: qkv.kernel_attention(x, x, x, kernel, valid_lens=padding), LENGTHS)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("where", [0, 62, 63, 64, 65, -1])
def test_one_other_number_anywhere_is_a_mask_to_add(dtype, where):
    mask = np.zeros((67, 67), dtype=dtype)
    mask[0, 1::2] = 1
    q = np.ones((67, 3), dtype=dtype)
    the_warning(lambda: qkv.scaled_dot_product_attention(q, q, q, mask), FLOAT)
    mask.reshape(-1)[where] = 0.5
    qkv.scaled_dot_product_attention(q, q, q, mask)


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((L, L)),
        np.ones((L, L)),
        np.where(zeros_and_ones > 0, 0, -np.inf),
        np.where(zeros_and_ones > 0, 1, np.nan),
        zeros_and_ones > 0,
        qkv.tensor(zeros_and_ones, requires_grad=True),  # a learned bias
        np.zeros((0, L)),
    ],
)
def test_masks_that_do_not_warn(mask):
    q = x if mask.shape[0] else x[:, :0]
    qkv.scaled_dot_product_attention(q, x, x, mask)


@pytest.mark.parametrize("lens", [[0, 1], [[0] * L] * B, [[0, 1, 2, 1, 0]] * B])
def test_lengths_that_do_not_warn(lens):
    qkv.scaled_dot_product_attention(x, x, x, valid_lens=lens)
    qkv.masks.lengths(lens, L)


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_of_a_batch_without_padding_warns(name):
    the_warning(lambda: CALLS[name](lens=np.ones((B, L), int)), LENGTHS)


@pytest.mark.parametrize("lens", [np.ones((B, L), int), padding, padding[:1], qkv.tensor(padding)])
def test_lengths_of_masks_warn(lens):
    warning = the_warning(lambda: qkv.masks.lengths(lens, L), f"lengths: {LENGTHS}")
    assert warning.filename == __file__


def test_one_key_for_each_of_other_queries_does_not_warn():
    qkv.scaled_dot_product_attention(x, x[:, :3], x[:, :3], valid_lens=np.ones((B, L), int))
    qkv.scaled_dot_product_attention(x[:, :1], x, x, valid_lens=np.ones((B, 1), int))
    qkv.masks.lengths(np.ones((B, L), int), L + 1)
    qkv.masks.lengths(np.ones((B, 1), int), 1)


VIEWS = {
    "slice": lambda m: qkv.tensor(np.pad(m, (0, 3)))[: m.shape[0], : m.shape[1]],
    "steps": lambda m: qkv.tensor(np.repeat(m, 2, -1))[:, ::2],
    "T": lambda m: qkv.tensor(m.T.copy()).T,
    "expanded": lambda m: qkv.tensor(m[:1]).broadcast_to(m.shape),
}


@pytest.mark.parametrize("view", VIEWS)
@sweep("name", CALLS)
def test_a_view_of_zeros_and_ones_warns(name, view):
    show = VIEWS[view]
    the_warning(lambda: CALLS[name](mask=show(zeros_and_ones)), FLOAT)
    the_warning(lambda: CALLS[name](lens=show(padding)), LENGTHS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name](mask=show(zeros_and_ones - 0.5))


@pytest.mark.filterwarnings("error")
def test_lengths_of_one_key_are_zeros_and_ones():
    lens = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])
    one = x[:, :1]
    qkv.scaled_dot_product_attention(x, one, one, valid_lens=lens)
    qkv.additive_attention(x, one, one, np.ones(M, np.float32), valid_lens=lens)
    qkv.masked_softmax(x[..., :1], lens)
    qkv.kernel_attention(x, one, one, valid_lens=lens)
    qkv.kernel_attention(x, one, one, lambda u: qkv.exp(-u), valid_lens=lens)
    qkv.nn.DotProductAttention()(x, one, one, lens)
    qkv.nn.SelfAttention(M, 7)(x, one, lens)
    layer = qkv.nn.MultiHeadAttention(M, 2)
    layer(x, one, one, valid_lens=lens)
    decoder_layer()(x, one, memory_valid_lens=lens)
    cache, step = qkv.nn.KVCache(), np.array([[0], [1]])
    layer(one, valid_lens=step, cache=cache)
    with pytest.raises(UserWarning, match=LENGTHS):  # two keys now
        layer(one, valid_lens=step, cache=cache)


@pytest.mark.filterwarnings("error")
def test_the_warning_can_be_an_error():
    attention = qkv.nn.MultiHeadAttention(M, 2)
    with pytest.raises(UserWarning, match="MultiHeadAttention: a float mask"):
        attention(x, attn_mask=zeros_and_ones)
