"""Nadaraya-Watson pooling: against the reference, golden arrays, numeric slopes and its invariants."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep
from tolerances import TOLERANCES

import qkv
from qkv import _core, kernel_attention, reference
from qkv.testing import check_gradient

B, Lq, Lk, D, DV = 2, 5, 11, 3, 7
KERNELS = ["gaussian", "boxcar", "constant", "epanechnikov", "triangular"]
GOLDEN_NAMES = {
    "gaussian": "gaussian",
    "boxcar": "boxcar",
    "constant": "constant",
    "epanechnikov": "triangular",  # the document's name for it
}


def cauchy(u):
    return 1 / (1 + u * u)


def batch(seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=s).astype(dtype) for s in ((B, Lq, D), (B, Lk, D), (B, Lk, DV))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lens", [None, [7, 0], "per query"])
@sweep("kernel", [*KERNELS, cauchy])
def test_equals_the_reference(kernel, lens, dtype):
    lens = np.arange(B * Lq).reshape(B, Lq) if lens == "per query" else lens
    arrays = batch(dtype=dtype)
    y, w = kernel_attention(*arrays, kernel, 2.1, valid_lens=lens, return_weights=True)
    expected_y, expected_w = reference.kernel_attention(
        *arrays, kernel, 2.1, valid_lens=lens, return_weights=True
    )
    assert y.dtype == w.dtype == dtype
    np.testing.assert_allclose(y, expected_y, *TOLERANCES[dtype])
    np.testing.assert_allclose(w, expected_w, *TOLERANCES[dtype])
    np.testing.assert_array_equal(kernel_attention(*arrays, kernel, 2.1, valid_lens=lens), y)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values(name, golden):
    u = np.array([-2.0, -1.0, -0.3, 0.0, 0.5, 1.0, 3.0])
    np.testing.assert_allclose(qkv.kernel_values(u, name), reference.kernel_values(u, name), 1e-15)
    check_gradient(lambda u: qkv.kernel_values(u, name), u[[0, 2, 4, 6]])
    g = golden("D0-05")
    for theirs, ours in GOLDEN_NAMES.items():
        g.close(theirs, qkv.kernel_values(g["x"], ours))
    np.testing.assert_array_equal(qkv.kernel_values(u, cauchy), cauchy(u))


def test_golden_arrays(golden):
    def compare(g, suffix, kernel, bandwidth=1.0):
        y, w = kernel_attention(
            g["x_val"], g["x_train"], g["y_train"], kernel, bandwidth, return_weights=True
        )
        g.close(f"weights.{suffix}", w, np.nan_to_num(g[f"weights.{suffix}"].T))
        g.close(f"y_hat.{suffix}", y, np.nan_to_num(g[f"y_hat.{suffix}"]))

    for theirs, ours in GOLDEN_NAMES.items():
        compare(golden("D0-07"), theirs, ours)
    for sigma in (0.1, 0.2, 0.5, 1):
        compare(golden("D0-09"), f"sigma_{sigma}", "gaussian", sigma)


@pytest.mark.parametrize("lens", [None, [7, 4]])
@pytest.mark.parametrize("kernel", ["gaussian", "constant", "epanechnikov", "triangular", cauchy])
def test_gradients(kernel, lens):
    def both(queries, keys, values, bandwidth):
        return kernel_attention(
            queries, keys, values, kernel, bandwidth, valid_lens=lens, return_weights=True
        )

    check_gradient(both, *batch(), np.array(2.1))


def test_gradients_of_scalars_and_boxcar_values():
    q, k, v = np.linspace(0, 1, 19), np.linspace(0, 1, 37) ** 2, np.linspace(3, 5, 37) ** 2
    check_gradient(lambda q, k, v, h: kernel_attention(q, k, v, "gaussian", h), q, k, v, np.array(0.3))
    check_gradient(lambda v: kernel_attention(q, k, v, "boxcar", 0.3), v)


@pytest.mark.parametrize("kernel", [*KERNELS, cauchy])
def test_the_gradient_at_distance_zero_is_finite(kernel):
    x = qkv.tensor([0.0, 1.0, 2.5], requires_grad=True)
    h = qkv.tensor(1.5, requires_grad=True)
    y = kernel_attention(x, x, [2.0, 4.0, 9.0], kernel, h)
    y.sum().backward()
    assert np.isfinite(np.asarray(x.grad)).all()
    assert np.isfinite(np.asarray(h.grad))


def test_scalars_points_and_batches_agree():
    q, k, v = batch()
    y = kernel_attention(q, k, v, "epanechnikov", 3.0)
    for b in range(B):
        np.testing.assert_array_equal(kernel_attention(q[b], k[b], v[b], "epanechnikov", 3.0), y[b])
    x = q[0, :, 0]
    scalar = kernel_attention(x, k[0, :, 0], v[0, :, 0])
    assert scalar.shape == (Lq,)
    np.testing.assert_array_equal(scalar, kernel_attention(x[:, None], k[0, :, :1], v[0, :, :1])[:, 0])
    assert kernel_attention(q[0], k[0], v[0, :, 0]).shape == (Lq,)
    assert kernel_attention(x, k[0, :, 0], v[0]).shape == (Lq, DV)


def test_weights_sum_to_one_or_are_zeros():
    q, k, v = batch()
    q[0, 0] = 1e3
    for kernel in (*KERNELS, cauchy):
        y, w = kernel_attention(q, k, v, kernel, 1.5, valid_lens=[9, 6], return_weights=True)
        empty = w.sum(-1) == 0
        assert empty[0, 0] == (kernel in ("boxcar", "epanechnikov", "triangular"))
        np.testing.assert_allclose(w.sum(-1)[~empty], 1)
        assert (y[empty] == 0).all()
        assert (w[1, :, 6:] == 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_far_query_gets_its_nearest_keys(dtype):
    k = np.array([0.0, 0.5, 1.0], dtype)
    for far, nearest in ((1e3, 4.0), (-1e6, 2.0), (1e12, 4.0)):
        y = kernel_attention(np.array([far], dtype), k, np.array([2.0, 3.0, 4.0], dtype), bandwidth=0.01)
        assert y.tolist() == [nearest]


def test_the_boxcar_ends_where_the_distance_is_the_bandwidth():
    x = np.arange(-7, 8) * 0.1
    for bandwidth in (0.1, 0.3, 0.6000000000000001, 0.7, 1e-150, 1e150):
        for edge in (bandwidth, np.nextafter(bandwidth, 0), np.nextafter(bandwidth, 1)):
            keys = np.concatenate([x, [edge, -edge]])
            _, w = kernel_attention(x, keys, keys, "boxcar", bandwidth, return_weights=True)
            inside = np.abs(x[:, None] - keys) / bandwidth < 1
            np.testing.assert_array_equal(w > 0, inside)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weights_too_small_to_matter_are_zero(dtype):
    keys = np.linspace(0, 60, 997, dtype=dtype)
    _, w = kernel_attention(np.zeros(1, dtype), keys, keys, return_weights=True)
    assert (w[w > 0] >= np.finfo(dtype).tiny).all()
    np.testing.assert_allclose(
        w, reference.kernel_attention(np.zeros(1), keys, keys, return_weights=True)[1], 1e-5, 1e-30
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_weights_below_the_normal_numbers_sum_to_1(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    given = {
        "queries": np.zeros(1, dtype),
        "keys": np.arange(3, dtype=dtype),
        "values": np.arange(3, dtype=dtype),
    }
    y, w = qkv.kernel_attention(**given, kernel=lambda u: ((u + 1) * tiny).astype(dtype), return_weights=True)
    np.testing.assert_allclose(w, [[1 / 6, 1 / 3, 1 / 2]], rtol=1e-6)
    np.testing.assert_allclose(y, [4 / 3], rtol=1e-6)


def test_the_constant_kernel_is_the_mean():
    q, k, v = batch()
    y = kernel_attention(q, k, v, "constant")
    np.testing.assert_allclose(y, np.broadcast_to(v.mean(1, keepdims=True), y.shape))


@pytest.mark.parametrize("kernel", [*KERNELS, cauchy])
def test_excluded_keys_have_neither_influence_nor_gradient(kernel):
    q, k, v = batch()
    clean = kernel_attention(q, k, v, kernel, 2.0, valid_lens=[7, 4])
    k[0, 7:] = k[1, 4:] = np.nan
    v[0, 7:] = v[1, 4:] = np.inf
    tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v, np.array(2.0))]
    y, w = kernel_attention(*tensors[:3], kernel, tensors[3], valid_lens=[7, 4], return_weights=True)
    np.testing.assert_array_equal(y, clean)
    ((y * y).sum() + (w * w).sum()).backward()
    gradients = [np.asarray(t.grad) for t in tensors]
    assert all(np.isfinite(g).all() for g in gradients)
    for g in gradients[1:3]:
        assert (g[0, 7:] == 0).all()
        assert (g[1, 4:] == 0).all()


@pytest.mark.parametrize("read", ["output", "weights", "both"])
@pytest.mark.parametrize("kernel", [*KERNELS, cauchy, lambda u: qkv.kernel_values(u, "gaussian")])
def test_a_query_of_nan_that_the_loss_leaves_out_reaches_no_gradient(kernel, read):
    def gradients(queries):
        tensors = [qkv.tensor(x, requires_grad=True) for x in (queries, k, v, np.array(2.0))]
        y, w = kernel_attention(*tensors[:3], kernel, tensors[3], return_weights=True)
        parts = {"output": [y], "weights": [w], "both": [y, w]}[read]
        for part in parts:
            ((part[0, :3] ** 2).sum() + (part[1] ** 2).sum()).backward(retain_graph=True)
        return y.numpy(), [None if t.grad is None else t.grad.numpy() for t in tensors]

    q, k, v = batch()
    clean_y, clean = gradients(q)
    q[0, 3:] = np.nan
    y, found = gradients(q)
    np.testing.assert_array_equal(y[0, :3], clean_y[0, :3])
    np.testing.assert_array_equal(y[1], clean_y[1])
    np.testing.assert_array_equal(found[0][0, 3:], 0)
    for mine, expected in zip(found, clean, strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_keys_and_values_permute_together():
    q, k, v = batch()
    order = np.random.default_rng(2).permutation(Lk)
    y = kernel_attention(q, k[:, order], v[:, order], "triangular", 2.0)
    np.testing.assert_allclose(y, kernel_attention(q, k, v, "triangular", 2.0), *TOLERANCES["float64"])


def test_unusual_inputs():
    q, k, v = batch()
    expected = kernel_attention(q, k, v)
    strided = [np.repeat(x, 2, axis=1)[:, ::2] for x in (q, k, v)]
    for x in strided:
        x.flags.writeable = False
    np.testing.assert_array_equal(kernel_attention(*strided), expected)
    assert kernel_attention(q[:0], k[:0], v[:0]).shape == (0, Lq, DV)
    assert kernel_attention(q[:, :0], k, v).shape == (B, 0, DV)
    assert (kernel_attention(q, k[:, :0], v[:, :0]) == np.zeros((B, Lq, DV))).all()
    np.testing.assert_allclose(kernel_attention(q, k[:, :1], v[:, :1]), v[:, :1].repeat(Lq, 1))
    assert kernel_attention([1], [1, 2], [3, 4]).dtype == np.float32
    assert kernel_attention(q.astype("f2"), k.astype("f2"), v.astype("f2")).dtype == np.float16
    assert isinstance(kernel_attention(q, k, v, bandwidth=qkv.tensor(1.0)), qkv.Tensor)


@pytest.mark.parametrize("kernel", ["gaussian", "triangular", cauchy])
def test_equal_bits_for_any_number_of_threads(kernel):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype("float32") for s in ((251, 5), (401, 5), (401, 3))]
    before, results = qkv.get_num_threads(), []
    try:
        for threads in (1, 2):
            qkv.set_num_threads(threads)
            tensors = [qkv.tensor(x, requires_grad=True) for x in (*arrays, np.float32(2.0))]
            y = kernel_attention(*tensors[:3], kernel, tensors[3])
            (y * y).sum().backward()
            results.append([np.asarray(y), *(np.asarray(t.grad) for t in tensors)])
    finally:
        qkv.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_a_learned_bandwidth_lowers_the_error(kernel):
    rng = np.random.default_rng(0)
    x, x_new = np.sort(rng.random(53) * 5), rng.random(31) * 5
    y, y_new = 2 * np.sin(x) + x**0.8 + rng.normal(size=53) / 2, 2 * np.sin(x_new) + x_new**0.8
    h = qkv.tensor(np.array(1.6), requires_grad=True)
    optimizer = qkv.optim.SGD([h], lr=0.1)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        error = kernel_attention(x_new, x, y, kernel, h) - y_new
        loss = (error * error).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert (np.diff(losses) < 1e-3).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "cosine"}, r"kernel must be one of gaussian, .* got 'cosine'"),
        ({"bandwidth": 0.0}, r"bandwidth must be above 0 .* got bandwidth = 0"),
        ({"bandwidth": np.nan}, r"bandwidth must be above 0 .* got bandwidth = nan"),
        ({"bandwidth": [1.0, 2.0]}, r"bandwidth must be one number; got bandwidth \(2,\)"),
        ({"queries": np.ones((1, 1, 1, 1))}, r"queries must be scalars .* got queries \(1, 1, 1, 1\)"),
        ({"queries": 1.0}, r"queries must be scalars .* got queries \(\)"),
        ({"keys": np.ones((B, Lk, 2))}, r"keys must be \(B, Lk, D\) .* keys \(2, 11, 2\)"),
        ({"keys": np.ones(Lk)}, r"keys must be \(B, Lk, D\) .* keys \(11,\)"),
        ({"values": np.ones((B, 5, DV))}, r"values must be \(B, Lk, Dv\) with Lk = 11 .* \(2, 5, 7\)"),
        ({"values": np.ones(Lk)}, r"values must be \(B, Lk, Dv\) with Lk = 11 .* \(11,\)"),
        ({"valid_lens": [3, 12]}, r"valid_lens must be from 0 to Lk = 11; got 12"),
        (
            {"valid_lens": [3, 1, 1]},
            r"valid_lens must be \(B,\) = \(2,\) or \(B, Lq\) = \(2, 5\); got valid_lens \(3,\)",
        ),
        (
            {"kernel": lambda u: u[0]},
            r"kernel must return an array of the shape of u, \(2, 5, 11\), .* \(5, 11\)",
        ),
    ],
)
def test_rejections(change, message):
    arguments = dict(zip(("queries", "keys", "values"), batch(), strict=True))
    with pytest.raises(ValueError, match="kernel_attention: " + message):
        kernel_attention(**(arguments | change))


def test_kernel_values_refuses_an_unknown_name():
    with pytest.raises(ValueError, match=r"kernel_values: kernel must be one of .* got 'box'"):
        qkv.kernel_values([0.0], "box")


def test_lengths_that_change_after_the_call_leave_the_gradient_alone():
    rng = np.random.default_rng(0)
    queries, keys, values = rng.normal(size=(5, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    grads = []
    for length in (2, 10**7):
        q, lens = qkv.tensor(queries, requires_grad=True), qkv.tensor(2)
        y = kernel_attention(q, keys, values, valid_lens=lens)
        lens.numpy()[...] = length
        y.sum().backward()
        grads.append(q.grad.numpy())
    assert np.any(grads[0] != 0)
    np.testing.assert_array_equal(*grads)


def test_leave_one_out_refuses_a_bandwidth_of_zero():
    points, values = np.arange(3.0)[:, None], np.ones((3, 1))
    message = "leave_one_out_errors: bandwidths must be above 0 .*; got bandwidth 0"
    with pytest.raises(ValueError, match=message):
        _core.leave_one_out_errors(points, values, "boxcar", [1.0, 0.0])
