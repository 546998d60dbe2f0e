"""A view: data that a page shows with a script, in a notebook or alone, and that matplotlib draws."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._atomic import write_file
from ..._words.errors import shown
from ..figures.drawing import pyplot
from ..figures.texts import readable_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_STILL = '<img class="still" src="data:image/png;base64,{}" alt="{}">'  # which the script takes away
PAGE = 7.0, 9.5  # inches of a sheet
_PICTURES = (".svg", ".pdf", ".png")
# Text stays text in SVG, and is embedded with its font in PDF.
_FONTS: Any = {"svg.fonttype": "none", "pdf.fonttype": 42}


class View:
    """What a notebook shows and `save` writes; subclasses name the script, and say what it gets and what is drawn."""

    script = ""  # the names of its scripts
    style = ""  # the name of its own style, if it has one
    _title: str | None = None

    @property
    def title(self) -> str | None:
        """What is written above it."""
        return self._title

    @title.setter
    def title(self, text: str | None) -> None:
        self._title = None if text is None else readable_title(text)

    def _data(self) -> dict[str, Any]:
        """Return what the script reads, as JSON has it."""
        raise NotImplementedError

    def _drawing(self) -> str:
        """Return what is shown where scripts may not run, and what the script changes."""
        return '<div class="stage"></div>'

    def _rounding(self, about: dict[str, Any]) -> str:
        """Return to what the numbers of the page, whose script gets `about`, are rounded."""
        return ""

    def _key(self, about: dict[str, Any]) -> list[tuple[str, str]]:
        """Return what its colours mean: their names in view.css, and words."""
        return []

    def _still(self) -> Figure | None:
        """Draw what is shown where neither scripts nor drawings are, if that takes no longer than a page."""
        return None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what notebooks hold: the page, and a picture for exports."""
        still = self._png()
        picture = {} if still is None else {"image/png": base64.b64encode(still).decode()}
        return {"text/plain": repr(self), "text/html": self._html(still), **picture}

    def _repr_html_(self) -> str:
        """Return the part of a page that shows it, with style and script; no two have the same id."""
        return self._html(self._png())

    def _png(self) -> bytes | None:
        if importlib.util.find_spec("matplotlib") is None:
            return None
        figure = self._still()
        return None if figure is None else small_png(figure)

    def _html(self, still: bytes | None) -> str:
        name = "qkv-" + secrets.token_hex(6)
        about = self._data()
        text = json.dumps(about, separators=(",", ":"), allow_nan=False)  # JSON has no NaN
        style = "".join(_asset(f"{own}.css") for own in ("view", *self.style.split()))
        code = "".join(_asset(f"{own}.js") for own in ("view", *self.script.split()))
        style = style.replace("#ID", f"#{name}")
        heading = "" if self.title is None else f"<h3>{html.escape(self.title)}</h3>"
        rounding = self._rounding(about)
        below = f'<p class="rounding">{html.escape(rounding)}</p>' if rounding else ""
        words = [
            f'<span><i class="{name}"></i> {html.escape(text)}</span>' for name, text in self._key(about)
        ]
        key = f'<p class="key">{"".join(words)}</p>' if words else ""
        return (
            f'<div id="{name}" class="qkv-view"><style>{style}</style>{heading}<div class="controls"></div>'
            f"{'' if still is None else _STILL.format(base64.b64encode(still).decode(), html.escape(repr(self)))}"
            f'{self._drawing()}<div class="note" aria-live="polite"></div>{key}{below}'
            f'<script type="application/json">{_for_script(text)}</script>'
            f"<script>(function(root){{{code}}})(document.getElementById({json.dumps(name)}));</script></div>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a whole page, script included, that needs neither Python nor a network.

        Parameters
        ----------
        path : path

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        text = page(self.title or type(self).__name__, self._repr_html_())
        write_file(path, lambda file: file.write(text.encode("utf-8")))


class AttentionView(View):
    """What the views of attention return: an interactive page, and the same as a figure.

    A notebook shows the page. It unpacks to ``(fig, axes)`` of a figure of ``matplotlib.pyplot``.

    Attributes
    ----------
    title : str or None

    Examples
    --------
    >>> view = qkv.plot.head_view([[0.9, 0.1], [0.2, 0.8]], ["Guten", "Morgen"], ["good", "morning"])
    >>> view.save("attention.html")
    >>> fig, axes = view
    >>> axes[0].get_title()
    'head 0'
    """

    _pair: tuple[Figure, Any] | None = None

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        """Draw into a figure that `subplots` makes, or into the given axes."""
        raise NotImplementedError

    def _still(self) -> Figure | None:
        return self.figure() if self._is_quick() else None

    def _is_quick(self) -> bool:
        """Return whether the figure takes no longer than the page."""
        return True

    def _into(self, ax: Any) -> None:
        """Draw into axes, if there are any."""
        if ax is not None:
            self._pair = self._plot(_of_pyplot, ax)

    def figure(self) -> Figure:
        """Draw it with matplotlib.

        Returns
        -------
        matplotlib.figure.Figure
            A new one that pyplot does not know: a notebook shows it once.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        return self._plot(_alone)[0]

    def sheets(self) -> list[Figure]:
        """Draw it on sheets of a page's size (7 x 9.5 inches), for papers; a short text needs one.

        Returns
        -------
        list of matplotlib.figure.Figure
            Of head_view and token_view several for long texts; else one.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        return [view.figure() for view in self._on_sheets()]

    def _on_sheets(self) -> Sequence[AttentionView]:
        """Return the view in parts that fit a page."""
        return [self]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a page or a picture.

        Parameters
        ----------
        path : path
            Ends in ``.html`` (one file, script included, that needs neither Python nor a network), ``.svg`` (tokens are
            text), ``.pdf`` (a page for each of its sheets) or ``.png``.

        Raises
        ------
        ValueError
            If the path ends otherwise.
        ImportError
            If matplotlib is missing, for pictures.
        OSError
            If the file cannot be written.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".html":
            super().save(path)
            return
        if suffix not in _PICTURES:
            raise ValueError(
                f"save: path must end in .html, {', '.join(_PICTURES)} because the ending says what is written; "
                f"got {shown(Path(path).name)}"
            )
        figures, content = self.sheets() if suffix == ".pdf" else [self.figure()], io.BytesIO()
        from matplotlib import rc_context
        from matplotlib.backends.backend_pdf import PdfPages

        with rc_context(_FONTS):
            if len(figures) > 1:
                with PdfPages(content) as pages:
                    for figure in figures:
                        pages.savefig(figure, bbox_inches="tight")
            else:
                figures[0].savefig(content, format=suffix[1:], bbox_inches="tight", dpi=200)
        write_file(path, lambda file: file.write(content.getvalue()))

    def __iter__(self) -> Iterator[Any]:
        if self._pair is None:
            self._pair = self._plot(_of_pyplot)
        return iter(self._pair)

    def __getitem__(self, place: int) -> Any:
        return tuple(self)[place]

    def __len__(self) -> int:
        return 2

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pair"}


def page(title: str, *parts: str, head: str = "") -> str:
    """Return a whole page of parts in HTML, which asks no network; `head` goes into its head."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width">{head}'
        "<style>:root{color-scheme:light dark}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def small_png(figure: Figure) -> bytes:
    """Return a figure as a picture of few bytes: 256 colours at most."""
    from PIL import Image

    drawn, content = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", bbox_inches="tight", dpi=80, facecolor="white")
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(content, format="png", optimize=True)
    return content.getvalue()


def _of_pyplot(rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    fig, axes = pyplot().subplots(rows, columns, squeeze=False, **options)
    return fig, axes


def _alone(rows: int, columns: int, figsize: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    pyplot()  # says how to install it
    from matplotlib.figure import Figure

    fig = Figure(figsize=figsize, layout=options.pop("layout", None))
    return fig, fig.subplots(rows, columns, squeeze=False, **options)


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _for_script(text: str) -> str:
    """Keep JSON from ending the element that it is in."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
