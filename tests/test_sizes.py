"""Sizes that no memory holds and products that no integer holds: an error that names the shape, at once."""

import os
import subprocess
import sys

import numpy as np
import pytest

import qkv
from qkv import nn

LIMITED = pytest.mark.skipif(
    "QKV_SANITIZER" in os.environ or sys.platform != "linux", reason="the address space cannot be limited"
)

# Statement, and a part of the error's text: each ran over memory, never ended or "succeeded".
STATEMENTS = [
    (
        "nn.Embedding(2**62, 4)",
        "ValueError: shape: sizes must be at least 0 and their product below 2^63; got (4611686018427387904, 4)",
    ),
    (
        "nn.Embedding(2**61, 3)",
        "MemoryError: array: (2305843009213693952, 3) of dtype float32 needs more than 2^63 bytes",
    ),
    (
        "qkv.tensor(np.ones(16)).reshape(2**62 + 4, 4)",
        "ValueError: shape: sizes must be at least 0 and their product below 2^63",
    ),
    ("qkv.tensor(np.ones(16)).reshape(2**32, 2**32)", "ValueError: shape: sizes must"),
    (
        "nn.Linear(2**32, 2**30)",
        "MemoryError: array: (1073741824, 4294967296) of dtype float32 needs more than 2^63 bytes",
    ),
    (
        "nn.Linear(2**40, 1)",
        "MemoryError: array: (1, 1099511627776) of dtype float32 needs 4398046511104 bytes, which cannot be had",
    ),
    ("qkv.tensor(np.ones((0, 3))).reshape(2**63 - 1, 0, 4)", "ValueError: shape: sizes must"),
    ("qkv.tensor(np.ones(16)).reshape(2**62, 4, -1)", "ValueError: shape: sizes must"),
    ("nn.PositionalEncoding(2**32, max_len=2**32)", "ValueError: shape"),
    (
        "nn.PositionalEncoding(2**20, max_len=2**30)",
        "MemoryError: array: (1073741824, 1048576) of dtype float64",
    ),
    ("qkv.sinusoidal_positions(2**31, 2**32)", "shape"),
    ("qkv.sinusoidal_positions(2**62, 2)", "2^63"),
    ("qkv.rotary_tables(np.arange(5.0), 2**62)", "2^63"),
    ("qkv.relative_rotation(1, 2**32)", "shape"),
    ("qkv.softmax_jacobian(np.ones(2**22, np.float32))", "MemoryError: array: (4194304, 4194304)"),
    ("qkv.matmul(np.ones((2**40, 0)), np.ones((0, 2**40)))", "shape"),
    (
        "qkv.matmul(np.ones((2**20, 0)), np.ones((0, 2**20)))",
        "MemoryError: array: (1048576, 1048576) of dtype float64",
    ),
    (
        "qkv.scaled_dot_product_attention(*[np.ones((2**40, 0))] * 3, return_weights=True)",
        "",
    ),
    ("nn.LayerNorm(2**62)", "MemoryError"),
    ("nn.LayerNorm((2**32, 2**32))", "ValueError: shape"),
    (
        "nn.RMSNorm(2**60)",
        "MemoryError: array: (1152921504606846976,) of dtype float32 needs 4611686018427387904 bytes",
    ),
    ("models.BertModel(models.BertConfig(vocab_size=2**61, hidden_size=4, num_attention_heads=2))", ""),
    ("qkv.alibi_slopes(2**62)", "MemoryError"),
    ("qkv.alibi_slopes(2**63 - 1)", "MemoryError"),
    ("nn.GRU(4, 2**62)", ""),
    ("nn.GRU(4, 4, num_layers=2**62)", "MemoryError: qkv: a size is too large for any memory"),
    ("nn.MultiHeadAttention(2**62, 2)", ""),
    ("qkv.randperm(2**62)", ""),
    ("qkv.randn(2**62)", ""),
    ("qkv.rand(2**40, 2**40)", ""),
    ("qkv.random.multinomial(np.ones((2, 3)), 2**62, replacement=True)", ""),
    ("masks.causal(2**40)", ""),
    ("masks.lengths([1], 2**50)", ""),
]
CHILD = """
import resource, sys
import numpy as np
import qkv, qkv.random
from qkv import masks, models, nn
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
for statement in {statements!r}:
    try:
        eval(statement)
        print("nothing", flush=True)
    except (ValueError, MemoryError, AttributeError) as error:
        print(type(error).__name__ + ": " + str(error), flush=True)
"""


@LIMITED
def test_enormous_sizes_are_errors() -> None:
    code = CHILD.format(statements=[statement for statement, _ in STATEMENTS])
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    lines = child.stdout.splitlines()
    assert child.returncode == 0, STATEMENTS[len(lines)][0] + child.stderr
    for (statement, message), line in zip(STATEMENTS, lines, strict=True):
        assert message in line, f"{statement}: {line}"
        assert line != "nothing", statement


def test_shapes_that_hold_themselves_or_too_many_axes() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="reshape: shape must be whole numbers"):
        qkv.tensor([1.0]).reshape(endless)
    with pytest.raises(
        ValueError,
        match="reshape: shape must hold at most 64 numbers because an array has no more axes; got 65",
    ):
        qkv.tensor([1.0]).reshape((1,) * 65)
    assert qkv.tensor([1.0]).reshape([1, 1]).shape == (1, 1)


def test_numbers_that_no_integer_holds() -> None:
    for value in (1e39, float("nan"), -float("inf"), 2.0**63):
        with pytest.raises(ValueError, match="tensor: data must fit int64; got"):
            qkv.tensor([1.0, value], dtype=np.int64)
    assert qkv.tensor([1.9, -(2.0**63)], dtype=np.int64).tolist() == [1, -(2**63)]


def test_one_number_is_not_several() -> None:
    model = qkv.models.CausalLM(7, 4, 2, 1)
    for value in (np.zeros((0, 4)), np.array([1, 2, 3])):
        with pytest.raises(TypeError, match="CausalLM: end_id must be a whole number"):
            model.generate([[1, 2, 3]], end_id=value)


def test_negative_sizes_are_errors() -> None:
    with pytest.raises(ValueError, match="reshape: shape must hold the 0 numbers"):
        qkv.tensor(np.zeros(0)).reshape(-3, 0)


def test_offsets_and_windows_at_the_end_of_64_bits() -> None:
    last = 2**63 - 1
    window = qkv.masks.window(3, 5, (last, last), q_offset=1)
    assert window.all()
    assert not qkv.masks.window(3, 5, (0, 0), q_offset=last).any()
    assert not qkv.masks.window(3, 5, (-1, 0), q_offset=-last).any()
    x = np.ones((1, 3, 4))
    y = qkv.scaled_dot_product_attention(x, x, x, window=(last, last), q_offset=1)
    np.testing.assert_allclose(y, x)
    for sides, offset in [((0, 0), last), ((-1, 0), -last), ((0, -1), last)]:  # no key is near
        y = qkv.scaled_dot_product_attention(x, x, x, window=sides, q_offset=offset)
        np.testing.assert_allclose(y, 0 * x)


@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="takes minutes with a sanitizer")
def test_a_module_of_many_entries_is_made_in_linear_time() -> None:
    gru = nn.GRU(2, 2, num_layers=5003)
    assert len(gru.parameters()) == 4 * 5003
    assert gru.weight_hh_l5002.shape == (6, 2)
