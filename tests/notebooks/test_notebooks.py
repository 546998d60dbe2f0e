"""The notebooks: stored with their results, complete for each document, and still true."""

import json

import pytest

from qkv.reproduce import execute, registry
from qkv.reproduce.display import MIME

pytest.importorskip("nbclient")
pytest.importorskip("matplotlib")

NOTEBOOKS = sorted(registry.find_notebooks().glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def stored_outputs(path):
    return [output for cell in code_cells(path) for output in cell["outputs"]]


def stored_records(path):
    return [output["data"][MIME] for output in stored_outputs(path) if MIME in output.get("data", {})]


def failures(records):
    return [record for record in records if not record["ok"]]


@each_notebook
def test_stored_with_good_results(path):
    cells, outputs = code_cells(path), stored_outputs(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert failures(stored_records(path)) == []
    assert all("execution" not in cell["metadata"] for cell in cells)
    assert path.stat().st_size < 2_000_000


@each_notebook
def test_still_true(path):
    result = execute.run(path, execute.read(path))
    assert result.error is None
    assert failures(result.records) == []
    made, stored = (
        [(r["id"], r["what"]) for r in records] for records in (result.records, stored_records(path))
    )
    assert made == stored


def test_documents_are_complete():
    checked = {record["id"] for path in NOTEBOOKS for record in stored_records(path)}
    documents = {id.split("-")[0] for id in checked}
    expected = [id for id, e in registry.experiments().items() if e.document in documents]
    assert "D0" in documents
    assert [id for id in expected if id not in checked] == []
