"""Heads, layers, curves and drawings, read back from matplotlib."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import qkv
from qkv import plot
from qkv.training import History

TOKENS = ["it", "is", "$very$", "dry", "."]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def weights(*shape):
    return qkv.softmax(3 * np.random.default_rng(0).normal(size=shape))


def texts(ax):
    return [t.get_text() for t in ax.texts]


class TestHeadView:
    def test_lines_are_as_strong_as_the_weights(self):
        table = weights(3, 5, 2)
        table[1, 0] = [1.0, 0.0]
        fig, axes = plot.head_view(table, TOKENS, ["a", "b"])
        assert [ax.get_title() for ax in axes] == ["head 0", "head 1", "head 2"]
        (lines,) = axes[1].collections
        drawn = {
            (round(line[0][1]), round(line[1][1])): color[3]
            for line, color in zip(lines.get_segments(), lines.get_colors(), strict=True)
        }
        assert drawn[0, 0] == 1.0
        assert (0, 1) not in drawn
        for (q, k), alpha in drawn.items():
            assert alpha == pytest.approx(table[1, q, k])
        assert {line[0][0] for line in lines.get_segments()} == {0.0}
        assert texts(axes[1]) == [*TOKENS, "a", "b"]
        fig.canvas.draw()  # a dollar sign is no formula

    def test_one_matrix_one_sentence(self):
        assert plot.head_view(weights(5, 5), TOKENS)[1].shape == (1,)
        assert plot.head_view(weights(1, 2, 5, 5), TOKENS)[1].shape == (2,)
        assert plot.head_view(qkv.tensor(weights(5, 5)), TOKENS)[1].shape == (1,)

    def test_into_given_axes_with_titles(self):
        _, axes = plt.subplots(1, 2)
        _, drawn = plot.head_view(weights(2, 5, 5), TOKENS, titles=["x", "y"], ax=axes)
        assert list(drawn) == list(axes)
        assert [ax.get_title() for ax in axes] == ["x", "y"]

    def test_of_several_layers_the_titles_say_which(self):
        layers = [weights(2, 5, 5), weights(2, 5, 5)]
        assert [ax.get_title() for ax in plot.head_view(layers, TOKENS, layer=-1)[1]] == [
            "layer 1, head 0",
            "layer 1, head 1",
        ]
        assert plot.head_view(layers, TOKENS, layer=1, head=1)[1][0].get_title() == "layer 1, head 1"

    def test_columns(self):
        fig, axes = plot.head_view(weights(5, 5, 5), TOKENS, ncols=2)
        assert len(fig.axes) == 6
        assert len(axes) == 5
        assert axes[2].get_subplotspec().rowspan.start == 1

    @pytest.mark.parametrize(
        ("shape", "options", "words"),
        [
            ((2, 2, 3, 5, 5), {}, r"weights must be \(Lq, Lk\).*got \(2, 2, 3, 5, 5\)"),
            ((2, 3, 5, 5), {"item": 2}, r"item must be from 0 to 1 because weights hold 2 sentences; got 2"),
            ((3, 5, 5), {"item": -1}, r"item must be from 0 to 0 because weights hold 1 sentence; got -1"),
            ((5,), {}, r"got \(5,\)"),
            ((0, 5, 5), {}, r"got \(0, 5, 5\)"),
            ((4, 5), {}, "tokens must have 4 entries, one for each query; got 5"),
            ((5, 4), {}, "key_tokens must have 4 entries, one for each key; got 5"),
            ((2, 5, 5), {"titles": ["x"]}, "titles must have 2 entries"),
        ],
    )
    def test_rejections(self, shape, options, words):
        with pytest.raises(ValueError, match=words):
            plot.head_view(np.zeros(shape), TOKENS, **options)

    def test_a_sentence_of_a_batch(self):
        table = weights(3, 2, 5, 5)
        fig, axes = plot.head_view(table, TOKENS, item=2)
        alone = plot.head_view(table[2], TOKENS)[1]
        for a, b in zip(axes, alone, strict=True):
            np.testing.assert_array_equal(a.collections[0].get_colors(), b.collections[0].get_colors())
        assert fig.get_suptitle() == "item 2 of 3"
        assert alone[0].figure.get_suptitle() == ""

    def test_padding_behind_the_tokens_of_a_sentence_is_not_drawn(self):
        table = weights(2, 2, 5, 5)
        _, axes = plot.head_view(table, [TOKENS, ["just", "two"]], item=1)
        assert texts(axes[0]) == ["just", "two"] * 2
        ends = np.array(axes[0].collections[0].get_segments())[:, :, 1]
        assert ends.max() == 1.0
        with pytest.raises(ValueError, match="tokens must have 5 entries, one for each query; got 6"):
            plot.head_view(table, [TOKENS, ["a"] * 6], item=1)


class TestLayerView:
    def test_a_sentence_of_a_batch(self):
        stack = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 16), 3).eval()
        stack(np.random.default_rng(0).normal(size=(4, 5, 8)).astype("float32"))
        fig, axes = plot.layer_view(stack.attention_weights, item=3)
        assert fig.get_suptitle() == "item 3 of 4"
        expected = stack.attention_weights[2].numpy()[3, 1]
        np.testing.assert_array_equal(axes[2, 1].images[0].get_array(), expected)
        five = np.stack([w.numpy() for w in stack.attention_weights])
        _, again = plot.layer_view(five, item=3)
        np.testing.assert_array_equal(again[2, 1].images[0].get_array(), expected)
        with pytest.raises(
            ValueError, match="layer_view: item must be from 0 to 3 because weights hold 4 sen"
        ):
            plot.layer_view(stack.attention_weights, item=4)

    def test_into_given_axes(self):
        fig, axes = plt.subplots(2, 3)
        assert plot.layer_view(weights(2, 3, 5, 5), ax=axes)[0] is fig
        assert axes[1, 2].images
        with pytest.raises(ValueError, match="layer_view: ax must have 6 entries"):
            plot.layer_view(weights(2, 3, 5, 5), ax=axes[0])

    def test_one_scale_for_all(self):
        table = weights(2, 3, 5, 7)
        fig, axes = plot.layer_view(table)
        for i, j in np.ndindex(2, 3):
            (image,) = axes[i, j].images
            np.testing.assert_allclose(image.get_array(), table[i, j])
            assert image.get_clim() == (0.0, pytest.approx(table.max()))
        assert [ax.get_ylabel() for ax in axes[:, 0]] == ["layer 0", "layer 1"]
        assert [ax.get_title() for ax in axes[0]] == ["head 0", "head 1", "head 2"]
        assert len(fig.axes) == 7  # and the colour bar

    def test_what_a_stack_keeps(self):
        stack = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 16), 3).eval()
        stack(np.ones((1, 5, 8), "float32"))
        assert plot.layer_view(stack.attention_weights)[1].shape == (3, 2)

    def test_rejections(self):
        with pytest.raises(
            ValueError, match=r"one shape \(H, Lq, Lk\) in all layers.*got \[\(2, 5, 5\), \(3, 5, 5\)\]"
        ):
            plot.layer_view([weights(2, 5, 5), weights(3, 5, 5)])


class TestTrainingCurve:
    @pytest.fixture
    def history(self):
        history = History()
        for i in range(100):
            history.add(loss=100.0 - i, lr=0.1, grad_norm=1.0, count=1)
        history.evaluations = [{"step": s, "epoch": 0, "exact": s / 100, "note": "x"} for s in (50, 100)]
        return history

    def test_losses_mean_and_metrics(self, history):
        _, ax = plot.training_curve(history, smooth=4, reference={"entropy": 30.0})
        loss, mean, entropy = ax.get_lines()
        np.testing.assert_array_equal(loss.get_ydata(), history.loss)
        np.testing.assert_array_equal(loss.get_xdata(), np.arange(1, 101))
        assert mean.get_ydata()[[0, 1, 9]].tolist() == [100.0, 99.5, 92.5]
        assert entropy.get_ydata()[0] == 30.0
        beside = ax.figure.axes[-1]
        assert beside.get_lines()[0].get_xdata().tolist() == [50, 100]
        assert beside.get_lines()[0].get_ydata().tolist() == [0.5, 1.0]
        legend = [t.get_text() for t in beside.get_legend().get_texts()]
        assert legend == ["loss", "mean of 4", "entropy", "exact"]
        assert (ax.get_xlabel(), ax.get_ylabel(), beside.get_ylabel()) == ("update", "loss", "exact")

    def test_losses_share_an_axis(self, history):
        for i, evaluation in enumerate(history.evaluations):
            evaluation["held-out loss"] = 10.0 + i
        _, ax = plot.training_curve(history, ["held-out loss"], smooth=1)
        assert ax.figure.axes == [ax]
        assert ax.get_lines()[1].get_ydata().tolist() == [10.0, 11.0]
        _, both = plot.training_curve(history, smooth=1)
        assert [line.get_label() for line in both.get_lines()] == ["loss", "held-out loss"]
        assert [line.get_label() for line in both.figure.axes[-1].get_lines()] == ["exact"]

    def test_metrics_of_other_sizes_have_axes_of_their_own(self, history):
        """On one axis an accuracy is a flat line below a perplexity."""
        for place, entry in enumerate(history.evaluations):
            entry.update({"perplexity": 300.0 - 100 * place, "f1": 0.9, "bleu": 150.0, "nothing": np.nan})
        _, ax = plot.training_curve(history, ["exact", "perplexity", "f1", "bleu"], smooth=1)
        _, shares, large = ax.figure.axes
        assert (shares.get_ylabel(), large.get_ylabel()) == ("exact / f1", "perplexity / bleu")
        assert shares.get_ylim()[1] < 1.1
        assert shares.spines["right"].get_position() != large.spines["right"].get_position()
        assert shares.get_legend() is None
        legend = [t.get_text() for t in large.get_legend().get_texts()]
        assert legend == ["loss", "exact", "perplexity", "f1", "bleu"]
        _, ax = plot.training_curve(history, ["nothing", "exact"], smooth=1)
        assert [beside.get_ylabel() for beside in ax.figure.axes[1:]] == ["nothing", "exact"]

    def test_choices(self, history):
        _, given = plt.subplots()
        _, ax = plot.training_curve(history, [], smooth=1, title="t", yscale="log", ax=given)
        assert ax is given
        assert (ax.get_title(), ax.get_yscale(), len(ax.get_lines())) == ("t", "log", 1)
        assert len(ax.figure.axes) == 1

    def test_rejections(self, history):
        with pytest.raises(ValueError, match=r"out of those of the history, \['exact'\]; got \['bleu'\]"):
            plot.training_curve(history, ["bleu"])
        with pytest.raises(ValueError, match=r"at least one update; got \(0,\) losses"):
            plot.training_curve([])


class TestSchematics:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("attention", ["query  q", "softmax"]),
            ("multi-head", ["scaled dot-product attention", "concatenate", "h heads", "queries  Q"]),
            ("seq2seq", ["encoder", "decoder", "state", "<start>", "<end>"]),
            ("bahdanau", ["query", "previous word $y_{t-1}$", "next word $y_t$"]),
            ("transformer", ["cross-attention", "causal self-attention", "+ positions", "keys, values"]),
        ],
    )
    def test_nothing_is_cut_off_or_written_over(self, name, words):
        _, ax = plot.schematic(name)
        ax.figure.canvas.draw()
        assert set(words) <= set(texts(ax))
        boxes = [t.get_window_extent() for t in ax.texts if t.get_text()]
        frame = ax.figure.bbox
        for number, box in enumerate(boxes):
            assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
            assert frame.y0 <= box.y0 <= box.y1 <= frame.y1
            assert not [other for other in boxes[:number] if box.overlaps(other)]

    def test_into_given_axes(self):
        _, ax = plt.subplots()
        assert plot.schematic("attention", ax=ax) == (ax.figure, ax)

    def test_unknown_name(self):
        with pytest.raises(
            ValueError, match="one of attention, multi-head, seq2seq, bahdanau, transformer; got 'rnn'"
        ):
            plot.schematic("rnn")
