"""Who compiles qkv is told how long it takes, though pip keeps what the compiler's tools say to itself, and which
compilers can."""

import os
import pty
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "cmake"
CMAKE = shutil.which("cmake")
pytestmark = pytest.mark.skipif(CMAKE is None, reason="no cmake on this machine")


def command(folder):
    return [CMAKE, f"-DCMAKE_BINARY_DIR={folder}", "-P", str(SCRIPTS / "announce.cmake")]


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


def test_without_a_terminal_the_log_has_it_once(tmp_path):
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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, which Linux has")
def test_without_a_terminal_pip_s_errors_have_it(tmp_path):
    build = f"cd {tmp_path} && {' '.join(command(tmp_path))} > log 2>&1; true"
    shell = ["bash", "-c", f"exec -a 'pip -q install' bash -c {shlex.quote(build)} ."]
    run = subprocess.run(shell, capture_output=True, text=True, check=True, start_new_session=True)
    assert run.stdout == ""
    assert re.fullmatch(r"\n  qkv: compiling the C\+\+ core, about .*\n", run.stderr), run.stderr


@pytest.mark.parametrize(
    ("compiler", "version", "said"),
    [
        ("GNU", "12.0.0", None),
        ("Clang", "14.0.6", None),
        ("AppleClang", "16.0.0", None),
        (
            "GNU",
            "11.4.0",
            "CMake Error .*must be GCC 12, Clang 14 or later because .*; got GNU 11.4.0 .*CXX=g\\+\\+-12 pip",
        ),
        ("Clang", "13.0.1", "CMake Error .*must be GCC 12, Clang 14 or later because .*; got Clang 13.0.1 "),
        ("MSVC", "19.40", "CMake Warning .*should be GCC 12 or Clang 14 or later; got MSVC"),
    ],
)
def test_a_compiler_that_cannot_build_it_is_refused_before_it_tries(compiler, version, said):
    facts = [f"-DCMAKE_CXX_COMPILER_ID={compiler}", f"-DCMAKE_CXX_COMPILER_VERSION={version}"]
    done = subprocess.run([CMAKE, *facts, "-P", SCRIPTS / "compiler.cmake"], capture_output=True, text=True)
    assert (done.returncode != 0) == (said is not None and "Error" in said)
    assert re.search(said or "^$", " ".join(done.stderr.split()))
