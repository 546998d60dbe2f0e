"""A file embedded by several ranks, or by jobs that were killed, is that of one process to the bit."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest
from ranks.mpi import Job, needs_mpi

from models.folders import TEXTS, make_folder
from qkv import cli, models
from qkv.models.sentences import embed, embed_parts

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

LINES = 307  # parts of 7 lines


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def texts(tmp_path):
    rng = random.Random(0)
    path = tmp_path / "texts.txt"
    lines = [" ".join(rng.choices(TEXTS, k=rng.randrange(4))) for _ in range(LINES)]
    path.write_text("\n".join(lines), encoding="utf8")  # the last line has no end
    return path


SLOWLY = """
import sys, time
from qkv import cli
from qkv.models.sentences import embed
embed.CHUNK = 7
encode = embed.SentenceEncoder.encode
def slowly(self, *arguments):
    time.sleep({pause})
    return encode(self, *arguments)
embed.SentenceEncoder.encode = slowly
sys.exit(cli.main(sys.argv[1:]))
"""


def job(ranks, model, texts, output, *options, pause=0.0):
    arguments = ["embed", "--model", model, texts, "--output", output, "--batch-size", 5, *options]
    return Job(ranks, "-c", SLOWLY.format(pause=pause), *arguments)


@pytest.fixture
def expected(model, texts, tmp_path, monkeypatch):
    """Return what one process writes at once."""
    monkeypatch.setattr(embed, "CHUNK", 7)
    files = {}
    for kind in ("npy", "jsonl"):
        path = tmp_path / f"expected.{kind}"
        assert models.embed_lines(model, texts, path, batch_size=5) == LINES
        files[kind] = path.read_bytes()
        path.unlink()
    return files


@needs_mpi
@pytest.mark.parametrize(
    "ranks", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["npy", "jsonl"])
def test_ranks_write_what_one_process_writes(model, texts, expected, tmp_path, ranks, kind):
    output = tmp_path / f"out.{kind}"
    status, _, errors = job(ranks, model, texts, output).wait()
    assert status == 0, errors
    assert output.read_bytes() == expected[kind]
    assert sorted(p.name for p in tmp_path.iterdir()) == [output.name, "texts.txt"]


@pytest.mark.parametrize("kind", ["npy", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_a_job_that_is_killed_again_and_again(model, texts, expected, tmp_path, kind):
    output, rng = tmp_path / f"out.{kind}", random.Random(1)
    kills = 0

    def done():
        try:
            return sum(path.read_bytes().count(b"\n") for path in tmp_path.glob(".out.*.embed/*.index"))
        except FileNotFoundError:  # the job finished in between
            return LINES

    while not output.exists():
        enough = done() + rng.randrange(12)
        running = job(0, model, texts, output, "--resume", pause=0.05)
        while running.process.poll() is None and done() < enough:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.06))
        if running.process.poll() is None:
            os.kill(running.process.pid, signal.SIGKILL)
            kills += 1
        running.wait()
        assert kills < 60
    assert kills > 2
    assert output.read_bytes() == expected[kind]
    assert sorted(p.name for p in tmp_path.iterdir()) == [output.name, "texts.txt"]


@needs_mpi
def test_what_ranks_began_another_number_ends(model, texts, expected, tmp_path):
    output = tmp_path / "out.npy"
    running = job(4, model, texts, output, "--resume", pause=0.3)
    parts = tmp_path / ".out.npy.embed"
    while sum(path.stat().st_size > 0 for path in parts.glob("*.index")) < 4:
        assert running.process.poll() is None, running.wait()
        time.sleep(0.05)
    os.killpg(running.process.pid, signal.SIGKILL)
    running.wait()
    assert not output.exists()
    status, _, errors = job(2, model, texts, output, "--resume").wait()
    assert status == 0, errors
    assert output.read_bytes() == expected["npy"]


def test_what_is_done_is_not_done_again(model, texts, expected, tmp_path, monkeypatch):
    encode, calls = models.SentenceEncoder.encode, []

    def ends_at_the_20th(self, texts, *options):
        calls.append(len(texts))
        if len(calls) == 20:
            raise KeyboardInterrupt
        return encode(self, texts, *options)

    monkeypatch.setattr(models.SentenceEncoder, "encode", ends_at_the_20th)
    output = tmp_path / "out.npy"
    command = [
        "embed",
        "--model",
        str(model),
        str(texts),
        "--output",
        str(output),
        "--batch-size",
        "5",
        "--resume",
    ]
    assert cli.main(command) == 130
    assert not output.exists()
    assert cli.main(command) == 0
    assert len(calls) == 20 + (-(-LINES // 7) - 19)
    assert output.read_bytes() == expected["npy"]


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        ("job.json", b""),
        ("job.json", b"[1]"),
        ("*.index", b"0 0\n"),
        ("*.index", b"x y z\n"),
        ("*.lines", b"{"),
    ],
)
def test_parts_that_are_damaged(model, texts, tmp_path, monkeypatch, pattern, content):
    monkeypatch.setattr(embed, "CHUNK", 7)
    encode, calls = models.SentenceEncoder.encode, []

    def stopped(self, *arguments):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return encode(self, *arguments)

    options = {"batch_size": 5, "resume": True}
    monkeypatch.setattr(models.SentenceEncoder, "encode", stopped)
    with pytest.raises(KeyboardInterrupt):
        models.embed_lines(model, texts, tmp_path / "out.jsonl", **options)
    monkeypatch.setattr(models.SentenceEncoder, "encode", encode)
    pattern = embed_parts.JOB if pattern == "job.json" else pattern
    [path] = (tmp_path / ".out.jsonl.embed").glob(pattern)
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"resume must find whole files .*; got .*, which is damaged \(without"
    ):
        models.embed_lines(model, texts, tmp_path / "out.jsonl", **options)


def test_another_job_does_not_go_on(model, texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models.SentenceEncoder, "encode", lambda *_: 1 / 0)
    output = tmp_path / "out.npy"
    with pytest.raises(ZeroDivisionError):
        models.embed_lines(model, texts, output, resume=True)
    for changed, what in (({"batch_size": 3}, "batch_size"), ({"format": "jsonl"}, "format")):
        with pytest.raises(ValueError, match=f"embed: resume must go on with the same {what}; got"):
            models.embed_lines(model, texts, output, resume=True, **changed)
    texts.write_text("other", encoding="utf8")
    with pytest.raises(ValueError, match=r"resume must go on with the same input; got texts\.txt of 5 bytes"):
        models.embed_lines(model, texts, output, resume=True)
    monkeypatch.undo()
    assert models.embed_lines(model, texts, output) == 1


def test_models_differ_in_any_byte_of_a_file(tmp_path):
    large = tmp_path / "model.safetensors"
    large.write_bytes(bytes(3 * embed_parts.PIECE))
    before = embed_parts.fingerprint(tmp_path)
    assert embed_parts.fingerprint(tmp_path) == before
    for place in (0, 2 * embed_parts.PIECE + 5):
        with large.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        after = embed_parts.fingerprint(tmp_path)
        assert after != before
        before = after


def test_parts_need_files(model, texts, tmp_path):
    with pytest.raises(ValueError, match="embed: source must be a file because ranks share it"):
        models.embed_lines(model, "-", tmp_path / "out.npy", resume=True)
    with pytest.raises(ValueError, match="embed: output must be a file because ranks share it"):
        models.embed_lines(model, texts, resume=True)
    with pytest.raises(FileNotFoundError, match="embed: source must exist; got"):
        models.embed_lines(model, tmp_path / "none", tmp_path / "out.npy", resume=True)


@pytest.mark.parametrize("text", [b"", b"\n", b"\n\n", b"a", b"a\nb\nc\n", b"a\nb\nc", b"\n" * 9 + b"x"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_parts_begin_at_lines(tmp_path, text, ranks, monkeypatch):
    monkeypatch.setattr(embed_parts, "PIECE", 2)
    path = tmp_path / "text"
    path.write_bytes(text)
    lines = text.splitlines(keepends=True)

    # The ranks one after the other, for each of the exchanges; later ones know what earlier ones gave.
    known: list[list] = []

    class Comm:
        def __init__(self, rank):
            self.rank, self.size, self.calls = rank, ranks, 0

        def allgather(self, value):
            if len(known) <= self.calls:
                known.append([None] * ranks)
            known[self.calls][self.rank] = value
            self.calls += 1
            return [value if other is None else other for other in known[self.calls - 1]]

    for _ in range(4):
        found = [embed_parts.Ends(Comm(rank), path, 2) for rank in range(ranks)]
    for ends in found:
        assert ends.rows == len(lines)
        cut = [text[a:b] for a, b in zip(ends.starts, ends.ends, strict=True)]
        assert cut == [b"".join(lines[i : i + 2]) for i in range(0, len(lines), 2)]
    np.testing.assert_array_equal(found[0].starts, found[-1].starts)
