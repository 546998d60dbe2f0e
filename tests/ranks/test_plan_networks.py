"""What plans take from measured networks and rings."""

import dataclasses
import subprocess
import sys

import pytest

from qkv.distributed import plan, starting
from ranks.made_rates import CALLS, MERGING, RATES, made
from ranks.mpi import needs_mpi


def test_unless_measured_a_network_hides_what_this_machine_does():
    job = plan.Train(width=512, batch=64)
    for hidden in (0.0, 0.5, 1.0):
        here, said = made(hidden=hidden), plan.Network("n", 0.0, 1e9, hidden)
        assert job.step(8, here, plan.Network("n", 0.0, 1e9), 1) == job.step(8, RATES, said, 1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_rings_take_what_was_measured(ranks):
    for positions, seconds in RATES.messages[ranks]["ring"]:
        assert plan.Attention(ranks * positions, 4, 64).step(ranks, RATES).seconds == pytest.approx(seconds)


def test_a_step_of_a_ring_merges_what_its_rank_has():
    job, network = (
        plan.Attention(length=256, heads=3, features=32, causal=False),
        plan.Network("n", 0.0, 1e30),
    )
    steps = [(1, 0.0), (2, 2.0), (3, 3.0), (64, 64.0)]
    for ranks, count in steps:
        each = CALLS + MERGING * 3 * 256 / ranks * 32
        assert job.step(ranks, RATES, network, 1).repeated == pytest.approx(count * each)
    shared = CALLS + MERGING * 3 * 64 * 32
    assert job.step(4, RATES).repeated == pytest.approx(2 * 4 * shared)  # four ranks on two cores


def test_rings_that_take_no_longer_than_their_kernels_cost_nothing_else():
    rates = made()
    for found in rates.messages.values():
        found["ring"] = [[positions, 0.5 * seconds] for positions, seconds in found["ring"]]
    assert plan.Attention(length=8192).step(2, rates).repeated == 0


@needs_mpi
def test_the_network_between_machines_is_measured(tmp_path):
    path = tmp_path / "rates.json"
    RATES.save(path)
    program = [
        starting.find_mpiexec("test"),
        "-n",
        "2",
        sys.executable,
        "-m",
        "qkv",
        "plan",
        "measure",
        str(path),
        "--quick",
    ]
    with pytest.raises(ValueError, match="'measured' must be that of the rates because it is not assumed"):
        plan.network("measured", RATES)
    together = subprocess.run(program, env=starting.environment(1), capture_output=True, text=True)
    assert together.returncode != 0
    assert (
        "ranks must be on several machines because it is what is between them that is measured"
        in together.stderr
    )
    # MPICH takes the odd ranks for those of another machine.
    apart = {**starting.environment(1), "MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}
    found = subprocess.run(program, env=apart, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "between machines" in found.stdout
    rates = plan.load_rates(path)
    network = plan.network("measured", rates)
    assert dataclasses.replace(rates, network=None) == RATES
    assert 0 < network.bandwidth < 1e13
    assert 0 <= network.hidden <= 1
    assert plan.Train().step(8, rates, "measured", 1) == plan.Train().step(8, RATES, network, 1)
