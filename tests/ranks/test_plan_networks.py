"""What plans take from measured networks and rings."""

import dataclasses
import subprocess
import sys

import pytest

from qkv.distributed import plan, starting
from ranks.made_rates import RATES, made
from ranks.mpi import needs_mpi


def test_unless_measured_a_network_hides_what_this_machine_does():
    job = plan.Train(width=512, batch=64)
    for hidden in (0.0, 0.5, 1.0):
        here, said = made(hidden=hidden), plan.Network("n", 0.0, 1e9, hidden)
        assert job.step(8, here, plan.Network("n", 0.0, 1e9), 1) == job.step(8, RATES, said, 1)


def test_calls_of_a_ring_cost_what_was_measured():
    rates = made()
    for ranks, found in rates.messages.items():
        found["ring"] = 1e-3 * ranks
    job, network = plan.Attention(length=256, causal=False), plan.Network("n", 0.0, 1e30, 1.0)
    assert [job.step(ranks, rates, network, 1).repeated for ranks in (1, 2, 3, 64)] == pytest.approx(
        [0, 2e-3, 3e-3, 64e-3]
    )
    assert job.step(4, rates).repeated == pytest.approx(2 * 4e-3)  # four ranks on two cores


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
