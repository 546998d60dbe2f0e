"""Gathers the pages of the site in one folder, which Sphinx then reads."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from . import gallery, reference, views

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
SOURCE = re.findall(r'^Source = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf8"), re.M)[0]

# Pages of the project by their places in the site: those that are copied as they are, and all.
COPIED = {
    "docs/getting_started.md": "getting_started.md",
    "docs/models.md": "models.md",
    "docs/own_layer.md": "own_layer.md",
    "docs/teaching.md": "teaching.md",
    "docs/glossary.md": "glossary.md",
    "docs/conventions.md": "conventions.md",
    "docs/coming_from.md": "coming_from.md",
    "docs/distributed.md": "distributed.md",
    "docs/torch.md": "torch.md",
    "docs/pytorch.md": "pytorch.md",
    "docs/design.md": "design.md",
    "docs/stability.md": "stability.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
PLACES = {
    **COPIED,
    "README.md": "getting_started.md",
    "docs/performance.md": "performance/index.md",
    "docs/gallery.md": "gallery.md",
    "docs/views.md": "views.md",
    "notebooks": "notebooks/index.md",
    "benchmarks/results/README.md": "performance/index.md",
    "benchmarks/explanations.md": "performance/explanations.md",
    **{
        path.relative_to(ROOT).as_posix(): f"performance/{path.name}"
        for path in sorted((ROOT / "benchmarks" / "results").glob("*.md"))
        if path.name != "README.md"
    },
    **{
        path.relative_to(ROOT).as_posix(): f"notebooks/{path.name}"
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    },
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
NAME = re.compile(r"(?<!`)`qkv\.((?!reproduce\b|torch\b)[A-Za-z_][\w.]*\w)`(?!`)")


def relocated(text: str, place: str, home: str) -> str:
    """Return a page of the project as a page of the site: its links lead to other pages or to the project's source.

    `place` is where it is in the project and `home` where in the site.
    """

    def move(found: re.Match[str]) -> str:
        target = found["target"]
        if target.startswith(("http://", "https://", "#")):
            return found[0]
        path, _, anchor = target.partition("#")
        whole = os.path.normpath(os.path.join(os.path.dirname(place), path))
        if not (ROOT / whole).exists():
            raise SystemExit(f"{place}: there is no {whole}")
        part = f"#{anchor}" if anchor else ""
        if whole not in PLACES:
            return f"[{found['text']}]({SOURCE}/blob/main/{whole}{part})"
        return f"[{found['text']}]({os.path.relpath(PLACES[whole], os.path.dirname(home) or '.')}{part})"

    return LINK.sub(move, text)


def with_references(text: str) -> str:
    """Let each name of qkv in a text lead to its page of the reference; blocks of code stay as they are."""
    parts = re.split(r"(^```.*?^```)", text, flags=re.M | re.S)
    return "".join(part if n % 2 else NAME.sub(r"{py:obj}`qkv.\1`", part) for n, part in enumerate(parts))


def write_page(text: str, home: str, folder: Path, place: str | None = None, references: bool = True) -> None:
    """Write a page of Markdown; `place` is where it is in the project, if it is not a page of the site alone."""
    if place is not None:
        text = relocated(text, place, home)
    target = folder / home
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(with_references(text) if references else text, encoding="utf8")


def notebook(path: Path) -> str:
    """Return a notebook for the site, without outputs that only programs read."""
    content = json.loads(path.read_text(encoding="utf8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            for output in cell["outputs"]:
                data = output.get("data", {})
                for kind in [kind for kind in data if kind.startswith("application/vnd.")]:
                    del data[kind]
            cell["outputs"] = merged(cell["outputs"])
    return json.dumps(content)


def merged(outputs: list[dict]) -> list[dict]:
    """Join the lines of checks that are one after the other."""
    result: list[dict] = []
    for output in outputs:
        mine = output.get("data", {})
        before = result[-1].get("data", {}) if result else {}
        if (
            set(mine) == set(before) == {"text/html", "text/plain"}
            and output["output_type"] == "display_data"
        ):
            for kind in mine:
                before[kind] = [
                    "".join(before[kind]),
                    *(["\n"] if kind == "text/plain" else []),
                    "".join(mine[kind]),
                ]
        else:
            result.append(output)
    return result


def write_notebooks(folder: Path) -> None:
    """Write the notebooks and the page that lists them, by documents."""
    from qkv.reproduce import registry

    target = folder / "notebooks"
    target.mkdir()
    page = [(HERE / "notebooks_intro.md").read_text(encoding="utf8")]
    for title, paths in registry.reading_order(ROOT / "notebooks"):
        for path in paths:
            (target / path.name).write_text(notebook(path), encoding="utf8")
        names = "\n".join(path.stem for path in paths)
        page.append(f"```{{toctree}}\n:caption: {json.dumps(title)[1:-1]}\n:maxdepth: 1\n\n{names}\n```\n")
    (target / "index.md").write_text("\n".join(page), encoding="utf8")


def write_performance(folder: Path) -> None:
    """Write the tables of all CPUs, their pictures, and the page above them."""
    results = ROOT / "benchmarks" / "results"
    pages = [path for path in sorted(results.glob("*.md")) if path.name != "README.md"]
    for path in [*pages, ROOT / "benchmarks" / "explanations.md"]:
        place = path.relative_to(ROOT).as_posix()
        write_page(path.read_text(encoding="utf8"), PLACES[place], folder, place, references=False)
    for path in results.glob("*.png"):
        shutil.copy(path, folder / "performance")
    text = (HERE / "performance.md").read_text(encoding="utf8")
    listed = re.findall(
        r"\[([^\]]+)\]\(([\w-]+)\.md\) \| (\w+)", (results / "README.md").read_text(encoding="utf8")
    )
    entries = [f"{title}, {kernels} <{name}>" for title, name, kernels in listed]
    entries += [path.stem for path in pages if path.stem not in {name for _, name, _ in listed}]
    names = "\n".join([*entries, "explanations"])
    write_page(text.replace("PAGES", names), "performance/index.md", folder, "docs/performance.md")


def gather(folder: Path) -> None:
    """Fill an empty folder with the pages that Sphinx reads."""
    from qkv.reproduce import site

    for name in ("conf.py", "attention.png", "distributed.png"):
        shutil.copy(HERE / name, folder)
    for name in ("static", "templates"):
        shutil.copytree(HERE / name, folder / name)
    (folder / "static" / "math.css").write_text(site.font_style(), encoding="utf8")
    write_page((HERE / "index.md").read_text(encoding="utf8"), "index.md", folder)
    for place, home in COPIED.items():
        write_page((ROOT / place).read_text(encoding="utf8"), home, folder, place)
    write_performance(folder)
    write_notebooks(folder)
    write_page(gallery.page(folder), "gallery.md", folder)
    write_page(views.page(), "views.md", folder, references=False)
    reference.write(folder / "api")
