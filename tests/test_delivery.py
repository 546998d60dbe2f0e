"""What a package index and an installation show: metadata, links, platforms, files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.reproduce import execute, registry

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 and newer")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
SOURCE = PROJECT["project"]["urls"]["Source"]
README = (ROOT / "README.md").read_text(encoding="utf8")


def links(page: str) -> list[str]:
    """Return the targets of inline links and of definitions."""
    return re.findall(r"\]\(([^)\s]+)\)", page) + re.findall(r"^\[[^\]]+\]: (\S+)$", page, re.M)


def test_links_of_the_readme_work_on_any_page():
    relative = [link for link in links(README) if not link.startswith(("https://", "#"))]
    assert relative == []
    assert links("[a](b.md) ![c](d.png)\n\n[e]: f") == ["b.md", "d.png", "f"]


def test_links_of_the_readme_lead_to_files_of_the_project():
    raw = SOURCE.replace("github.com", "raw.githubusercontent.com")
    own = [link for link in links(README) if link.startswith((f"{SOURCE}/", f"{raw}/"))]
    found = [link.removeprefix(f"{SOURCE}/blob/main/").removeprefix(f"{raw}/main/") for link in own]
    assert len(found) > 10
    assert [link for link in found if not (ROOT / link.partition("#")[0]).is_file()] == []


def test_references_of_the_readme_are_defined_and_used():
    defined = set(re.findall(r"^\[([^\]]+)\]: ", README, re.M))
    text = re.sub(r"```.*?```", "", README, flags=re.S)
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) == defined


def test_all_urls_have_one_base():
    owner, name = SOURCE.split("/")[-2:]
    for url in PROJECT["project"]["urls"].values():
        assert url.startswith((SOURCE, f"https://{owner}.github.io/{name}/")), url


def test_classifiers_name_the_versions_that_are_built():
    classifiers = PROJECT["project"]["classifiers"]
    named = {c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)}
    built = [
        tag for tag in PROJECT["tool"]["cibuildwheel"]["build"] if not tag.endswith("t-*")
    ]  # free-threaded
    assert {f"cp{version.replace('.', '')}-*" for version in named} == set(built)
    assert f">={min(named, key=lambda v: int(v[2:]))}" == PROJECT["project"]["requires-python"]


def test_installed_notebooks_have_no_outputs(tmp_path):
    """They are the checkout's otherwise; `reproduce` orders its work by the size that they had."""
    folder, checkout = registry.find_notebooks(), ROOT / "notebooks"
    if folder == checkout:
        script = ROOT / "cmake" / "notebooks.py"
        subprocess.run([sys.executable, script, checkout, tmp_path], check=True, timeout=60)
        folder = tmp_path
    paths = sorted(folder.glob("*.ipynb"))
    assert [path.name for path in paths] == sorted(path.name for path in checkout.glob("*.ipynb"))
    assert sum(path.stat().st_size for path in paths) < 1_000_000

    def cells(path):
        return [(c["cell_type"], c["source"]) for c in json.loads(path.read_text(encoding="utf8"))["cells"]]

    pytest.importorskip("nbformat")
    for path in paths:
        full = checkout / path.name
        assert cells(path) == cells(full)
        assert '"output_type"' not in path.read_text(encoding="utf8")
        assert execute._size(path, execute.read(path)) == full.stat().st_size
        assert execute._size(full, execute.read(full)) == full.stat().st_size


def test_workflows_name_actions_by_commit():
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for path in paths for line in re.findall(r"uses: (.+)", path.read_text(encoding="utf8"))]
    assert len(used) > 15
    ours = [line for line in used if line.startswith("./")]
    assert [line for line in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", line)] == ours
    wheels = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf8")
    assert "needs: [tests, wheels, sdist]" in wheels, "nothing is published untested"


def test_a_wheel_needs_numpy_alone():
    assert [re.split(r"[<>=]", name)[0] for name in PROJECT["project"]["dependencies"]] == ["numpy"]
