"""The checks that notebooks make: each compares, shows one line and keeps a record; none of them raises.

A record's ``source`` says where what is expected comes from: "document" if a document prints it, "pytorch" if PyTorch
computed it and it is stored, "hand" if it was counted or written by hand and is stored; without one it is
the notebook's own. Its ``state`` is "ok", "failed", or "skipped" for
what is not computed here; then ``got`` is the reason.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import arrays, display, figures, values
from .compare import Comparison, compare_close, compare_equal, record, shortened
from .printed import as_text, compare_printed

ID = re.compile(r"D\d-\d\d|[TX]-[A-Z]+")


class Check:
    """Makes checks and keeps their records in `records`, in order.

    Every method takes the experiment's id and a few words that say what is compared, and returns whether it
    holds. ``expected`` may be an array, or the name of a golden array such as ``"D0-18/out"`` or of a part of
    one such as ``"D0-03/attention_weights[0,0]"``. ``got`` is what was computed: a golden array is refused there
    (it would agree with itself), and a comparison of empty arrays fails.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def close(
        self,
        id: str,
        what: str,
        got: Any,
        expected: Any,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> bool:
        """Check numbers within a tolerance; shape and kind of number must agree too.

        The tolerance is the golden array's own, or 1e-9 relative and 1e-11 absolute for float64 results and
        1e-5 and 2e-6 for narrower ones. NaN is accepted only where a golden array has NaN.
        """
        expected, key = self._expected(expected)
        got = np.asarray(_computed("close", got))
        basic = arrays.tolerance(got.dtype, key)
        limits = arrays.Tolerance(basic.rtol if rtol is None else rtol, basic.atol if atol is None else atol)
        result = compare_close(got, expected, limits, equal_nan=key is not None)
        sides = values.sides(got, expected, limits)
        return self._add(id, what, "tolerance", result, hash=arrays.digest(got), **_stored(key), **sides)

    def equal(self, id: str, what: str, got: Any, expected: Any, *, source: str | None = None) -> bool:
        """Check exact equality of arrays, numbers, texts or lists; `source` says where they come from."""
        expected, key = self._expected(expected)
        got = _computed("equal", got)
        result = compare_equal(got, expected, equal_nan=key is not None)
        origin = {"source": source} if source else _stored(key)
        if isinstance(got, np.ndarray):
            origin["hash"] = arrays.digest(got)
        return self._add(id, what, "exact", result, **origin, **values.sides(got, expected))

    def printed(
        self,
        id: str,
        what: str,
        got: Any,
        expected: str,
        *,
        cut: bool = False,
        last: bool = False,
        source: str | None = "document",
    ) -> bool:
        """Check printed digits against a text: that which the document prints, unless `source` says otherwise.

        `got` is text, or numbers to print as `expected` prints them. `cut` allows that the document's text
        stops before the end, `last` that a number differs by one in its last digit, or by what float32 rounds.
        """
        got = _computed("printed", got)
        result = compare_printed(got, expected, cut=cut, last=last)
        sides = values.sides(as_text(got, expected), expected)
        return self._add(id, what, "printed", result, **({"source": source} if source else {}), **sides)

    def shape(self, id: str, what: str, got: Any, expected: tuple[int, ...]) -> bool:
        """Check a shape; `got` is an array, a Tensor or a shape."""
        got = _computed("shape", got)
        shape = tuple(got) if isinstance(got, tuple | list) else tuple(np.shape(got))
        expected = tuple(expected)
        return self._add(id, what, "shape", Comparison(shape == expected, str(expected), str(shape)))

    def that(self, id: str, what: str, condition: Any, got: Any, expected: Any = None) -> bool:
        """Check a property; `got` is the number that was found, `expected` says what was hoped for."""
        if not isinstance(condition, bool | np.bool_) and not (
            np.ndim(condition) == 0 and np.asarray(condition).dtype == bool
        ):
            raise TypeError(
                f"check.that: condition must be one boolean because a check either holds or not; "
                f"got {type(condition).__name__} {np.shape(condition)}"
            )
        goal = "it holds" if expected is None else _words(expected)
        return self._add(id, what, "property", Comparison(bool(condition), goal, _words(got)))

    def raises(
        self,
        id: str,
        what: str,
        exception: type[BaseException] | tuple[type[BaseException], ...],
        match: str | None,
        function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        """Check that a call raises `exception` with a message in which the pattern `match` is found."""
        kinds = exception if isinstance(exception, tuple) else (exception,)
        goal = " or ".join(kind.__name__ for kind in kinds) + (f" matching {match!r}" if match else "")
        try:
            function(*args, **kwargs)
        except Exception as error:
            ok = isinstance(error, kinds) and (match is None or re.search(match, str(error)) is not None)
            result = Comparison(ok, goal, _words(f"{type(error).__name__}: {error}"))
        else:
            result = Comparison(False, goal, "no exception")
        return self._add(id, what, "raises", result)

    def figure(self, name: str, figure: Any, *, nan_as: float | None = None) -> bool:
        """Check a matplotlib figure against its description.

        Panels, labels, titles, legends, tick labels, colour maps, the colour bar, size, shared axes and the
        plotted arrays are read back from the figure. `nan_as` is what replaces NaN of the golden arrays.
        """
        from .pictures import compare_figure

        number = figures.number_of(figure)
        spec = arrays.figures()[name]
        return self._add(
            ID.findall(spec["experiment"])[0],
            f"picture {name}",
            "picture",
            _as_shown(figure, compare_figure(figure, spec, nan_as=nan_as)),
            figure=name,
            picture=number,
        )

    def picture(self, id: str | Sequence[str], shown: Any, panels: Any, what: str = "picture") -> bool:
        """Check that a figure, or a view with a script, holds what its panels must hold, and nothing else.

        The functions of :mod:`qkv.reproduce.panels` make `panels`; a figure of several experiments names all their
        ids. Words, colour maps, scales and every array that is drawn are compared.
        """
        from .pages import compare_view
        from .pictures import compare_figure

        place = {} if isinstance(panels, dict) else {"picture": figures.number_of(shown)}
        result = (
            _as_shown(shown, compare_figure(shown, {"panels": list(panels)}))
            if place
            else compare_view(shown, panels)
        )
        every = [id] if isinstance(id, str) else list(id)
        return all([self._add(one, what, "picture", result, **place) for one in every])

    def skipped(self, id: str, what: str, reason: str) -> None:
        """Say that something is not computed here, and why; it counts apart, neither as ok nor as failed."""
        self._keep(record(_known(id), what, "skipped", "", reason, "skipped"))

    def _expected(self, expected: Any) -> tuple[Any, str | None]:
        if isinstance(expected, str) and "/" in expected:
            stored = expected.split("/", 1)[0] in arrays.index()["cases"]
            expected = arrays.load(expected) if stored else expected
        return expected, arrays.key_of(expected)

    def _add(self, id: str, what: str, how: str, result: Comparison, **more: Any) -> bool:
        state = "ok" if result.ok else "failed"
        return self._keep(record(_known(id), what, how, result.expected, result.got, state, **more)) == "ok"

    def _keep(self, made: dict[str, Any]) -> str:
        self.records.append(made)
        display.show(made)
        return str(made["state"])


def _computed(method: str, got: Any) -> Any:
    """Return `got`, unless it is a golden array, a part of one, or a list with one."""
    for value in got if isinstance(got, list | tuple) else [got]:
        key = arrays.key_of(value)
        if key is not None:
            raise ValueError(
                f"check.{method}: got must be computed because a stored array agrees with itself; "
                f"got the golden array {key}"
            )
    return got


def _stored(key: str | None) -> dict[str, str]:
    """Say who made an expected array, if it is a stored one."""
    return {} if key is None else {"source": arrays.made_by(key)}


def _as_shown(figure: Any, result: Comparison) -> Comparison:
    """Return the comparison, unless the figure was shown before it was finished."""
    if figures.changed(figure):
        return Comparison(
            False, "the figure as it was shown", "one on which more was drawn after it was shown"
        )
    return result


def _known(id: str) -> str:
    if not ID.fullmatch(id):
        raise ValueError(f"check: id must be an experiment's id such as D0-18 or X-MHA; got {id!r}")
    return id


def _words(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if hasattr(value, "shape") and np.ndim(value):
        value = np.array2string(np.asarray(value), precision=4, separator=", ", threshold=40)
    return shortened(" ".join(str(value).split()))


check = Check()
