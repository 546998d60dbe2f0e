"""Parts of bodies and blocks under other names and in containers; masks of keys, and rows that are left out."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close

from models.test_transformer_body import IDS, F, H, L, M, V, X, block, body
from qkv import _core, nn

# Of a block whose parts are in containers.
PATHS = {
    "self_attn": "attention.inner",
    "self_attn.q_proj": "attention.inner.query",
    "self_attn.out_proj": "attention.dense",
    "norm1": "attention.norm",
    "dropout1": "attention.dropout",
    "linear1": "wide",
    "linear2": "narrow.dense",
    "norm2": "narrow.norm",
    "dropout2": "narrow.dropout",
}


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_names_of_parts(placement):
    options = {"placement": placement, "qkv_bias": False}
    plain = body(options, options)
    named = _core.TransformerBody(
        [{"nhead": H, "dim_feedforward": F, "names": PATHS, **options}] * 2, d_model=M, names={"layers": "stack"}
    ).to("float64").eval()  # fmt: skip
    state = {}
    for key, value in plain.state_dict().items():
        _, number, part = key.split(".", 2)
        part, _, last = part.rpartition(".")
        path = PATHS.get(part, part.replace("self_attn", PATHS["self_attn"]))
        state[f"stack.{number}.{path}.{last}"] = value
    named.load_state_dict(state)
    for its in (named, pickle.loads(pickle.dumps(named))):
        close(
            its(X, valid_lens=[L, 2], skip_padding=True),
            plain(inputs=X, valid_lens=[L, 2], skip_padding=True),
        )
        assert its.stack[1].narrow.dense.weight.shape == (M, F)
        assert [name for name, _ in its._children()] == ["stack"]
    layer = named.stack[0]
    before = layer(X).numpy()
    layer.narrow = copy.deepcopy(layer.narrow)
    layer.narrow.dense.load_state_dict({"weight": np.zeros((M, F)), "bias": np.ones(M)})
    assert np.abs(layer(X).numpy() - before).max() > 1e-2
    layer.wide = nn.ReLU()
    with pytest.raises(
        TypeError, match="TransformerBlock: wide must be of its own kind because the layer computes"
    ):
        layer(X)


def test_a_block_takes_a_mask_of_keys():
    b = block()
    mask = [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0]]
    close(b(X, attention_mask=mask), b(X, attn_mask=np.array(mask, bool)[:, None]))
    both = np.array(mask, bool) & (np.arange(L) < np.array([[2], [3]]))
    close(b(X, attention_mask=mask, valid_lens=[2, 3]), b(X, attn_mask=both[:, None]))
    with pytest.raises(
        ValueError, match=r"attention_mask must be given with x \(B, L, M\) and without attn_mask"
    ):
        b(X, attention_mask=mask, attn_mask=np.ones((L, L), bool))


def test_rows_with_holes_are_left_out_where_distances_do_not_count():
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]])
    for options in ({}, {"window": (1, 1)}, {"alibi": True}, {"relative_bias": {}}, {"rotary_base": 9.0}):
        b = body(options, vocab_size=V, max_positions=L)
        found = b(IDS, attention_mask=mask, skip_padding=True).numpy()
        close(found, b(IDS, attention_mask=mask).numpy() * mask[..., None])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": {"linear1": "a"}}, "names must have a path of self_attn; got none"),
        ({"names": PATHS | {"norm3": "b"}}, 'names must be paths of parts that have one; got "b" for norm3'),
        ({"names": PATHS | {"norm1": ""}}, 'names must be paths of parts that have one; got "" for norm1'),
        (
            {"names": PATHS, "gated": True},
            "names must be {} with memory, gated, or such a placement; got some",
        ),
        ({"names": 3}, "TransformerBlock: names must be None or a dict of strings; got 3"),
    ],
)
def test_names_that_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        _core.TransformerBlock(**{"d_model": M, "nhead": H, "dim_feedforward": F} | options)
