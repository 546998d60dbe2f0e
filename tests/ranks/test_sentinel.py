"""The process beside the ranks of a machine believes the system alone about who speaks to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qkv.distributed import failure, sentinel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the names of sockets are Linux's")

# Connects, introduces itself as `told`, fails, and waits for its own end.
SPEAKER = """
import os, socket, sys, time
user, name, told = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if user != os.getuid():
    os.setuid(user)
connection = socket.socket(socket.AF_UNIX)
while connection.connect_ex("\\0" + name):
    time.sleep(0.01)
print("connected", flush=True)
try:
    connection.sendall(told.encode())
    print(connection.recv(1), flush=True)
    connection.sendall(b"c")
    print(connection.recv(1), flush=True)
except OSError as error:
    print(b"", flush=True)
time.sleep(60)
"""


@pytest.fixture
def job():
    """The name of a job whose sentinel runs, and of its socket."""
    key = f"test-{os.getpid()}-{time.monotonic_ns()}"
    process = subprocess.Popen([sys.executable, "-I", "-S", str(Path(sentinel.__file__)), key])
    yield key, sentinel.address(key)[1:]
    process.kill()
    process.wait()


def speak(name, told, user=None):
    process = subprocess.Popen(
        [sys.executable, "-c", SPEAKER, str(os.getuid() if user is None else user), name, told],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "connected\n"
    return process


def test_it_ends_who_speaks_and_not_whom_he_names(job):
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    others = []
    try:
        # As it was told before, with the number of a process, and as now.
        others = [speak(job[1], told) for told in (f"{victim.pid} 0 2", "0 2", f"0 {victim.pid}")]
        said = [[other.stdout.readline() for _ in range(2)] for other in others[1:]]
        assert said[0] == ["b'1'\n"] * 2
        assert others[1].wait(sentinel.END + 20) == -9
        assert others[2].wait(20) == -9
        assert others[0].poll() is None  # it was no rank
        assert victim.poll() is None
    finally:
        for process in (victim, *others):
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs the right to be another user"
)
def test_it_does_not_hear_other_users(job):
    rank = speak(job[1], "0 2")
    stranger = speak(job[1], "1 2", user=65534)
    try:
        assert rank.stdout.readline() == "b'1'\n"
        assert stranger.stdout.readline() == "b''\n"
    finally:
        for process in (rank, stranger):
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs the right to be another user"
)
def test_a_rank_does_not_speak_to_another_users_sentinel(monkeypatch):
    key = f"test-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setattr(failure, "job_key", lambda: key)
    program = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.bind(chr(0) + sys.argv[1]); s.listen(5); print('listens', flush=True); c, _ = s.accept();"
        "print(c.recv(64), flush=True)"
    )
    stranger = subprocess.Popen(
        [sys.executable, "-c", program, sentinel.address(key)[1:]], stdout=subprocess.PIPE, text=True
    )
    try:
        assert stranger.stdout.readline() == "listens\n"
        with pytest.raises(PermissionError, match="is of user 65534"):
            failure.introduced()
        assert stranger.stdout.readline() == "b''\n"
    finally:
        stranger.kill()
        stranger.wait()
        stranger.stdout.close()


def test_a_silent_connection_does_not_keep_it_waiting(job):
    with socket.socket(socket.AF_UNIX) as silent:
        while silent.connect_ex("\0" + job[1]):
            time.sleep(0.01)
        rank = speak(job[1], "0 2")
        try:
            assert rank.stdout.readline() == "b'1'\n"
        finally:
            rank.kill()
            rank.wait()
            rank.stdout.close()
