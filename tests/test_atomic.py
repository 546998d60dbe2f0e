"""Files that several processes write, that are killed, and that do not fit on the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import training
from qkv._atomic import write_file, write_files

posix = pytest.mark.skipif(os.name != "posix", reason="needs locks of files, signals and limits")
CONFIG = dict(
    vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=5,
    max_position_embeddings=7,
)  # fmt: skip


def start(program: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(qkv.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@posix
def test_two_writers_and_a_reader(tmp_path):
    """Every read finds the whole file of one of them; those who are killed at any moment leave nothing for good."""
    path = tmp_path / "run.npz"
    training.save_arrays(path, {"x": np.zeros(3)}, {"writer": -1, "n": 3})
    program = """
import itertools, sys
import numpy as np
from qkv import training
for i in itertools.count():
    n = 1000 + 977 * (i % 13)
    training.save_arrays({path!r}, {{"x": np.full(n, {writer})}}, {{"writer": {writer}, "n": n}})
"""
    seen, reads = set(), 0
    for _ in range(3):
        writers = [start(program.format(path=str(path), writer=w)) for w in (1, 2)]
        try:
            end = time.monotonic() + 30
            goal = reads + 100
            seen_now: set[int] = set()
            while (reads < goal or len(seen_now) < 2) and time.monotonic() < end:
                arrays, facts = training.load_arrays(path)
                assert (arrays["x"] == max(facts["writer"], 0)).all()
                assert len(arrays["x"]) == facts["n"]
                seen_now |= {facts["writer"]} - {-1}
                reads += 1
        finally:
            for writer in writers:
                writer.kill()
                _, errors = writer.communicate(timeout=30)
        assert writer.returncode == -signal.SIGKILL, errors
        seen |= seen_now
    assert seen == {1, 2}
    training.save_arrays(path, {"x": np.ones(2)}, {})
    assert names(tmp_path) == ["run.npz"]


LIMITED = """
import resource, sys
import numpy as np
import qkv
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
qkv.manual_seed(1)
try:
    {statement}
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@posix
@pytest.mark.parametrize(
    "statement",
    [
        "qkv.training.save_arrays({folder!r} + '/run.npz', dict(x=np.ones(5000)), {{}})",
        "qkv.models.BertModel(qkv.models.BertConfig(**{config})).save_pretrained({folder!r})",
    ],
)
def test_a_full_disk(tmp_path, statement):
    """The error is an OSError, what was there stays, and nothing else does."""
    training.save_arrays(tmp_path / "run.npz", {"x": np.arange(3)}, {"old": True})
    qkv.models.BertModel(qkv.models.BertConfig(**{**CONFIG, "hidden_size": 4})).save_pretrained(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    program = LIMITED.format(statement=statement.format(folder=str(tmp_path), config=CONFIG))
    done = start(program)
    output, errors = done.communicate(timeout=60)
    assert output.split() == ["OSError", "27"], errors  # EFBIG; ENOSPC takes the same way
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_written_as_it_is():
    with pytest.raises(OSError, match="No space left") as caught:
        write_file("/dev/full", lambda file: file.write(bytes(100_000)))
    assert caught.value.errno == 28
    write_file("/dev/null", lambda file: file.write(b"x"))
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
@pytest.mark.parametrize("second", [False, True])
def test_an_exception_leaves_what_was_there(tmp_path, error, second):
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")

    def fail(file):
        file.write(b"half")
        raise error("stop")

    writers = [lambda file: file.write(b"new"), fail] if second else [fail, lambda file: file.write(b"new")]
    with pytest.raises(error, match="stop"):
        write_files(list(zip((tmp_path / "a", tmp_path / "b"), writers, strict=True)))
    assert names(tmp_path) == ["a", "b"]
    assert [(tmp_path / name).read_text() for name in "ab"] == ["old", "old"]


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_between_two_names_gives_both(tmp_path, monkeypatch, after):
    replace, calls = os.replace, []

    def interrupted(source, target):
        calls.append(target)
        if after or len(calls) != 1:
            replace(source, target)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files([(tmp_path / name, lambda file: file.write(b"new")) for name in "abc"])
    assert names(tmp_path) == ["a", "b", "c"]


@posix
def test_new_weights_never_stand_beside_an_old_configuration(tmp_path, monkeypatch):
    """The names are given configuration first, when both files are whole."""
    small = qkv.models.BertModel(qkv.models.BertConfig(**{**CONFIG, "hidden_size": 4}))
    small.save_pretrained(tmp_path)
    replace, states = os.replace, []

    def watched(source, target):
        replace(source, target)
        with (tmp_path / "model.safetensors").open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        weights = header["embeddings.LayerNorm.weight"]["shape"][0]
        states.append((json.loads((tmp_path / "config.json").read_text())["hidden_size"], weights))

    monkeypatch.setattr(os, "replace", watched)
    qkv.models.BertModel(qkv.models.BertConfig(**CONFIG)).save_pretrained(tmp_path)
    assert states == [(8, 4), (8, 8)]
    assert names(tmp_path) == ["config.json", "model.safetensors"]


@posix
def test_links_modes_and_strangers_files(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
    stranger = tmp_path / "folder" / ".target.notes"
    stranger.write_text("keep")
    stale = tmp_path / "folder" / ".target.0123456789ab.partial"
    stale.write_text("left behind")
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "link", lambda file: file.write(b"new"))
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "target").read_bytes() == b"new"
    assert (tmp_path / "folder" / "target").stat().st_mode & 0o777 == 0o640
    assert names(tmp_path / "folder") == [".target.notes", "target"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_file(tmp_path / "nowhere" / "file", lambda file: None)
