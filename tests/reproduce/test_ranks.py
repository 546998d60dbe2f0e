"""Programs that notebooks run on several ranks: here, or their stored results."""

import json

import pytest
from ranks.mpi import needs_mpi

from qkv.reproduce import on_ranks, ranks
from qkv.reproduce.trainings import VARIABLE

PROGRAM = """
import json, sys
from mpi4py import MPI
numbers = MPI.COMM_WORLD.gather(MPI.COMM_WORLD.rank)
if numbers:
    with open(sys.argv[1], "w") as file:
        json.dump(numbers, file)
"""


@pytest.fixture
def without_mpi(monkeypatch):
    def missing(operation):
        raise ImportError(f"{operation}: mpi4py must be installed")

    monkeypatch.setattr(ranks, "find_mpiexec", missing)


@needs_mpi
def test_a_program_runs_and_its_result_is_stored_when_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "new"))
    assert on_ranks("numbers", PROGRAM, 2) == [0, 1]
    assert capsys.readouterr().out.startswith("numbers on 2 ranks: ")
    assert json.loads((tmp_path / "new" / "numbers_2.json").read_text()) == [0, 1]


@needs_mpi
def test_a_program_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"on 2 ranks and said .*no such thing"):
        on_ranks("numbers", "raise SystemExit('no such thing')", 2)


def test_stored_results_stand_in_for_a_missing_mpi(without_mpi, capsys):
    found = on_ranks("training", "never run", 4)
    assert len(found["losses"]) == 120
    assert capsys.readouterr().out == (
        "training on 4 ranks: stored results, because here mpi4py must be installed\n"
    )
    with pytest.raises(FileNotFoundError, match="numbers_2"):
        on_ranks("numbers", "never run", 2)
