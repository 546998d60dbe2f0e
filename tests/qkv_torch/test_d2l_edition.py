"""qkv.torch.d2l says which edition it follows, and has what the older one has as functions."""

from __future__ import annotations

import inspect

import pytest

import qkv.torch as torch
from qkv.torch import d2l

EDITION = r"qkv\.torch\.d2l is that of the English edition 1\.0"
OLDER = {
    "AdditiveAttention: got an unexpected argument key_size; it takes num_hiddens, dropout": lambda: (
        d2l.AdditiveAttention(key_size=2, query_size=20, num_hiddens=8, dropout=0.1)
    ),
    "MultiHeadAttention: .*got 6; it takes num_hiddens, num_heads, dropout, bias": lambda: (
        d2l.MultiHeadAttention(100, 100, 100, 100, 5, 0.5)
    ),
    "PositionWiseFFN: .*got 3; it takes ffn_num_hiddens, ffn_num_outputs": lambda: d2l.PositionWiseFFN(
        4, 4, 8
    ),
    "TransformerEncoder: .*got 11; it takes vocab_size, num_hiddens, ": lambda: d2l.TransformerEncoder(
        200, 24, 24, 24, 24, [100, 24], 24, 48, 8, 2, 0.5
    ),
    "Seq2SeqEncoder: num_layers must be given; it takes vocab_size, ": lambda: d2l.Seq2SeqEncoder(10, 8, 16),
}


@pytest.mark.parametrize("text", OLDER)
def test_a_call_of_an_older_edition_says_what_this_one_takes(text):
    with pytest.raises(TypeError, match=f"^{text}.*; {EDITION}$"):
        OLDER[text]()


def test_errors_inside_a_constructor_are_as_they_are():
    with pytest.raises(TypeError, match=r"Dropout: p must be a number; got 'a'$"):
        d2l.MultiHeadAttention(10, 5, "a")
    assert str(inspect.signature(d2l.MultiHeadAttention)) == "(num_hiddens, num_heads, dropout, bias=False)"


def test_a_name_of_an_older_edition_says_which_this_one_is():
    older = {"Animator": "", "EncoderBlock": "; see d2l.TransformerEncoderBlock"}
    for name, see in older.items():
        with pytest.raises(
            AttributeError, match=rf"'{name}'; it holds .*; {EDITION} \(docs/torch\.md\){see}$"
        ):
            getattr(d2l, name)


def test_steps_beyond_a_length():
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert d2l.sequence_mask(x, torch.tensor([1, 2])).tolist() == [[1, 0, 0], [4, 5, 0]]
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    y = torch.ones(2, 3, 5, requires_grad=True)
    filled = d2l.sequence_mask(y, torch.tensor([1, 3]), value=-1)
    assert filled.sum((1, 2)).tolist() == [5 - 10, 15]
    filled.sum().backward()
    assert y.grad.sum((1, 2)).tolist() == [5, 15]


def test_heads_apart_and_together():
    x = torch.arange(2 * 3 * 10.0).reshape(2, 3, 10)
    heads = d2l.transpose_qkv(x, 5)
    assert heads.shape == (10, 3, 2)
    assert torch.equal(heads[7], x[1, :, 4:6])  # the third head of the second sequence
    assert torch.equal(d2l.transpose_output(heads, 5), x)
