"""Training, attention and layers on 1, 2 and 4 ranks are those of one process, and bad input is refused everywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import qkv
from qkv import distributed, training
from qkv.distributed import batch, starting
from ranks.mpi import MPIEXEC, Job, environment, fails, needs_mpi, run

RANKS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]


def test_one_process_is_rank_0_and_needs_no_mpi():
    program = (
        "import sys, qkv; d = qkv.distributed; print(d.rank(), d.size(), d.is_main(), d.positions(3, None).tolist(),"
        "[name for name in sys.modules if name.startswith('mpi4py')])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert found.stdout == "0 1 True [0, 1, 2] []\n"


@needs_mpi
def test_ranks_know_their_numbers():
    line = "f'{d.rank()} {d.size()} {d.is_main()}\\n'"  # in one piece, which no other rank's can part
    program = f"import sys, qkv; d = qkv.distributed; sys.stdout.write({line})"
    status, output, errors = Job(3, "-c", program).wait()
    assert (status, sorted(output.split("\n"))) == (0, ["", "0 3 True", "1 3 False", "2 3 False"]), errors


def test_a_missing_mpi4py_is_named_once():
    pytest.importorskip("qkv")
    program = "import sys; sys.modules['mpi4py'] = None; import qkv; qkv.distributed.rank()"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(PMI_RANK="0", PMI_SIZE="2"),
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1
    assert (
        "mpi4py and a library of MPI must be installed because mpiexec started this process" in found.stderr
    )
    assert 'pip install "qkv[distributed]" mpich' in found.stderr


@pytest.mark.parametrize("missing", ["mpi4py", "mpiexec"])
def test_what_is_missing_to_start_several_processes_is_named(monkeypatch, missing):
    monkeypatch.delenv("MPIEXEC", raising=False)
    monkeypatch.setattr(
        starting.importlib.util, "find_spec", lambda name: None if missing == "mpi4py" else True
    )
    monkeypatch.setattr(starting.shutil, "which", lambda *a, **k: None)
    said = rf'on_ranks: {missing} must be installed .*; pip install "qkv\[distributed\]" mpich'
    with pytest.raises(ImportError, match=said):
        starting.find_mpiexec("on_ranks")


@needs_mpi
def test_an_mpiexec_of_another_mpi_is_named():
    program = (
        "import os; from mpi4py import MPI; os.environ['PMI_SIZE'] = '3'; import qkv; qkv.distributed.rank()"
    )
    errors = fails(0, "-c", program)
    assert "mpiexec must belong to the MPI library that mpi4py loads" in errors


@pytest.mark.parametrize("step", [{"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}])
@pytest.mark.parametrize(
    "call", ["qkv.distributed.rank()", "qkv.models.embed_lines('model', 'texts', 'x.npy')"]
)
def test_srun_without_mpi_is_refused(step, call):
    found = subprocess.run(
        [sys.executable, "-c", f"import qkv; {call}"], env=environment(**step), capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "srun must be given --mpi=pmix, or --mpi=pmi2 for MPICH" in found.stderr
    alone = subprocess.run(
        [sys.executable, "-c", "import qkv, qkv.training, qkv.models"], env=environment(**step), check=False
    )
    assert alone.returncode == 0


@needs_mpi
def test_ranks_below_shells_tell_once(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(
        "from mpi4py import MPI\nfrom qkv import distributed\n"
        "if distributed.rank() == 1:\n    open('missing')\nMPI.COMM_WORLD.Barrier()\n"
    )
    for command in (
        [sys.executable, str(program)],
        ["sh", "-c", f"cd / && {sys.executable} {program}; exit $?"],
    ):
        found = subprocess.run(
            [MPIEXEC, "-n", "3", *command], env=environment(), capture_output=True, text=True, timeout=60
        )
        assert found.returncode != 0
        told = [line for line in found.stderr.splitlines() if line.startswith("qkv: ")]
        assert len(told) == 1, found.stderr
        assert "rank 1 of 3" in told[0]
        assert "raised FileNotFoundError" in told[0]


def results(folder, ranks, **options):
    file = folder / f"{ranks}-{'-'.join(map(str, options.values()))}.npz".replace("/", "_")
    run(ranks, "train.py", file, *(f"{name}={value}" for name, value in options.items()))
    with np.load(file) as found:
        return dict(found)


@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        pytest.param(
            (2, 4), {"steps": 200, "accumulate": 1}, marks=pytest.mark.slow
        ),  # 13 items: parts are uneven
        pytest.param((1, 4), {"steps": 20, "accumulate": 3, "size": 17}, marks=pytest.mark.slow),
        ((4,), {"steps": 12, "size": 3, "accumulate": 1}),  # fewer items than ranks
        pytest.param((2,), {"steps": 12, "mean": 1, "accumulate": 2}, marks=pytest.mark.slow),
    ],
    ids=["uneven", "accumulated", "few items", "means"],
)
def test_curves_differ_by_rounding_only(tmp_path, ranks, options):
    alone = results(tmp_path, 0, **options)
    assert len(alone["loss"]) == options["steps"]
    for number in ranks:
        found = results(tmp_path, number, **options)
        assert set(found) == set(alone)
        for name, wanted in alone.items():
            if name == "random":
                np.testing.assert_array_equal(found[name], wanted)
            else:
                np.testing.assert_allclose(
                    found[name], wanted, rtol=1e-7, atol=1e-9, err_msg=f"{number} {name}"
                )


@needs_mpi
def test_options_of_a_training_are_the_plain_one(tmp_path):
    assert run(3, "options.py", tmp_path) == "done\n"


@needs_mpi
@pytest.mark.slow
def test_a_checkpoint_goes_on_on_any_number_of_ranks(tmp_path):
    whole = results(tmp_path, 0, steps=25)
    path = tmp_path / "run.npz"
    for ranks, steps in ((2, 13), (0, 20), (4, 25)):
        found = results(tmp_path, ranks, steps=steps, checkpoint=path, resume=1)
        assert len(found["loss"]) == steps
    for name in ("loss", "count", "grad_norm", "lr", "output.weight"):
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-9, atol=1e-10, err_msg=name)


@needs_mpi
@pytest.mark.parametrize("ranks", RANKS)
def test_attention_of_a_split_sequence(ranks):
    assert run(ranks, "attend.py") == "done\n"


@needs_mpi
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="sanitizers keep what is freed")
def test_a_rank_of_a_ring_holds_its_part_and_two_blocks():
    length = 32768
    alone, mine = (int(run(ranks, "ring_memory.py", length)) for ranks in (1, 2))
    block = 2 * 4 * (length // 2) * 64 * 4  # keys and values
    assert mine < alone / 2 + 2 * block, (alone, mine, block)


@needs_mpi
def test_layers_and_a_language_model_on_split_sequences(tmp_path):
    losses = []
    for ranks in (0, 2, 4):
        run(ranks, "layers.py", tmp_path / f"{ranks}.npz")
        with np.load(tmp_path / f"{ranks}.npz") as found:
            losses.append(found["loss"])
    assert losses[0][-1] < 0.7 * losses[0][0]
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], rtol=1e-9)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_wrong_arguments_are_refused_on_all_ranks(ranks):
    assert run(ranks, "refuse.py") == "done\n"


@pytest.mark.parametrize(("length", "ranks"), [(23, 4), (4, 4), (7, 3), (64, 8), (5, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_every_position_has_one_rank(length, ranks, causal):
    from qkv.distributed.split import stretches

    parts = [stretches(length, ranks, rank, causal) for rank in range(ranks)]
    places = [[i for begin, end in part for i in range(begin, end)] for part in parts]
    assert sorted(i for place in places for i in place) == list(range(length))
    assert all(place == sorted(place) and place for place in places)
    if causal and length >= 23:
        work = [sum(i + 1 for i in place) for place in places]
        assert max(work) < 1.5 * min(work)


def test_parts_of_batches():
    ids, lens = np.arange(10).reshape(5, 2), np.arange(5)
    padded = qkv.data.batches.Padded(ids, lens)
    given = {
        "texts": padded,
        "words": list("abcde"),
        "mask": np.ones((3, 3)),
        "number": 3,
        "pair": [ids, lens],
    }
    assert batch.items_of(given) == 5
    part = batch.take(given, 1, 3, 5)
    assert isinstance(part["texts"], type(padded))
    np.testing.assert_array_equal(part["texts"].ids, ids[1:3])
    np.testing.assert_array_equal(part["pair"][1], lens[1:3])
    assert (part["words"], part["number"], part["mask"].shape) == (["b", "c"], 3, (3, 3))
    assert [batch.share(5, r, 3) for r in range(3)] == [(0, 2), (2, 4), (4, 5)]
    assert [batch.share(2, r, 3) for r in range(3)] == [(0, 1), (1, 2), (1, 2)]
    with pytest.raises(
        TypeError, match="a batch must be an array, or a tuple, list, dict or dataclass of arrays"
    ):
        batch.items_of(object())
    with pytest.raises(
        TypeError, match=r"a batch must hold arrays, lists and numbers because .* got set in it"
    ):
        batch.take((ids, {1}), 0, 1, 5)


def test_split_belongs_to_comm():
    with pytest.raises(ValueError, match="split must not be given without comm"):
        training.Trainer(None, None, None, split=lambda *a: a)


def test_without_a_communicator_attention_is_the_usual():
    q = qkv.randn(3, 5, 4)
    np.testing.assert_array_equal(
        distributed.attention(q, q, q, None, is_causal=True),
        qkv.scaled_dot_product_attention(q, q, q, is_causal=True),
    )


@needs_mpi
@pytest.mark.parametrize("ranks", RANKS)
def test_formulas_of_a_split_sequence(ranks):
    assert run(ranks, "attend_by_formulas.py") == "done\n"
