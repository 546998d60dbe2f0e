"""Sliders beside a picture: on a page whose script computes it, and as live widgets for which qkv does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._words.errors import needs
from .view import View

INK, RED, MAGENTA, BLUE = "#222", "#cb181d", "#c2185b", "#1f6fb4"


class Control(NamedTuple):
    """A slider on a linear or logarithmic scale, or a box to tick."""

    name: str
    label: str
    kind: str  # "log", "int" or "bool"
    value: float
    low: float = 0.0
    high: float = 1.0
    at: Sequence[float] = ()  # of an integer that is a place: the numbers there

    def widget(self, library: Any) -> Any:
        """Make the widget of a notebook."""
        if self.kind == "bool":
            return library.Checkbox(value=bool(self.value), description=self.label)
        if self.at:
            options = [(f"{x:.3g}", place) for place, x in enumerate(self.at)]
            return library.SelectionSlider(options=options, value=int(self.value), description=self.label)
        if self.kind == "int":
            return library.IntSlider(
                value=int(self.value), min=int(self.low), max=int(self.high), description=self.label
            )
        ends = {"min": math.log10(self.low), "max": math.log10(self.high), "step": 0.01}
        return library.FloatLogSlider(value=self.value, description=self.label, readout_format=".3g", **ends)


class SliderView(View):
    """A picture that follows its controls; subclasses say how it is computed, and drawn."""

    script = "sliders"
    model = ""
    told = ""  # below the picture

    def __init__(self, controls: Sequence[Control], title: str | None) -> None:
        self.controls, self.title = list(controls), title

    def _numbers(self) -> dict[str, Any]:
        raise NotImplementedError

    def _picture(self, **values: Any) -> str:
        raise NotImplementedError

    def _rounding(self, about: dict[str, Any]) -> str:
        return self.told

    def _data(self) -> dict[str, Any]:
        return {"model": self.model, "controls": [c._asdict() for c in self.controls], **self._numbers()}

    def _drawing(self) -> str:
        return self._picture(**{c.name: c.value for c in self.controls})

    def widget(self) -> Any:
        """Return the same sliders as widgets of Jupyter, with the picture computed by qkv at each move.

        Returns
        -------
        ipywidgets.VBox
            The sliders, each named by its ``description``, and below them the picture, an ``ipywidgets.HTML``.

        Raises
        ------
        ImportError
            If ipywidgets is missing.
        """
        words = (
            f"{type(self).__name__}: ipywidgets must be installed because the live sliders are its widgets"
        )
        with needs(
            f'{words}; pip install "qkv[notebooks]", or show the view itself, whose sliders need nothing'
        ):
            import ipywidgets  # type: ignore[import-untyped,unused-ignore]
        sliders = {control.name: control.widget(ipywidgets) for control in self.controls}
        picture = ipywidgets.HTML()

        def draw(_: Any = None) -> None:
            picture.value = self._picture(**{name: slider.value for name, slider in sliders.items()})

        for slider in sliders.values():
            slider.observe(draw, "value")
        draw()
        return ipywidgets.VBox([*sliders.values(), picture])
