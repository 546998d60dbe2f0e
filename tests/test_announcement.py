"""Who compiles qkv is told how long it takes, though pip keeps what the compiler's tools say to itself."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "cmake" / "announce.cmake"
CMAKE = shutil.which("cmake")
pytestmark = pytest.mark.skipif(CMAKE is None, reason="no cmake on this machine")


def command(folder):
    return [CMAKE, f"-DCMAKE_BINARY_DIR={folder}", "-P", str(SCRIPT)]


def test_a_terminal_shows_it_even_where_the_output_is_captured(tmp_path):
    shell = ["sh", "-c", f"cd {tmp_path} && {' '.join(command(tmp_path))} > log 2>&1"]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(shell[0], shell)
    shown = b""
    try:
        while part := os.read(terminal, 1024):
            shown += part
    except OSError:  # the child has ended
        pass
    assert os.waitpid(child, 0)[1] == 0
    assert b"qkv: compiling the C++ core, about " in shown
    assert "qkv: compiling the C++ core, about " in (tmp_path / "log").read_text()


def test_without_a_terminal_it_stands_in_the_log_once(tmp_path):
    def run():
        return subprocess.run(
            command(tmp_path),
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            start_new_session=True,
        )

    assert "-- qkv: compiling the C++ core, about " in run().stdout
    again = run()
    assert (again.stdout, again.stderr) == ("", "")
