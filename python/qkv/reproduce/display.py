"""What a check shows: one line for a person and one record for the runner, in one output of the notebook."""

import io
from typing import Any

from .._display.html import element, in_notebook, page_of
from . import figures

MIME = "application/vnd.qkv.check+json"
FIGURE_KEY = "qkv_figure"

_MARKS = {"ok": "ok  ", "failed": "FAIL", "skipped": "skip"}
_SIGNS = {
    "ok": ("#1a7f37", "\N{CHECK MARK}"),
    "failed": ("#c62828", "\N{BALLOT X}"),
    "skipped": ("#8a5a00", "\N{EN DASH}"),
}


def found(record: dict[str, Any]) -> str:
    """Say what was found, in one line: of a large array its first numbers before its shape."""
    side = record.get("values", {}).get("got", {})
    if side.get("form") and record["got"].startswith(side["form"]):
        return f"{' '.join(side['text'].splitlines()[0].strip(' …').split())} ... {record['got']}"
    return str(record["got"])


def line(record: dict[str, Any]) -> str:
    """Return the record as one line of text."""
    text = f"{_MARKS[record['state']]} {record['id']}  {record['what']}  [{record['how']}]  {found(record)}"
    return f"{text}; expected {record['expected']}" if record["state"] == "failed" else text


def show(record: dict[str, Any]) -> None:
    """Show a check's record where the person is looking."""
    if not in_notebook():
        print(line(record))
        return
    from IPython.display import display

    colour, mark = _SIGNS[record["state"]]
    tail = f"; expected {record['expected']}" if record["state"] == "failed" else ""
    page = element(
        "div",
        element("span", element("b", f"{mark} {record['id']}"), style=f"color:{colour}"),
        f" {record['what']} ",
        element("span", f"[{record['how']}] {found(record)}{tail}", style="color:#777"),
        style="font-size:90%",
    )
    show: Any = display
    show({"text/plain": line(record), "text/html": page_of(page), MIME: record}, raw=True)


def show_figure(name: str, figure: Any) -> None:
    """Show a figure under its name and close it, so that the notebook does not draw it a second time."""
    if not in_notebook():
        return
    import matplotlib.pyplot as plt
    from IPython.display import display

    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=100, bbox_inches="tight")
    show: Any = display
    data = {"image/png": png.getvalue(), "text/plain": name, **figures.extras(figure)}
    show(data, raw=True, metadata={FIGURE_KEY: name})
    plt.close(figure)
