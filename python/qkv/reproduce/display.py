"""What a check shows: a record for the runner, in an output of the notebook; a line for a person if it did not hold."""

from typing import Any

from .._display.html import element, in_notebook, page_of

MIME = "application/vnd.qkv.check+json"

_MARKS = {"ok": "ok  ", "failed": "FAIL", "skipped": "skip"}
_SIGNS = {
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
    """Print a check's record; in a notebook keep it for the runner, and show what failed or was skipped."""
    if not in_notebook():
        print(line(record))
        return
    from IPython.display import display

    data: dict[str, Any] = {MIME: record}
    if record["state"] != "ok":
        data |= {"text/plain": line(record), "text/html": page_of(_row(record))}
    show: Any = display
    show(data, raw=True)


def _row(record: dict[str, Any]) -> Any:
    colour, mark = _SIGNS[record["state"]]
    tail = f"; expected {record['expected']}" if record["state"] == "failed" else ""
    return element(
        "div",
        element("span", element("b", f"{mark} {record['id']}"), style=f"color:{colour}"),
        f" {record['what']} ",
        element("span", f"[{record['how']}] {found(record)}{tail}", style="color:#777"),
        style="font-size:90%",
    )
