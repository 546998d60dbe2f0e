"""The command that embeds lines: formats, streams, output in one step, and errors."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

from models.folders import TEXTS, make_folder
from qkv import cli, models

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf8")  # the last line has no end
    return path


@pytest.fixture(scope="module")
def expected(model):
    return models.SentenceEncoder.from_pretrained(model).encode(TEXTS)


def run(*arguments):
    return cli.main(["embed", *map(str, arguments)])


def read_lines(text):
    lines = [json.loads(line) for line in text.splitlines()]
    return [x["text"] for x in lines], np.array([x["embedding"] for x in lines], "float32")


def test_arrays(tmp_path, model, texts, expected):
    assert run("--model", model, texts, "--output", tmp_path / "out.npy") == 0
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float32
    assert (found == expected).all()
    assert (np.load(tmp_path / "out.npy", mmap_mode="r")[2] == expected[2]).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npy", "texts.txt"]


def test_lines(tmp_path, model, texts, expected):
    assert run("--model", model, texts, "--output", tmp_path / "out.jsonl") == 0
    names, rows = read_lines((tmp_path / "out.jsonl").read_text(encoding="utf8"))
    assert names == TEXTS
    assert (rows == expected).all()


def test_the_format_goes_before_the_ending(tmp_path, model, texts, expected):
    assert run("--model", model, texts, "--output", tmp_path / "out.txt", "--format", "npy") == 0
    assert (np.load(tmp_path / "out.txt") == expected).all()
    assert run("--model", model, texts, "--output", tmp_path / "out.npy", "--format", "jsonl") == 0
    assert read_lines((tmp_path / "out.npy").read_text(encoding="utf8"))[0] == TEXTS


def test_standard_streams(model, texts, expected):
    command = [sys.executable, "-m", "qkv", "embed", "--model", str(model)]
    result = subprocess.run(command, input=texts.read_bytes(), capture_output=True, check=True)
    names, rows = read_lines(result.stdout.decode("utf8"))
    assert names == TEXTS
    assert (rows == expected).all()
    assert result.stderr == b""


@pytest.mark.parametrize("text", [b"", b"\n", b"dog\r\ncat\r\n", b"dog\n\ncat\n", "a\u2028b\x0bc\n".encode()])
def test_lines_end_at_newlines_only(tmp_path, model, text):
    (tmp_path / "in").write_bytes(text)
    assert run("--model", model, tmp_path / "in", "--output", tmp_path / "out.npy") == 0
    assert run("--model", model, tmp_path / "in", "--output", tmp_path / "out.jsonl") == 0
    lines = [line.rstrip("\r") for line in text.decode().removesuffix("\n").split("\n")] if text else []
    assert read_lines((tmp_path / "out.jsonl").read_text(encoding="utf8").replace("\u2028", ""))[0] == [
        x.replace("\u2028", "") for x in lines
    ]
    assert np.load(tmp_path / "out.npy").shape == (len(lines), 24)


def test_more_lines_than_a_chunk(tmp_path, model, expected, monkeypatch):
    monkeypatch.setattr(models.sentences.embed, "CHUNK", 4)
    (tmp_path / "in").write_text("\n".join(TEXTS * 5) + "\n", encoding="utf8")
    assert models.embed_lines(model, tmp_path / "in", tmp_path / "out.npy", batch_size=3) == 35
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), np.tile(expected, (5, 1)), 1e-5, 1e-6)


def test_only_some_lines_are_held(model, monkeypatch):
    """The input is read as the output is written."""
    monkeypatch.setattr(models.sentences.embed, "CHUNK", 2)
    read, seen = [], []

    class Source(io.RawIOBase):
        def __iter__(self):
            for i in range(9):
                read.append(i)
                yield b"dog\n"

    class Output(io.BytesIO):
        def flush(self):
            seen.append((len(read), self.getvalue().count(b"\n")))

    monkeypatch.setattr(sys, "stdin", type("S", (), {"buffer": Source()}))
    monkeypatch.setattr(sys, "stdout", type("S", (), {"buffer": Output()}))
    assert models.embed_lines(model, batch_size=1) == 9
    assert seen == [(2, 2), (4, 4), (6, 6), (8, 8), (9, 9)]


def test_a_bar(tmp_path, model, texts, capsys):
    pytest.importorskip("tqdm")
    models.embed_lines(model, texts, tmp_path / "out.npy", show_progress=True)
    assert "100%" in capsys.readouterr().err
    models.embed_lines(model, texts, tmp_path / "out.npy")
    assert capsys.readouterr().err == ""


def test_a_failure_leaves_the_old_output(tmp_path, model, monkeypatch, capsys):
    monkeypatch.setattr(models.sentences.embed, "CHUNK", 2)
    (tmp_path / "out.npy").write_bytes(b"old")
    (tmp_path / "in").write_bytes(b"dog\ncat\ndog\n\xff\n")
    assert run("--model", model, tmp_path / "in", "--output", tmp_path / "out.npy", "--batch-size", 1) == 2
    assert "must hold UTF-8; line 4" in capsys.readouterr().err
    assert (tmp_path / "out.npy").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.npy"]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(models.SentenceEncoder, "encode", interrupted)
    assert run("--model", model, tmp_path / "in", "--output", tmp_path / "new.npy", "--batch-size", 1) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.npy"]


@pytest.mark.parametrize("lines", [1, 5000])  # less and more than a buffer holds
def test_a_reader_that_leaves(model, lines):
    command = [sys.executable, "-m", "qkv", "embed", "--model", str(model)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(b"dog\n" * lines)
    process.stdin.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert error == b""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model", "nowhere", "IN"], "folder must exist; got nowhere"),
        (["--model", "MODEL", "nothing.txt"], "nothing.txt"),
        (["--model", "MODEL", "IN", "--output", "no/such/out.npy"], "the folder of output must exist"),
        (["--model", "MODEL", "IN", "--output", "."], "output must be a file; got the folder ."),
        (["--model", "MODEL", "IN", "--output", "out.csv"], "output must end in .npy or .jsonl"),
        (["--model", "MODEL", "IN", "--format", "npy"], "format npy must have an output file"),
        (
            ["--model", "MODEL", "IN", "--batch-size", "0"],
            "batch_size must be at least 1 and below 2 ** 31; got 0",
        ),
        (["--model", "MODEL", "IN", "--batch-size", str(10**20)], "below 2 ** 31; got 100000000000000000000"),
        (
            ["--model", "MODEL", "IN", "--output", "MODEL/config.json", "--format", "npy"],
            "not be a file of the model",
        ),
    ],
)
def test_rejections(tmp_path, model, texts, monkeypatch, capsys, arguments, text):
    monkeypatch.chdir(tmp_path)
    places = {"MODEL": str(model), "IN": str(texts)}
    assert run(*(places.get(a, a).replace("MODEL", str(model)) for a in arguments)) == 2
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.err.startswith("qkv: ")
    assert captured.out == ""
    assert os.listdir(tmp_path) == ["texts.txt"]


def test_the_model_must_be_named(capsys):
    with pytest.raises(SystemExit):
        run("texts.txt")
    assert "--model" in capsys.readouterr().err
    with pytest.raises(ValueError, match="format must be npy or jsonl; got csv"):
        models.embed_lines("m", format="csv")


def command(model, *arguments):
    return [sys.executable, "-m", "qkv", "embed", "--model", str(model), *map(str, arguments)]


@pytest.mark.parametrize(("redirection", "name"), [("<&-", "source"), (">&-", "output"), (">&- 2>&-", None)])
def test_closed_standard_streams(model, texts, tmp_path, redirection, name):
    line = f"exec {shlex.join(command(model, *([] if name == 'source' else [texts])))} {redirection}"
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert found.returncode == 2
    if name is not None:
        said = f"qkv: embed: {name} must be a file because the standard one is closed; got -\n"
        assert found.stderr == said
    output = tmp_path / "out.npy"
    line = f"exec {shlex.join(command(model, texts, '--output', output))} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line]).returncode == 0
    assert np.load(output).shape == (len(TEXTS), 24)


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="has no /dev/stdout")
def test_names_of_the_standard_streams(model, texts, expected, tmp_path):
    for line in (
        f"{shlex.join(command(model, '/dev/stdin', '--output', '/dev/stdout'))} < {texts} | cat",
        f"{shlex.join(command(model, '/dev/fd/0', '--output', '/dev/fd/1'))} < {texts} >> {tmp_path}/out",
        f"{shlex.join(command(model, texts, '--output', '/dev/fd/3', '--format', 'jsonl'))} 3>&1 >&2 | cat",
    ):
        (tmp_path / "out").write_bytes(b"")
        found = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
        names, rows = read_lines(found.stdout or (tmp_path / "out").read_text(encoding="utf8"))
        assert names == TEXTS, found.stderr
        np.testing.assert_array_equal(rows, expected)
    line = f"{shlex.join(command(model, texts, '--output', '/dev/stdout', '--format', 'npy'))} | cat"
    assert (
        "npy must have an output file"
        in subprocess.run(["sh", "-c", line], capture_output=True, text=True).stderr
    )


@pytest.mark.parametrize("resume", [False, True])
def test_a_byte_order_mark_is_no_text(model, tmp_path, resume):
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbfdog\n\xef\xbb\xbfcat\n")
    models.embed_lines(model, tmp_path / "in", tmp_path / "out.jsonl", resume=resume)
    assert read_lines((tmp_path / "out.jsonl").read_text(encoding="utf8"))[0] == ["dog", "\ufeffcat"]


def test_the_output_is_another_file_than_the_input(model, tmp_path, monkeypatch):
    path, link, other = (tmp_path / f"{name}.jsonl" for name in ("in", "link", "other"))
    path.write_bytes(b"dog\n")
    link.symlink_to(path)
    os.link(path, other)
    for output in (path, link, other):
        for resume in (False, True):
            with pytest.raises(
                ValueError, match=r"output must be another file than source; got .*jsonl for both"
            ):
                models.embed_lines(model, path, output, resume=resume)
    for line in (
        f"{shlex.join(command(model, path))} >> {path}",
        f"{shlex.join(command(model))} < {path} 1<> {path}",
    ):
        found = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
        assert "output must be another file than source" in found.stderr
    assert path.read_bytes() == b"dog\n"


@pytest.mark.parametrize("resume", [False, True])
def test_an_input_that_changes_while_it_is_read(model, tmp_path, monkeypatch, resume):
    monkeypatch.setattr(models.sentences.embed, "CHUNK", 2)
    path, encode = tmp_path / "in", models.SentenceEncoder.encode
    path.write_bytes(b"dog\n" * 5)

    def changing(*arguments):
        with path.open("ab") as file:
            file.write(b"c")
        return encode(*arguments)

    monkeypatch.setattr(models.SentenceEncoder, "encode", changing)
    with pytest.raises(ValueError, match=r"source must stay as it is while it is read .* bytes after 20"):
        models.embed_lines(model, path, tmp_path / "out.npy", batch_size=1, resume=resume)
    assert not (tmp_path / "out.npy").exists()
