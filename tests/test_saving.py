"""State dicts are saved as they are, by the libraries that people save arrays with."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv import nn


def layer(dtype="float32"):
    return nn.TransformerEncoderLayer(6, 2, 5).to(dtype)


def assert_same(loaded, state):
    assert set(loaded) == set(state)
    for name, value in state.items():
        assert loaded[name].dtype == value.dtype
        np.testing.assert_array_equal(loaded[name], value.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_safetensors(tmp_path, dtype):
    library = pytest.importorskip("safetensors.numpy")
    state = layer(dtype).state_dict()
    library.save_file(state, tmp_path / "layer.safetensors")
    loaded = library.load_file(tmp_path / "layer.safetensors")
    assert_same(loaded, state)
    assert_same(library.load(library.save(state)), state)
    other = layer(dtype)
    other.load_state_dict(loaded)
    assert_same(other.state_dict(), state)


def test_safetensors_of_a_parameter_and_of_integers(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    things = {
        "weight": nn.Parameter(np.arange(6.0).reshape(2, 3)),
        "ids": qkv.tensor([3, 5]),
        "one": qkv.tensor(2.0),
    }
    assert_same(library.load(library.save(things)), {name: t.detach() for name, t in things.items()})


def test_safetensors_of_torch_says_what_it_takes(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    with pytest.raises(ValueError, match=r"expected torch.Tensor but received .*Tensor"):
        library.save_file(layer().state_dict(), tmp_path / "layer.safetensors")


def test_numpy(tmp_path):
    state = layer().state_dict()
    np.savez(tmp_path / "layer.npz", **state)
    with np.load(tmp_path / "layer.npz") as loaded:
        assert_same(dict(loaded), state)
        other = layer()
        other.load_state_dict(dict(loaded))
    assert_same(other.state_dict(), state)


def test_sizes_in_bytes():
    t = qkv.tensor(np.arange(6.0).reshape(2, 3))
    assert (t.itemsize, t.nbytes) == (8, 48)
    assert t.tobytes() == np.arange(6.0).tobytes()
    assert t.ctypes.data == t.numpy().ctypes.data
    empty = qkv.tensor(np.zeros((0, 3), "float32"))
    assert (empty.itemsize, empty.nbytes, empty.tobytes()) == (4, 0, b"")
