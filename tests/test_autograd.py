"""Recording and flowing back: accumulation, freed graphs, changed numbers, blocks without gradients."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import qkv
import qkv.torch


def leaf(*data: float) -> qkv.Tensor:
    return qkv.tensor(np.array(data, "float64"), requires_grad=True)


def test_backward_adds_to_leaves():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert x.grad.dtype == x.dtype
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_computed_tensors_have_no_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.sum().backward()
    assert y.grad is None
    assert (y.is_leaf, y.requires_grad, x.is_leaf) == (False, True, True)


def test_a_tensor_used_twice_gets_both_gradients():
    x = leaf(3.0)
    y = x * x
    (y * y + y).sum().backward()
    assert x.grad.tolist() == [4 * 27 + 6]


def test_backward_with_a_gradient():
    x = leaf(1.0, 2.0)
    (x * 3).backward([1, 10])
    assert x.grad.tolist() == [3, 30]
    (x * 3).backward(gradient=qkv.tensor([1.0, 0.0]))
    assert x.grad.tolist() == [6, 30]


def test_what_backward_refuses():
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError, match=r"^backward: gradient must be given because the Tensor has more than one"
    ):
        (x * 2).backward()
    with pytest.raises(
        ValueError, match=r"^backward: gradient must be \(2,\) because the Tensor is; got gradient \(3"
    ):
        (x * 2).backward(np.ones(3))
    with pytest.raises(
        RuntimeError, match=r"^backward: this Tensor has no gradient because nothing that it was made"
    ):
        qkv.tensor([1.0]).sum().backward()


def test_a_second_pass_needs_retain_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(
        RuntimeError, match=r"^backward: the graph was freed by an earlier backward; pass retain"
    ):
        y.backward()


def waiting(free) -> int:
    """How many bytes wait for reuse because of free()."""
    gc.collect()
    qkv.empty_cache()  # which keeps no more than so much
    free()
    return qkv.cached_bytes()


LARGE = 1 << 20


def test_backward_frees_what_it_saved():
    y = (leaf(*np.ones(LARGE)) * np.ones(LARGE)).sum()
    assert waiting(y.backward) >= 8 * LARGE


def test_a_result_without_readers_is_freed_without_the_cycle_collector():
    gc.disable()
    try:
        results = [leaf(*np.ones(LARGE)) * np.ones(LARGE)]
        assert waiting(results.clear) >= 2 * 8 * LARGE  # the product and the factor that its rule saved
    finally:
        gc.enable()


def test_a_node_holds_no_input_that_its_rule_does_not_need():
    y = leaf(*np.ones(LARGE))
    constant = qkv.tensor(np.ones(LARGE))
    qkv.empty_cache()
    for _ in range(20):
        y = y + constant
    assert qkv.cached_bytes() <= 3 * 8 * LARGE  # the memory of each sum was that of one before it
    assert waiting(lambda: y.backward(np.ones(LARGE))) <= 2 * 8 * LARGE


def test_a_gradient_is_one_tensor_that_takes_changes():
    p = leaf(1.0, 2.0, 3.0)
    (p * 3).sum().backward()
    g = p.grad
    assert p.grad is g
    g += p
    assert p.grad is g
    np.testing.assert_array_equal(p.grad.numpy(), [4.0, 5.0, 6.0])
    assert p.grad.requires_grad


def test_older_results_keep_their_history():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    z = y * 3  # of y before the change
    y += x * 10
    (gz,) = qkv.grad(z.sum(), [x], retain_graph=True)
    (gy,) = qkv.grad(y.sum(), [x])
    np.testing.assert_array_equal(gz.numpy(), np.full(3, 6.0))
    np.testing.assert_array_equal(gy.numpy(), np.full(3, 12.0))


def test_no_grad():
    x = leaf(1.0)
    with qkv.no_grad():
        assert not (x * 2).requires_grad
        with qkv.no_grad():
            pass
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad

    @qkv.no_grad()
    def double(t):
        """Twice t."""
        return t * 2

    assert not double(x).requires_grad
    assert (double.__name__, double.__doc__) == ("double", "Twice t.")
    assert (x * 2).requires_grad


def test_no_grad_of_a_generator_holds_between_its_yields_alone():
    x = leaf(1.0)

    @qkv.no_grad()
    def twice(t):
        for _ in range(2):
            yield t * 2

    steps = twice(x)
    for y in steps:
        assert not y.requires_grad
        assert (x * 2).requires_grad


def test_no_grad_ends_with_an_error_too():
    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError), qkv.no_grad():
        1 / 0  # noqa: B018
    assert (x * 2).requires_grad


def test_detach_cuts():
    x = leaf(2.0)
    y = x * x
    (y.detach() * x).sum().backward()
    assert x.grad.tolist() == [4]
    assert not y.detach().requires_grad
    assert np.shares_memory(y.detach().numpy(), y.numpy())


def test_requires_grad_can_be_set_on_floating_leaves():
    x = qkv.tensor([1.0, 2.0])
    x.requires_grad = True
    y = x * 2
    assert y.requires_grad
    with pytest.raises(
        RuntimeError, match=r"^requires_grad: can be set on leaves only; got a computed Tensor$"
    ):
        y.requires_grad = False
    with pytest.raises(
        TypeError, match=r"^requires_grad: only floating Tensors have gradients; got dtype int64$"
    ):
        qkv.tensor([1]).requires_grad = True


def test_grad_can_be_assigned():
    x = leaf(1.0, 2.0)
    x.grad = [5, 6]
    assert x.grad.dtype == np.float64
    (x * 1).sum().backward()
    assert x.grad.tolist() == [6, 7]
    with pytest.raises(
        ValueError, match=r"^grad: grad must be \(2,\) because the Tensor is; got grad \(3,\)$"
    ):
        x.grad = np.ones(3)


def test_copy_raises_the_version_and_stale_graphs_complain():
    x = leaf(1.0, 2.0)
    y, before = (x * x).sum(), x.version
    assert x.copy_([3.0, 4.0]) is x
    assert x.version > before
    assert x.tolist() == [3, 4]
    with pytest.raises(
        RuntimeError, match=r"changed by copy_, load_state_dict or an optimizer after the forward"
    ):
        y.backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [6, 8]


def test_copy_broadcasts_and_casts():
    x = qkv.tensor(np.zeros((2, 3), "float32"))
    x.copy_(np.arange(3))
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert x.dtype == np.float32
    with pytest.raises(
        ValueError, match=r"^copy_: values must broadcast to the Tensor's shape \(2, 3\); got values"
    ):
        x.copy_(np.ones(4))
    w = leaf(1.0, 2.0)
    computed = w * 2
    computed[:1].copy_([5.0])  # a recorded change: what was there gets no gradient
    assert computed.tolist() == [5, 4]
    assert qkv.grad(computed.sum(), w).tolist() == [0, 2]


def test_a_change_that_no_gradient_needs_is_no_error():
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    x.copy_([3.0, 4.0])
    y.backward()
    assert x.grad.tolist() == [1, 1]


def test_grad_leaves_everybody_s_grad_alone():
    x, w = leaf(1.0, 2.0), leaf(5.0)
    y = (x * x * w).sum()
    dx, dw = qkv.grad(y, [x, w], retain_graph=True)
    assert (dx.tolist(), dw.tolist()) == ([10, 20], [5])
    assert (x.grad, w.grad) == (None, None)
    assert qkv.grad(y, x, gradient=2.0).tolist() == [20, 40]
    assert qkv.grad((x * 2).sum(), w).tolist() == [0]


def test_grad_of_something_on_the_way():
    x = leaf(1.0, 2.0)
    h = x * 3
    assert qkv.grad((h * h).sum(), h).tolist() == [6, 12]


def test_jacobian():
    x = np.random.default_rng(0).standard_normal((2, 3))
    J = qkv.jacobian(lambda t: (t * t).sum(axis=1), x)
    assert J.shape == (2, 2, 3)
    np.testing.assert_allclose(J, np.einsum("ik,ij->ijk", 2 * x, np.eye(2)), rtol=1e-12)
    assert qkv.jacobian(lambda t: qkv.tensor([1.0, 2.0]), x).tolist() == np.zeros((2, 2, 3)).tolist()


def test_a_long_chain_does_not_exhaust_the_stack():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1]
    del y


def test_later_passes_add_into_the_same_gradient():
    p = qkv.tensor(np.ones((2, 3)), requires_grad=True)
    (p * 2).sum().backward()
    held, row = p.grad, p.grad[1]
    (p * 3).sum().backward()
    assert p.grad is held
    assert held.tolist() == [[5] * 3] * 2
    assert row.tolist() == [5] * 3
    y = (row * p[0]).sum()  # keeps the gradient for its derivative
    p.sum().backward()
    assert row.tolist() == [6] * 3
    with pytest.raises(RuntimeError, match="was changed"):
        qkv.grad(y, p)
    p.grad = None
    p.sum().backward()
    assert held.tolist() == [[6] * 3] * 2
    assert p.grad is not held


def test_the_first_gradient_is_in_memory_of_its_own():
    p, q = (qkv.tensor(np.ones(3), requires_grad=True) for _ in range(2))
    seed = qkv.tensor(np.ones(3))
    (p + q).backward(seed)
    (p + q).backward(p.grad)  # what arrives is the memory that it is added to
    (p.reshape(3) + q).backward(q.grad)
    assert (p.grad.tolist(), q.grad.tolist(), seed.tolist()) == ([4] * 3, [4] * 3, [1] * 3)


def test_a_gradient_of_other_data():
    p = qkv.torch.tensor([1.0, 2.0], requires_grad=True)
    p.sum().backward()
    p.grad.data = qkv.torch.tensor([[3.0, 0.0], [4.0, 0.0]])[:, 0]  # strided
    p.sum().backward()
    assert p.grad.tolist() == [4, 5]
    p.grad.data = qkv.torch.ones(3)
    with pytest.raises(
        RuntimeError, match=r"^backward: the gradient of a leaf of shape \(2,\) was given other data"
    ):
        p.sum().backward()


def test_a_view_follows_a_base_that_comes_to_require_a_gradient():
    x = qkv.tensor(np.ones((2, 3)))
    row, scaled = x[1], x[0] * 2
    assert not row.requires_grad
    x.requires_grad = True
    assert row.requires_grad
    assert not row.is_leaf
    assert not scaled.requires_grad
    (row * 5).sum().backward()
    assert x.grad.tolist() == [[0] * 3, [5] * 3]
    with pytest.raises(RuntimeError, match="a view of a leaf that requires a gradient"):
        row += 1
