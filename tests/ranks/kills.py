"""Kills a job on several ranks again and again, and lets it continue on another number of ranks each time.

    cd tests && python -m ranks.kills --kills 30 --seed 1

Each kill comes at a random moment after ranks are past their start. It takes one rank, whose job the launcher
ends, or all processes at once, as the end of a batch job or of the power does. What is there in the end has to be
what one undisturbed process gives: the curve and parameters of a training to rounding, a file of embeddings to the bit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from ranks.mpi import Job, run

RANKS = (1, 2, 3, 4)
PAUSE = 0.03  # seconds that an update or a part takes longer
LATEST = 0.25  # seconds after the last rank is past its start
BEGIN = 120.0  # seconds in which a job has to be past its start


class Killer:
    """Starts a job on changing numbers of ranks, and kills it."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.ranks = 0
        self.kills: list[str] = []

    def start(self, *arguments: object) -> Job:
        self.ranks = self.rng.choice([n for n in RANKS if n != self.ranks])
        begun = self.folder / "begun"
        begun.mkdir(exist_ok=True)
        for path in begun.iterdir():
            path.unlink()
        return Job(self.ranks, "killed.py", *arguments, PAUSE)

    def kill(self, job: Job) -> None:
        """Wait until the job is past its start, kill it, and read what it says."""
        begun, end = self.folder / "begun", time.monotonic() + BEGIN
        # A rank without a share of what is left does not begin.
        while not (found := [path for path in begun.iterdir() if not path.suffix]):
            if job.process.poll() is not None or time.monotonic() > end:
                _, output, errors = job.wait()
                raise AssertionError(
                    f"the job ended before its kill number {len(self.kills) + 1}\n{output}\n{errors}"
                )
            time.sleep(0.002)
        time.sleep(self.rng.uniform(0, LATEST))
        if job.process.poll() is not None:
            raise AssertionError(f"the job was done before its kill number {len(self.kills) + 1}")
        found = [path for path in begun.iterdir() if not path.suffix]
        rank = self.rng.choice(found)
        alone = self.ranks > 1 and self.rng.random() < 0.7
        if not alone:
            os.killpg(job.process.pid, signal.SIGKILL)
            for path in found:  # MPICH starts ranks in groups of their own
                kill(int(path.read_text(encoding="utf8")))
        else:
            kill(int(rank.read_text(encoding="utf8")))
        status, output, errors = job.wait(30)
        assert status != 0, f"{output}\n{errors}"
        self.kills.append(f"rank {rank.name} of {self.ranks}" if alone else f"all {self.ranks}")


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def training(folder: Path, kills: int, seed: int) -> list[str]:
    """Kill a training; its curve and parameters must be those of an undisturbed one."""
    killer, steps = Killer(folder, random.Random(seed)), 12 * kills + 20
    run(0, "killed.py", "train", folder, steps, 0)
    for _ in range(kills):
        killer.kill(killer.start("train", folder, steps))
    status, output, errors = killer.start("train", folder, steps).wait()
    assert status == 0, f"{output}\n{errors}"
    with np.load(folder / "alone.npz") as wanted, np.load(folder / "result.npz") as found:
        assert len(found["loss"]) == steps
        assert set(found) == set(wanted)
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-7, atol=1e-9, err_msg=name)
    return killer.kills


def embedding(folder: Path, kills: int, seed: int, ending: str = "npy") -> list[str]:
    """Kill an embedding; its file must be that of an undisturbed one to the bit."""
    from models.folders import TEXTS, make_folder

    killer = Killer(folder, random.Random(seed))
    (folder / "model").mkdir()
    make_folder(folder / "model")
    lines = 7 * (20 * kills + 30)
    texts = random.Random(0)
    (folder / "texts.txt").write_text(
        "\n".join(" ".join(texts.choices(TEXTS, k=texts.randrange(4))) for _ in range(lines)), encoding="utf8"
    )
    alone, output = folder / f"alone.{ending}", folder / f"vectors.{ending}"
    run(0, "killed.py", "embed", folder, alone, 0)
    for _ in range(kills):
        killer.kill(killer.start("embed", folder, output))
        assert not output.exists()
    status, said, errors = killer.start("embed", folder, output).wait()
    assert status == 0, f"{said}\n{errors}"
    assert output.read_bytes() == alone.read_bytes()
    return killer.kills


JOBS = {
    "training": training,
    "embed npy": embedding,
    "embed jsonl": lambda folder, kills, seed: embedding(folder, kills, seed, "jsonl"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="of each job (default: 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default=",".join(JOBS))
    options = parser.parse_args()
    for name in options.jobs.split(","):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            kills = JOBS[name](Path(folder), options.kills, options.seed)
        single = sum(not kill.startswith("all") for kill in kills)
        print(
            f"{name}: {len(kills)} kills ({single} of one rank, {len(kills) - single} of all processes), result as "
            f"undisturbed; {time.monotonic() - begin:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
