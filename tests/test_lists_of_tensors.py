"""NumPy's functions of a list of Tensors that record: a line instead of a lost gradient."""

from __future__ import annotations

import numpy as np
import pytest

import qkv


def recording():
    return [qkv.tensor(x, requires_grad=True) for x in ([1.0, 2.0], [3.0, 5.0])]


NAMES = """
mean sum max min std var prod median sort cumsum ravel transpose average ptp flip squeeze
"""
COMPUTING = {name: getattr(np, name) for name in NAMES.split()}
COMPUTING |= {
    "norm": np.linalg.norm,
    "reshape": lambda x: np.reshape(x, -1),
    "clip": lambda x: np.clip(x, 0, 1),
    "percentile": lambda x: np.percentile(x, 50),
    "polyval": lambda x: np.polynomial.polynomial.polyval(2.0, x),
}


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_is_refused(name):
    tensors = recording()
    message = rf"^numpy\.{name}: the gradient would be lost because NumPy makes an array of the Tensors; .*qkv\.stack"
    for given in (tensors, [[*tensors]], [x.sum() for x in tensors]):
        if name in ("norm", "transpose", "percentile") and given is not tensors:
            continue
        with pytest.raises(TypeError, match=message):
            COMPUTING[name](given)
    with qkv.no_grad():
        np.testing.assert_array_equal(COMPUTING[name](tensors), COMPUTING[name]([x.numpy() for x in tensors]))
    plain = [x.detach() for x in tensors]
    np.testing.assert_array_equal(COMPUTING[name](plain), COMPUTING[name]([x.numpy() for x in plain]))


def test_one_tensor_keeps_its_gradient():
    tensors = recording()
    np.mean(qkv.stack(tensors)).backward()
    np.testing.assert_array_equal(tensors[0].grad, [0.25, 0.25])


def test_what_only_looks_is_answered():
    tensors = recording()
    assert np.argmax([x.sum() for x in tensors]) == 1
    assert np.allclose(tensors, [[1, 2], [3, 5]])
    assert np.shape(tensors) == (2, 2)
    np.testing.assert_array_equal(tensors, [[1, 2], [3, 5]])
    np.testing.assert_allclose(tensors[0], [1, 2])


def test_arrays_are_made_where_they_are_asked_for():
    (t, u) = recording()
    for array in (np.asarray(t), np.array(t), np.asarray_chkfinite(t), np.array([t, u])[0]):
        np.testing.assert_array_equal(array, [1, 2])


def test_libraries_draw_lists_of_tensors():
    pytest.importorskip("matplotlib")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    losses = [x.sum() for x in recording()]
    figure, axes = plt.subplots()
    axes.plot(losses)
    axes.bar(range(2), losses)
    axes.scatter(losses, losses)
    figure.canvas.draw()
    plt.close(figure)
