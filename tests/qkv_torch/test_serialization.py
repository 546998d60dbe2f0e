"""torch.save and torch.load: what files hold, and that reading one runs nobody's code."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import qkv.torch as torch


def written_and_read(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
def test_tensors_of_every_dtype(kind):
    t = torch.tensor([[0, 1, 3]]).to(getattr(torch, kind))
    read = written_and_read({"t": t, "dtype": t.dtype})
    assert read["dtype"] is t.dtype
    assert read["t"].dtype is t.dtype
    assert torch.equal(read["t"], t)


def test_dtypes_of_earlier_files():
    old = b"\x80\x04cqkv.torch._dtypes\nfloat64\n."
    assert torch.load(io.BytesIO(old)) is torch.float64


def call(module: str, name: str, *arguments: str) -> bytes:
    """A pickle that calls module.name(*arguments)."""

    def text(value: str) -> bytes:
        return b"\x8c" + bytes([len(value)]) + value.encode()

    return b"\x80\x04" + text(module) + text(name) + b"\x93(" + b"".join(map(text, arguments)) + b"tR."


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("copyreg", "_reconstructor"),
        ("functools", "partial"),
        ("qkv.torch._dtypes", "np.os.system"),
        ("qkv.torch._dtypes", "np.lib.format.os.system"),
        ("qkv.torch._dtypes", "shown"),
        ("qkv.torch._dtypes", "Size.__reduce__"),
        ("qkv.torch._dtypes", "set_default_dtype"),
        ("qkv.torch", "Tensor.__class__"),
        ("numpy", "ndarray.__class__"),
        ("numpy", "load"),
        ("qkv.torch._serialization", "load"),
    ],
)
def test_a_file_runs_no_code(module, name, tmp_path):
    target = tmp_path / "harmed"
    with pytest.raises(pickle.UnpicklingError, match=r"^load: the file must hold Tensors"):
        torch.load(io.BytesIO(call(module, name, f"touch {target}")))
    assert not target.exists()


def test_an_array_cannot_hold_code(tmp_path):
    class Harm:
        def __reduce__(self):
            return eval, ("1 + 1",)

    content = pickle.dumps(np.array([Harm()], dtype=object), 4)
    with pytest.raises(pickle.UnpicklingError, match=r"^load: the file must hold Tensors"):
        torch.load(io.BytesIO(content))
