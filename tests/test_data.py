"""Data sets and batches."""

from __future__ import annotations

import datetime
import math
import sys

import numpy as np
import pytest

import qkv
from qkv import data


class TestBatches:
    ROWS = [[i] * (1 + i % 7) for i in range(1, 54)]  # noqa: RUF012

    def test_each_item_comes_once(self):
        batches = data.Batches(self.ROWS, np.arange(1, 54), batch_size=5, seed=2)
        assert len(batches) == len(batches(0)) == 11
        seen = []
        for texts, numbers in batches(3):
            assert texts.ids.shape == (len(numbers), texts.lens.max())
            for ids, n, number in zip(*texts, numbers, strict=True):
                assert ids[:n].tolist() == self.ROWS[number - 1]
                assert (ids[n:] == 0).all()
                seen.append(number)
        assert sorted(seen) == list(range(1, 54))

    def test_the_order_is_that_of_seed_and_epoch(self):
        def order(seed, epoch):
            return [
                b[1].tolist() for b in data.Batches(self.ROWS, np.arange(53), batch_size=5, seed=seed)(epoch)
            ]

        assert order(0, 4) == order(0, 4)
        assert order(0, 4) != order(0, 5)
        assert order(0, 4) != order(1, 4)
        plain = data.Batches(np.arange(53), batch_size=5, shuffle=False)
        assert np.concatenate([b[0] for b in plain]).tolist() == list(range(53))
        one = data.Batches(self.ROWS, np.arange(53), batch_size=5, seed=0)(4)
        assert one[7][1].tolist() == order(0, 4)[7]  # any place without those before it
        assert [b[1].tolist() for b in one[2:4]] == order(0, 4)[2:4]
        assert one[-1][1].tolist() == order(0, 4)[-1]
        with pytest.raises(IndexError):
            one[11]

    def test_equally_long_sequences_stand_together(self):
        def padding(by_length):
            batches = data.Batches(self.ROWS, batch_size=5, by_length=by_length)
            return sum(b.ids.size - b.lens.sum() for (b,) in batches)

        assert padding(True) < 0.5 * padding(False)

    def test_the_rest_can_be_left_out(self):
        batches = data.Batches(np.arange(53), batch_size=5, drop_last=True)
        assert [len(b[0]) for b in batches] == [5] * 10

    def test_the_rest_is_not_always_the_longest(self):
        batches = data.Batches([[1] * n for n in range(1, 14)], batch_size=5, drop_last=True)
        longest = [max(b[0].lens.max() for b in batches(epoch)) for epoch in range(9)]
        assert 13 in longest
        assert len(set(longest)) > 1

    def test_padding(self):
        batch = data.Batches([[1, 2], [3]], batch_size=2, pad_id=9, shuffle=False)(0)[0][0]
        assert batch.ids.tolist() == [[1, 2], [3, 9]]
        assert data.pad([]).ids.shape == (0, 0)

    def test_a_transform_has_random_numbers_of_its_own(self):
        def noisy(batch, random):
            return batch[0], random.integers(1000, size=4).tolist()

        def numbers(epoch):
            return [n for _, n in data.Batches(np.arange(9), batch_size=3, transform=noisy)(epoch)]

        assert numbers(1) == numbers(1)
        assert numbers(1) != numbers(2)
        assert numbers(1)[0] != numbers(1)[1]

    @pytest.mark.parametrize(
        ("columns", "size", "words"),
        [
            (([[1]], np.ones(2)), 1, r"columns must be of equal length .*; got \[1, 2\]"),
            ((), 1, "columns must be"),
            (([[1]],), 0, "batch_size must be at least 1; got 0"),
            (([[1], 2],), 1, r"column 0 must be sequences \(n_i,\) or \(n_i, D\) .*; got \(\), \(1,\)"),
            (([1, 2], [np.ones((1, 3)), np.ones((2, 5))]), 1, r"column 1 must be .*; got \(1, 3\), \(2, 5\)"),
            (
                (qkv.tensor([1.0], requires_grad=True),),
                1,
                r"column 0 must not require a gradient .* x.detach\(\)",
            ),
            (([[2**63]],), 1, r"column 0 must hold integers below 2\*\*63; got 9223372036854775808"),
        ],
    )
    def test_rejections(self, columns, size, words):
        with pytest.raises(ValueError, match=r"Batches: " + words):
            data.Batches(*columns, batch_size=size)

    def test_what_is_no_number_is_refused(self):
        for column, words in (
            (np.array(["ab", "c"]), "column 0 must hold numbers; got dtype <U2"),
            (["ab", "c"], "column 0 must hold numbers; got dtype <U2"),
            ([[1j]], "column 0 must hold numbers; got dtype complex128"),
            ([[[1], [2, 3]]], "column 0 must be an array or lists of equal lengths; got list"),
        ):
            with pytest.raises(TypeError, match=f"Batches: {words}"):
                data.Batches(column, batch_size=1)

    def test_every_kind_of_column_keeps_its_numbers(self):
        texts, vectors = [[1, 2, 3], [4]], [np.full((2, 3), 0.5), np.full((1, 3), 2.5)]
        columns = (
            texts,
            vectors,
            [0.25, 1],
            [True, False],
            qkv.tensor([[1.5], [2.5]]),
            [[0.5], [7, 2]],
            (3, 4),
        )
        first, second, floats, flags, rows, mixed, whole = data.Batches(
            *columns, batch_size=2, shuffle=False, pad_id=9
        )(0)[0]
        assert first.ids.dtype == np.int64
        assert first.ids.tolist() == [[1, 2, 3], [4, 9, 9]]
        assert second.ids.dtype == np.float64
        assert second.ids.tolist() == [[[0.5] * 3] * 2, [[2.5] * 3, [0.0] * 3]]
        assert second.lens.tolist() == [2, 1]
        assert floats.dtype == np.float32
        assert floats.tolist() == [0.25, 1.0]
        assert flags.tolist() == [1, 0]
        assert isinstance(rows, np.ndarray)
        assert rows.tolist() == [[1.5], [2.5]]
        assert mixed.ids.dtype == np.float32
        assert mixed.ids.tolist() == [[0.5, 9.0], [7.0, 2.0]]
        assert whole.tolist() == [3, 4]

    def test_the_dtype_is_that_of_the_column_not_of_the_batch(self):
        batches = data.Batches([[1], [0.5], []], batch_size=1, shuffle=False)
        assert [b.ids.dtype for (b,) in batches] == ["float32"] * 3

    def test_tensors_of_pytorch(self):
        torch = pytest.importorskip("torch")
        sequences, labels = [torch.tensor([0.5, 1.5]), torch.tensor([2.5]).double()], torch.tensor([3, 4])
        texts, numbers = data.Batches(sequences, labels, batch_size=2, shuffle=False)(0)[0]
        assert texts.ids.dtype == np.float64
        assert texts.ids.tolist() == [[0.5, 1.5], [2.5, 0.0]]
        assert numbers.tolist() == [3, 4]
        with pytest.raises(ValueError, match=r"Batches: column 0 must not require a gradient"):
            data.Batches([torch.ones(2, requires_grad=True)], batch_size=1)

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"batch_size": 1.5}, TypeError, "batch_size must be an integer .*; got 1.5"),
            ({"seed": -1}, ValueError, "seed must be at least 0; got -1"),
            ({"transform": 3}, TypeError, r"transform must be a function of \(batch, random\); got 3"),
            ({"pad_id": None}, TypeError, "pad_id must be a number; got None"),
            ({"epoch": -1}, ValueError, "epoch must be at least 0; got -1"),
        ],
    )
    def test_options_that_are_refused(self, options, error, words):
        epoch = options.pop("epoch", 0)
        with pytest.raises(error, match=f"^Batches: {words}"):
            list(data.Batches([[1], [2, 3]], **{"batch_size": 1, **options})(epoch))

    def test_columns_without_rows(self):
        for column in (3, np.array(3), None):
            with pytest.raises(
                TypeError, match=r"^Batches: column 0 must be an array or a list of rows; got"
            ):
                data.Batches(column, batch_size=1)


class TestPad:
    @pytest.mark.parametrize(
        ("sequences", "dtype", "expected"),
        [
            ([[0.5, 1.5], [2]], "float32", [[0.5, 1.5], [2, 0]]),
            ([[1, 2.5]], "float32", [[1, 2.5]]),
            ([np.array([0.5]), [1, 2]], "float64", [[0.5, 0], [1, 2]]),
            ([np.array([0.5], "float16"), np.array([3], "int32")], "float16", [[0.5], [3]]),
            ([[], [0.5]], "float32", [[0], [0.5]]),
            ([[], [3]], "int64", [[0], [3]]),
            ([[True], [False, True]], "int64", [[1, 0], [0, 1]]),
            ([qkv.tensor([0.5]), qkv.tensor([1, 2])], "float32", [[0.5, 0], [1, 2]]),
            ([[], [[1, 2]]], "int64", [[[0, 0]], [[1, 2]]]),
            ([[[0.5, 1]], np.ones((2, 2))], "float64", [[[0.5, 1], [0, 0]], [[1, 1], [1, 1]]]),
            (np.array([[0.5, 2], [3, 4]]), "float64", [[0.5, 2], [3, 4]]),
        ],
    )
    def test_numbers_stay_what_they_are(self, sequences, dtype, expected):
        ids, lens = data.pad(sequences)
        assert ids.dtype == dtype
        assert ids.tolist() == expected
        assert lens.tolist() == [len(s) for s in sequences]

    def test_what_fills_up(self):
        assert data.pad([[1.0, 2.0], [3.0]], -0.5).ids.tolist() == [[1.0, 2.0], [3.0, -0.5]]
        assert data.pad([np.ones((2, 1)), np.ones((1, 1))], 9).ids.tolist() == [[[1], [1]], [[1], [0]]]
        with pytest.raises(ValueError, match=r"pad: pad_id must be an integer .* hold integers; got 0\.5"):
            data.pad([[1, 2], [3]], 0.5)


def test_copy_pairs():
    pairs = data.copy_pairs(500, symbols=3, min_len=2, max_len=5, first_id=7, seed=1)
    assert {len(p) for p in pairs} == {2, 3, 4, 5}
    assert {x for p in pairs for x in p} == {7, 8, 9}
    assert pairs == data.copy_pairs(500, symbols=3, min_len=2, max_len=5, first_id=7, seed=1)
    assert pairs != data.copy_pairs(500, symbols=3, min_len=2, max_len=5, first_id=7, seed=2)
    with pytest.raises(ValueError, match="got symbols = 3, min_len = 4, max_len = 2"):
        data.copy_pairs(1, symbols=3, min_len=4, max_len=2)
    for name in ("count", "symbols", "min_len", "max_len", "first_id"):
        text = f"copy_pairs: {name} must be an integer because it counts or bounds integers; got ndarray"
        with pytest.raises(TypeError, match=text):
            data.copy_pairs(**{"count": 3, name: np.ones(3, complex)})


class TestDates:
    @pytest.fixture(autouse=True)
    def babel(self):
        pytest.importorskip("babel")

    def test_a_text_names_one_day(self):
        train, test = data.date_pairs(20000, held_out=2000, seed=5)
        assert (len(train), len(test)) == (20000, 2000)
        found = {}
        for pair in train + test:
            day = datetime.date.fromisoformat("".join(pair.target))
            assert 1950 <= day.year <= 2049
            assert found.setdefault(tuple(pair.source), day) == day
            assert len(pair.target) == 10

    def test_held_out_days_are_not_trained_with(self):
        train, test = data.date_pairs(40000, held_out=500)
        assert not {tuple(p.target) for p in train} & {tuple(p.target) for p in test}
        assert (
            len({tuple(p.target) for p in train}) == 36525 - 500
        )  # every other day, then again from the first

    def test_all_languages_and_formats_occur(self):
        train, _ = data.date_pairs(4000)
        tokens = {p.source[0] for p in train if len(p.source[0]) > 1}
        assert tokens == {f"<{language}>" for language in data.LANGUAGES}
        short = sum(len(p.source[0]) > 1 for p in train)
        assert 800 < short < 1200
        assert any("月" in p.text for p in train)
        assert any("января" in p.text for p in train)

    def test_only_short_dates_carry_the_language(self):
        for kind in data.FORMATS:
            train, _ = data.date_pairs(50, languages=["de"], formats=[kind])
            assert {p.source[0] == "<de>" for p in train} == {kind == "short"}

    def test_the_seed_decides(self):
        assert data.date_pairs(30, seed=1) == data.date_pairs(30, seed=1)
        assert data.date_pairs(30, seed=1) != data.date_pairs(30, seed=2)

    def test_one_language_and_format(self):
        one = data.date_pairs(5, languages="en", formats="full", seed=3)
        assert one == data.date_pairs(5, languages=["en"], formats=["full"], seed=3)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"formats": ["tiny"]},
                r"formats must be out of short, medium, long, full.*got formats \['tiny'\]",
            ),
            ({"languages": ["xx"]}, r"languages must be locales that Babel knows, such as en; got \['xx'\]"),
            ({"languages": []}, r"there must be a language; got .*languages \[\]"),
            ({"held_out": 36525}, r"held_out must be in 0\.\.36524 .*; got 36525"),
        ],
    )
    def test_rejections(self, options, words):
        with pytest.raises(ValueError, match=words):
            data.date_pairs(3, **options)


def test_babel_missing(monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "babel"] + [
        "babel",
        "babel.core",
        "babel.dates",
    ]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match=r'^date_pairs: Babel must be installed .*; pip install "qkv\[data\]"$'
    ):
        data.date_pairs(1)


class TestTopics:
    def test_text_of_the_manual(self):
        text = "\n".join(data.topics())
        assert len(text) > 300_000
        assert "lambda" in text
        assert data.topics() == data.topics()

    def test_entropy(self):
        assert data.unigram_entropy(np.arange(8)) == pytest.approx(math.log(8))
        assert data.unigram_entropy(["a"] * 5) == 0.0
        assert data.unigram_entropy([[0, 0], [0, 1]]) == pytest.approx(
            -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
        )
        with pytest.raises(ValueError, match="tokens must not be empty"):
            data.unigram_entropy([])

    def test_windows(self):
        assert data.windows(np.arange(11), 4).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        with pytest.raises(ValueError, match=r"length must be in 1\.\.3 .*; got 4"):
            data.windows([1, 2, 3], 4)

    def test_words(self):
        assert data.words("Don't  stop_now, 3.5!") == ["don", "'", "t", "stop_now", ",", "3", ".", "5", "!"]


@pytest.mark.parametrize("name", data.TASKS)
class TestTasks:
    @pytest.fixture(autouse=True)
    def babel(self):
        pytest.importorskip("babel")

    def test_train_and_test_share_no_sentence(self, name):
        found = data.task(name, 600, held_out=200)
        first = {tuple(e.first) for e in found.train}
        assert (len(found.train), len(found.test), len(first)) == (600, 200, 600)
        assert not first & {tuple(e.first) for e in found.test}

    def test_all_labels_occur_on_both_sides(self, name):
        found = data.task(name, 600, held_out=300)
        for examples in (found.train, found.test):
            labels = {x for e in examples for x in ([e.label] if isinstance(e.label, int) else e.label)}
            assert labels == set(range(len(found.labels)))

    def test_no_label_prevails(self, name):
        assert data.task(name, 900, held_out=300).majority() < 0.6

    def test_the_seed_decides(self, name):
        assert data.task(name, 50, seed=3) == data.task(name, 50, seed=3)
        assert data.task(name, 50, seed=3) != data.task(name, 50, seed=4)

    def test_no_slot_is_left_open(self, name):
        assert not [w for w in data.task(name, 800).words() if set(w) & set("{}/")]


class TestTaskContents:
    @pytest.fixture(autouse=True)
    def babel(self):
        pytest.importorskip("babel")

    def test_many_words_have_two_tags(self):
        found = data.task("tagging", 1500)
        tags = {}
        for example in found.train:
            for word, tag in zip(example.first, example.label, strict=True):
                tags.setdefault(word, set()).add(found.labels[tag])
        assert {w for w, t in tags.items() if len(t) > 1} >= {
            "book",
            "light",
            "watch",
            "plan",
            "can",
            "open",
            "march",
        }

    def test_pairs_speak_of_the_same_things(self):
        found = data.task("contradiction", 400)
        assert all(set(e.first) & set(e.second) for e in found.train)
        assert {e.label for e in found.train} == {0, 1}

    def test_too_many_sentences(self, monkeypatch):
        monkeypatch.setattr("qkv.data.tasks.TAGGED", ("{weekday}/PROPN {weekday}/PROPN",))
        with pytest.raises(ValueError, match=r"at most about 42 together .*; got 40 \+ 3"):
            data.task("tagging", 40, held_out=3)
        assert len(data.task("tagging", 40, held_out=2).train) == 40

    def test_unknown_task(self):
        with pytest.raises(
            ValueError, match="name must be one of topic, tagging, contradiction; got 'parsing'"
        ):
            data.task("parsing")
