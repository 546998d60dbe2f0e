"""Ctrl-C during a training: let the update come to its end first."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class InterruptAfterUpdate:
    """While this block runs, the first Ctrl-C only sets `asked`; a second one raises KeyboardInterrupt as usual.

    Outside of the main thread, or where the program has a handler of its own, nothing is changed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._installed = False

    def __enter__(self) -> InterruptAfterUpdate:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, self._remember)
                self._installed = True
            except ValueError:  # not the main thread
                pass
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False
