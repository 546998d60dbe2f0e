"""Blocks that are entered again, numbers of NumPy's, half characters in titles, counts that are no counts."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import qkv
from qkv import nn, optim, torch

X = qkv.tensor([1.0, 2.0], requires_grad=True)
BLOCKS = {"no_grad": qkv.no_grad, "no_attention_record": qkv.no_attention_record}


def position(name):
    """Say whether the switch is as it is outside of all blocks."""
    if name == "no_grad":
        return (X * 2).requires_grad
    layer = nn.SelfAttention(3, 2)
    layer(np.ones((5, 3)))
    return layer.attention_weights is not None


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_can_be_entered_again(name):
    block = BLOCKS[name]()
    with block:
        with block:
            assert not position(name)
        assert not position(name)
        with block, pytest.raises(ZeroDivisionError), block:
            raise ZeroDivisionError
        assert not position(name)
    assert position(name)
    with block:
        assert not position(name)
    assert position(name)


def test_one_block_in_two_threads():
    block, seen = qkv.no_grad(), []
    inside, leave = threading.Event(), threading.Event()

    def other():
        with block:
            inside.set()
            leave.wait(60)
        seen.append((X * 2).requires_grad)

    thread = threading.Thread(target=other)
    with block:
        thread.start()
        inside.wait(60)
    assert (X * 2).requires_grad
    leave.set()
    thread.join()
    assert seen == [True]


def test_blocks_of_qkv_torch():
    import qkv.torch as torch

    t = torch.ones(2, requires_grad=True)
    for block in (torch.no_grad(), torch.inference_mode()):
        with block, block:
            assert not (t * 2).requires_grad
        assert (t * 2).requires_grad
    off = torch.no_grad()
    on = torch.enable_grad()
    with off, on, off, on:
        assert (t * 2).requires_grad
    assert (t * 2).requires_grad
    switch = torch.set_grad_enabled(False)
    with switch, switch:
        assert not (t * 2).requires_grad
    assert (t * 2).requires_grad


@pytest.mark.parametrize(
    ("value", "tensor", "function"),
    [
        (np.array([np.pi], np.longdouble), "float64", "float64"),
        (np.longdouble(np.pi), "float64", "float64"),
        (np.float64(np.pi), "float64", "float64"),
        (np.float32(np.pi), "float32", "float32"),
        (np.float16(1.5), "float32", "float16"),
        (1.5, "float32", "float32"),
        ([1.5], "float32", "float32"),
        (np.int32(3), "int64", "float32"),
        (3, "int64", "float32"),
    ],
)
def test_numbers_of_numpy_keep_their_width(value, tensor, function):
    assert qkv.tensor(value).dtype == tensor
    for f in (qkv.exp, qkv.relu, lambda x: qkv.maximum(x, x) * 1.0 if np.ndim(x) else qkv.sigmoid(x)):
        assert np.asarray(f(value)).dtype == function
    np.testing.assert_array_equal(qkv.tensor(value), np.asarray(value, tensor))


TITLE = "half \ud800 a character\nand a line"


def test_half_characters_in_titles_do_not_break_files(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from qkv import plot

    weights, tokens = np.full((1, 2, 3, 3), 1 / 3), ["a", "b", "c"]
    views = [
        plot.head_view(weights[0], tokens, title=TITLE),
        plot.head_view(weights[0], tokens, titles=[TITLE, TITLE]),
        plot.layer_view(weights, tokens, title=TITLE),
        plot.token_view(weights[0], tokens, title=TITLE),
        plot.compare_view(weights, weights, tokens, title=TITLE),
        plot.image_view(np.full((2, 4, 4), 0.25), np.zeros((4, 4, 3)), title=TITLE),
    ]
    for view in views:
        for end in ("html", "svg", "pdf", "png"):
            view.save(tmp_path / f"view.{end}")
        assert "\ud800" not in view._repr_html_()
    assert views[0].title == "half \\ud800 a character\nand a line"
    plot.AttentionSliders(np.eye(3), np.eye(3), np.eye(3), title=TITLE).save(tmp_path / "sliders.html")
    figures = [
        plot.heatmap(np.eye(3), TITLE, TITLE, title=TITLE)[0],
        plot.show_heatmaps(weights, TITLE, TITLE, titles=[TITLE, TITLE])[0],
        plot.plot_lines([1, 2], [1, 2], TITLE, TITLE, title=TITLE, legend=[TITLE])[0],
        plot.training_curve([2.0, 1.0], title=TITLE, reference={TITLE: 1.0})[0],
        plot.kernel_regression([0, 1], {TITLE: [0, 1]}, legend=[TITLE])[0],
    ]
    for figure in figures:
        for end in ("svg", "pdf", "png"):
            figure.savefig(tmp_path / f"figure.{end}")


@pytest.mark.parametrize("mask_id", [4.5, "4", None, True, [4]])
def test_a_mask_id_is_a_token(mask_id):
    with pytest.raises(TypeError, match=r"^mask_tokens: mask_id must be an integer"):
        qkv.models.mask_tokens([[5, 6, 7]], vocab_size=30, mask_id=mask_id, probability=1.0)


def test_a_task_without_tests_has_no_majority():
    pytest.importorskip("babel")
    for options in ({"count": 10, "held_out": 0}, {"count": 0, "held_out": 5}):
        with pytest.raises(ValueError, match=r"^Task.majority: count and held_out must be above 0; got "):
            qkv.data.task("topic", **options).majority()
    assert 0 < qkv.data.task("topic", 30, held_out=20).majority() <= 1


def test_split_says_what_its_places_must_be():
    for call, name in (
        (lambda: qkv.split(np.arange(6), 2.0), "indices_or_sections"),
        (lambda: qkv.split(np.arange(6), [1.5]), "indices_or_sections"),
        (lambda: qkv.split(np.arange(6), 2, axis=0.5), "axis"),
    ):
        with pytest.raises(TypeError, match=f"^split: {name} must be an integer"):
            call()


def test_a_number_has_no_axis_to_normalize():
    words = r"^normalize: axis must be None because a number has no axes; got axis -1$"
    with pytest.raises(ValueError, match=words):
        qkv.normalize(3.0)


def test_clipping_of_an_exhausted_iterator_warns():
    with pytest.warns(UserWarning, match="^clip_grad_norm: params is an iterator without Tensors"):
        assert qkv.optim.clip_grad_norm((p for p in []), 1.0) == 0
    assert (
        qkv.optim.clip_grad_norm([], 1.0)
        == qkv.optim.clip_grad_norm(iter([qkv.nn.Parameter([1.0])]), 1.0)
        == 0
    )


def test_several_constants_around_an_array():
    learned = qkv.tensor(np.float32(2.0), requires_grad=True)
    for x in (qkv.tensor(np.ones((2, 2))), qkv.tensor(np.ones((2, 2)), requires_grad=True)):
        with pytest.raises(TypeError, match="the gradient would be lost because a constant that records"):
            np.pad(x, 1, constant_values=(learned, 0.0))
        with pytest.raises(TypeError, match=r"^pad: constant_values must be one number; got \(Tensor, 0.0\)"):
            qkv.pad(x, 1, constant_values=(learned, 0.0))


def test_options_of_an_optimizer_are_hinted_at_where_it_has_them():
    for optimizer, own in ((optim.SGD, ["momentum", "nesterov"]), (optim.Adam, ["betas", "eps"])):
        made = optimizer(nn.Linear(2, 2).parameters(), lr=0.1)
        for name in ("momentum", "nesterov", "betas", "eps", "weight_decay"):
            with pytest.raises(AttributeError) as error:
                setattr(made, name, 1)
            assert (f'write group["{name}"]' in str(error.value)) == (name in (*own, "weight_decay"))


def test_a_formula_makes_no_tensor_of_a_captured_array():
    q, bias = np.ones((1, 1, 4, 2), "f4"), torch.ones(4)
    with pytest.raises(
        TypeError, match=r"must not make a Tensor of a captured array \(4,\); compute it outside"
    ):
        qkv.scaled_dot_product_attention(
            q, q, q, score_mod=lambda s, b, h, i, j: s + torch.zeros_like(bias)[j]
        )
