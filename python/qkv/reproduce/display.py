"""What a check shows: one line for a person and one record for the runner, in one output of the notebook."""

import html
import io
import sys
from typing import Any

MIME = "application/vnd.qkv.check+json"
FIGURE_KEY = "qkv_figure"

_GREEN, _RED = "#1a7f37", "#c62828"


def in_notebook() -> bool:
    """Say whether outputs go to a Jupyter front end."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def line(record: dict[str, Any]) -> str:
    """Give the record as one line of text."""
    mark = "ok  " if record["ok"] else "FAIL"
    text = f"{mark} {record['id']}  {record['what']}  [{record['how']}]  {record['got']}"
    return text if record["ok"] else f"{text}; expected {record['expected']}"


def show(record: dict[str, Any]) -> None:
    """Show a check's record where the person is looking."""
    if not in_notebook():
        print(line(record))
        return
    from IPython.display import display

    colour, mark = (_GREEN, "&#10003;") if record["ok"] else (_RED, "&#10007;")
    tail = "" if record["ok"] else f"; expected {html.escape(record['expected'])}"
    page = (
        f'<div style="font-size:90%"><span style="color:{colour}"><b>{mark} {record["id"]}</b></span> '
        f'{html.escape(record["what"])} <span style="color:#777">[{record["how"]}] '
        f"{html.escape(record['got'])}{tail}</span></div>"
    )
    show: Any = display
    show({"text/plain": line(record), "text/html": page, MIME: record}, raw=True)


def show_figure(name: str, figure: Any) -> None:
    """Show a figure under its name and close it, so that the notebook does not draw it a second time."""
    if not in_notebook():
        return
    import matplotlib.pyplot as plt
    from IPython.display import display

    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=100, bbox_inches="tight")
    show: Any = display
    show({"image/png": png.getvalue(), "text/plain": name}, raw=True, metadata={FIGURE_KEY: name})
    plt.close(figure)
