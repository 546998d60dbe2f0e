"""Anything but plain arrays: lists of Tensors, masked arrays, data frames, and what plotting makes of Tensors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qkv

M = np.random.default_rng(7).standard_normal((5, 7))


def test_lists_of_tensors():
    h = qkv.tensor([1.0, 2.0], requires_grad=True) * 2
    message = r"^tensor: data must not be a list of Tensors that record because .*qkv\.stack or qkv\.concatenate, or"
    for nested in ([h, h], (h,), [[h], [h]]):
        with pytest.raises(TypeError, match=message):
            qkv.tensor(nested)
    with pytest.raises(TypeError, match=r"^exp: x must not be a list of Tensors that record"):
        qkv.exp([h, h])
    assert qkv.tensor([h.detach(), h.detach()]).tolist() == [[2, 4], [2, 4]]
    with qkv.no_grad():
        assert qkv.tensor([h, h]).shape == (2, 2)
    assert not qkv.tensor(h).requires_grad  # asked for: a copy
    loop: list = []
    loop.append(loop)
    with pytest.raises((TypeError, ValueError)):
        qkv.tensor(loop)


MASKED = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: qkv.tensor(MASKED),
        lambda: qkv.exp(MASKED),
        lambda: qkv.softmax(MASKED),
        lambda: qkv.scaled_dot_product_attention(MASKED, np.ones((2, 2)), np.ones((2, 2))),
        lambda: qkv.scaled_dot_product_attention(
            np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), MASKED > 1
        ),
        lambda: qkv.nn.Linear(2, 3)(MASKED),
        lambda: qkv.tensor([[1.0, 2.0]]) + MASKED,
        lambda: qkv.concatenate([MASKED]),
        lambda: qkv.tensor([MASKED, MASKED]),
        lambda: qkv.nn.Embedding(5, 2)(MASKED.astype(int)),
        lambda: qkv.tensor([1.0, 2.0])[np.ma.array([0, 1], mask=[True, False])],
    ],
)
def test_masked_arrays_keep_their_mask(call):
    with pytest.raises(
        TypeError, match=r": \w+ must not be a NumPy masked array because its mask would be lost; pass"
    ):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda t: MASKED + t,
        lambda t: MASKED * t,
        lambda t: np.ma.array([1.0, 2.0]) - t,
        lambda t: np.ma.multiply(MASKED, t),
        lambda t: np.ma.where(MASKED > 1, MASKED, t),
        lambda t: MASKED.copy().__iadd__(t),
    ],
)
def test_masked_arrays_beside_a_tensor_that_records(call):
    t = qkv.tensor([1.0, 2.0], requires_grad=True)
    message = "^numpy.ma: the gradient would be lost because a masked array keeps none"
    for recorded in (t, t * 1):
        with pytest.raises(TypeError, match=message):
            call(recorded)
    assert isinstance(call(t.detach()), np.ma.MaskedArray)
    with qkv.no_grad():
        assert isinstance(call(t), np.ma.MaskedArray)
    assert not hasattr(t.detach(), "_data")


def test_masked_arrays_without_anything_masked():
    assert qkv.tensor(np.ma.array([1.0, 2.0])).tolist() == [1, 2]
    assert qkv.tensor(MASKED.filled(0)).shape == (2, 2)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(2, [("a", "f4"), ("b", "i4")]),
        np.ones(2, complex),
        np.array([None, 1]),
        np.array(["2020"], "M8[D]"),
        np.array([b"a"]),
    ],
)
def test_arrays_that_are_no_numbers(data):
    with pytest.raises(TypeError, match=r"^tensor: data must hold numbers; got ndarray of dtype"):
        qkv.tensor(data)
    with pytest.raises(TypeError, match=r"^tensor: data must hold real numbers; got ndarray of dtype"):
        qkv.tensor(data, "float64")
    with pytest.raises(TypeError, match=r"^exp: x must hold numbers; got dtype"):
        qkv.exp(data)
    with pytest.raises(TypeError, match=r"^add: other must hold numbers; got dtype"):
        qkv.tensor([1.0, 2.0]) + data


def test_pandas():
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([1.0, 2.0])
    t = qkv.tensor([1.0, 2.0], requires_grad=True)
    for result in (t + series, series + t):
        assert isinstance(result, qkv.Tensor)
        assert result.requires_grad
        assert result.tolist() == [2, 4]
    assert qkv.tensor(pandas.DataFrame({"a": [1.0], "b": [2.0]})).tolist() == [[1, 2]]
    with pytest.raises(TypeError, match="must hold numbers; got Series of dtype object"):
        qkv.tensor(pandas.Series([1, None], dtype=object))


def test_matplotlib_draws_tensors():
    pytest.importorskip("matplotlib")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in (qkv.tensor(M), qkv.tensor(M, requires_grad=True)):
            figure, axes = plt.subplots(1, 4)
            axes[0].imshow(t)
            axes[1].plot(t[0], t[1])
            axes[2].scatter(t[0], t[1])
            axes[3].bar(range(7), t[0])
            figure.canvas.draw()
            plt.close(figure)
