"""Signals during a training: let the update come to its end first."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

ENDING = ("SIGINT", "SIGTERM")  # write the checkpoint and end the training
LAST = 20.0  # seconds after SIGTERM in which the update has to end
SAVING = ("SIGUSR1",)  # write the checkpoint and continue; Windows has no such signal


class InterruptAfterUpdate:
    """While this block runs, signals set `asked` or `wanted`; a second one that ends does what it did before.

    Outside of the main thread, or where the program has a handler of its own, nothing is changed.
    """

    def __init__(self) -> None:
        self.asked = self.wanted = False  # to end, to write the checkpoint
        self._before: dict[int, Any] = {}
        self._last: threading.Timer | None = None

    def __enter__(self) -> InterruptAfterUpdate:
        for name in (*ENDING, *SAVING):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) not in (signal.default_int_handler, signal.SIG_DFL):
                continue
            try:
                self._before[number] = signal.signal(number, self._remember)
            except ValueError:  # not the main thread
                break
        return self

    def __exit__(self, *error: object) -> None:
        if self._last is not None:
            self._last.cancel()
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in SAVING:
            self.wanted = True
            return
        self.asked = True
        signal.signal(number, self._before.pop(number))
        if number == signal.SIGTERM:  # systems send no second one before they kill
            self._last = threading.Timer(LAST, os.kill, (os.getpid(), number))
            self._last.daemon = True
            self._last.start()
