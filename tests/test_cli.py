"""The command line where its output cannot be written."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from qkv import cli

COMMANDS = {
    "info": ["info"],
    "look": ["look", "w.npz"],
    "reproduce": ["reproduce", "--list"],
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_told_in_one_line(tmp_path, name, unbuffered):
    np.savez(tmp_path / "w.npz", weights=np.ones((1, 1, 2, 2)), tokens=np.array(["a", "b"]))
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "qkv", *COMMANDS[name]], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, timeout=120,
        )  # fmt: skip
    assert found.returncode == 2
    assert found.stderr.startswith("qkv: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "said"), [(MemoryError("too large"), "qkv: too large\n"), (MemoryError(), "qkv: MemoryError\n")]
)
def test_a_lack_of_memory_is_told_in_one_line(monkeypatch, capsys, error, said):
    def none(options):
        raise error

    monkeypatch.setattr(cli, "_info", none)
    assert cli.main(["info"]) == 2
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("arguments", "usage", "said"),
    [
        (["embedd"], "usage: qkv [-h]", r"invalid choice: 'embedd' .*; did you mean embed\?$"),
        (["serve"], "usage: qkv [-h]", r"invalid choice: 'serve' \(choose from [^?]*\)$"),
        (
            ["reproduce", "--outptu", "x"],
            "usage: qkv reproduce",
            r"arguments: --outptu; did you mean --output\?$",
        ),
        (["reproduce", "--foo"], "usage: qkv reproduce", "unrecognized arguments: --foo$"),
        (["embed", "--model", "m", "--format", "jsonk"], "usage: qkv embed", r"; did you mean jsonl\?$"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(capsys, arguments, usage, said):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(usage)
    assert re.search(said, text)
