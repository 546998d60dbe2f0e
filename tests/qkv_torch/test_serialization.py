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


def test_views_of_one_memory_stay_so():
    x = torch.arange(12.0).reshape(3, 4)
    parts = {"rows": x[1:], "turned": x.t(), "column": x[:, 2], "whole": x}
    parts |= {"learned": torch.nn.Parameter(x), "again": x.detach()}
    read = written_and_read({"parts": parts, "list": [x[0], x]})
    for name, part in parts.items():
        assert torch.equal(read["parts"][name], part)
        assert read["parts"][name].stride() == part.stride()
        assert type(read["parts"][name]) is type(part)
        assert read["parts"][name].requires_grad == part.requires_grad
    first = read["parts"]["whole"]
    first[1, 2] = 50
    assert read["parts"]["rows"][0, 2] == read["parts"]["turned"][2, 1] == read["parts"]["column"][1] == 50
    assert read["parts"]["learned"][1, 2] == read["parts"]["again"][1, 2] == read["list"][1][1, 2] == 50
    first[0] = -1
    assert read["list"][0].tolist() == [-1] * 4
    assert x[1, 2] == 6


def test_views_in_narrow_integers_stay_so():
    numbers = torch.arange(100, dtype=torch.int8)
    a, b = written_and_read([numbers[5:10], numbers[7:20:2]])
    a[2] = -3
    assert (a.dtype, b.dtype, b[0].item()) == (torch.int8, torch.int8, -3)


def test_a_view_needs_its_share_of_the_file_alone():
    x = torch.zeros(1_000_000)
    for value in [x[:10], [x[:10], x[-10:]], [x[5:50], x[20:90]]]:
        file = io.BytesIO()
        torch.save(value, file)
        assert len(file.getvalue()) < 2000


def test_tensors_that_repeat_numbers_get_memory_of_their_own():
    x = torch.arange(3.0)
    read = written_and_read([x, x.expand(4, 3), x.unfold(0, 2, 1), x[:0]])
    read[0].fill_(9)
    assert read[1].tolist() == [[0, 1, 2]] * 4
    assert read[2].tolist() == [[0, 1], [1, 2]]
    assert read[3].shape == (0,)


def test_tied_weights_stay_tied():
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5))
    model[1].weight = model[0].weight
    read = written_and_read(model.state_dict())
    read["0.weight"][2, 1] = 7
    assert read["1.weight"][2, 1] == 7
    file = io.BytesIO()
    torch.save(model, file)
    whole = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert whole[0].weight is whole[1].weight
    assert whole[0].weight.requires_grad


def test_a_change_through_one_view_is_seen_by_the_gradient_of_another():
    x = torch.ones(3)
    leaf, other = written_and_read([x, x[:2]])
    y = (leaf.requires_grad_() ** 2).sum()
    other.add_(1)
    with pytest.raises(RuntimeError, match="was changed"):
        y.backward()


def test_computed_tensors_are_refused_where_they_share_memory():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^pickle: only leaves can be stored"):
        written_and_read([x, x[:2]])


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
