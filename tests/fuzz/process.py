"""Starts the child again whenever a statement has ended it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType


class Process:
    """Runs statements one after the other."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed in __exit__)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.errors.close()

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
        self.child = None

    def run(self, statement: str) -> str | None:
        """Return what is wrong with the statement, or None."""
        if self.child is None:
            self.errors.seek(0)
            self.errors.truncate()
            self.child = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("child.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
            )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(json.dumps(statement) + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if answer:
            wrong: str | None = json.loads(answer)
            return wrong
        code = self.child.wait()
        self.stop()
        self.errors.seek(0)
        stack = self.errors.read().split("Extension modules:")[0]
        return f"the process ended with {code}:\n{stack[-2000:]}"
