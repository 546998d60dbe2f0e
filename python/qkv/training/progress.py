"""The progress bar: tqdm's where there is one and it can be seen."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from .._display.html import in_notebook


class Progress:
    """Count updates and show the loss.

    `show` is True (always; tqdm is needed), False (never) or None (on a terminal and in a notebook, if tqdm is there).
    """

    def __init__(self, total: int | None, done: int, show: bool | None) -> None:
        self._bar: Any = None
        if show is None and not (sys.stderr.isatty() or in_notebook()):
            return
        if show is not False:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # tqdm warns where a notebook has no widgets
                    tqdm = importlib.import_module("tqdm.auto").tqdm
            except ImportError as error:
                if show:
                    raise ImportError(
                        "Trainer.fit: tqdm must be installed because progress=True shows its bar; "
                        'pip install "qkv[notebooks]"'
                    ) from error
                return
            self._bar = tqdm(total=total, initial=done, unit="update", dynamic_ncols=True)

    def update(self, loss: float) -> None:
        """Count one update."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            self._bar.update()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
