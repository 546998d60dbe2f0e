"""Compares what `qkv plan` predicts for 1, 2 and 4 ranks of this machine with what they take.

    python benchmarks/plan.py                      # measures rates, runs the jobs: three minutes
    python benchmarks/plan.py --rates FILE --jobs train,embed --ranks 1,2
    python benchmarks/plan.py --save FILE          # keep the rates

The rates come from pieces of work and messages alone (qkv/distributed/plan/pieces.py, probe.py), never from a job. A
job waits until the machine is idle, and is run again if other programs took more than 2 % of the cores meanwhile. Of
its steps the quickest counts. Memory is the largest that a rank had, beyond what it had when qkv and MPI were imported.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import qkv
from qkv.distributed import plan
from qkv.distributed.plan.report import duration, size
from qkv.distributed.starting import environment, find_mpiexec

JOBS = {
    "train": plan.Train(width=256, heads=4, layers=4, vocabulary=1000, batch=16, length=128),
    "attention": plan.Attention(length=8192, heads=4, features=64),
    **{f"attention-{n}": plan.Attention(length=n, heads=4, features=64) for n in (128, 512, 2048)},
    "embed": plan.Embed(lines=1024, length=32, width=384, heads=12, layers=3, inner=1536, vocabulary=500),
}
STEPS = 12
SHORT = 4096  # positions; shorter sequences take so little that the least of many passes counts
QUIET = 0.02  # of the cores may work for other programs


def resident(entry: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{entry}:"))


def train(job, comm, folder):
    """Give the seconds of the updates."""
    model = qkv.models.CausalLM(job.vocabulary, job.width, job.heads, job.layers)
    rows = np.arange(job.batch * (job.length + 1)).reshape(job.batch, -1) * 7919 % job.vocabulary
    begins = []

    def loss(model, batch):
        begins.append(time.perf_counter())
        return qkv.training.token_loss(model(batch[:, :-1]), batch[:, 1:])

    optimizer = qkv.optim.AdamW(model.parameters())
    trainer = qkv.training.Trainer(model, optimizer, loss, comm=comm)
    trainer.fit([rows], steps=STEPS + 2, progress=False)
    return np.diff(begins)[2:]


def attention(job, comm, folder):
    """Give the seconds of forward and backward passes."""
    mine = len(qkv.distributed.positions(job.length, comm, is_causal=job.causal))
    shape = (job.batch, job.heads, mine, job.features)
    q, k, v = (qkv.tensor(qkv.randn(*shape), requires_grad=True) for _ in range(3))
    slope = qkv.randn(*shape)
    found = []
    for _ in range(5 if job.length > SHORT else 100):
        for x in (q, k, v):
            x.grad = None
        comm.Barrier()
        begin = time.perf_counter()
        qkv.distributed.attention(q, k, v, comm, is_causal=job.causal).backward(slope)
        comm.Barrier()
        found.append(time.perf_counter() - begin)
    return found[1:]


def embed(job, comm, folder):
    qkv.models.embed_lines(
        folder / "model", folder / "texts.txt", folder / "vectors.npy", batch_size=job.batch
    )


def on_ranks(name, job, folder):
    """Run a job on the ranks of this program; rank 0 writes seconds and the largest memory."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    qkv.distributed.rank(), qkv.models, qkv.training, qkv.optim  # imported before memory counts
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")  # the largest memory so far is forgotten
    before = resident("VmRSS")
    run = {"train": train, "attention": attention, "embed": embed}[job.name]
    seconds = run(job, comm, folder)
    memory = comm.allreduce(resident("VmHWM") - before, MPI.MAX)
    if comm.rank == 0:
        found = {"seconds": None if seconds is None else float(min(seconds)), "memory": memory}
        (folder / "found.json").write_text(json.dumps(found), encoding="utf8")


def make_corpus(job, folder):
    """Write a model with random parameters and lines of as many tokens as the job says."""
    model = folder / "model"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{'abcdefghij'[i % 10]}{'abcdefghij'[i // 10 % 10]}"
             f"{'abcdefghij'[i // 100]}" for i in range(job.vocabulary - 5))]  # fmt: skip
    config = qkv.models.BertConfig(
        vocab_size=job.vocabulary,
        hidden_size=job.width,
        num_hidden_layers=job.layers,
        num_attention_heads=job.heads,
        intermediate_size=job.inner,
        max_position_embeddings=512,
    )
    qkv.models.BertModel(config).save_pretrained(model)
    (model / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf8")
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    (model / "modules.json").write_text(json.dumps(entries), encoding="utf8")
    (model / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": job.width, "pooling_mode_mean_tokens": True}
    (model / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf8")
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 512}', encoding="utf8")
    rng = np.random.default_rng(0)
    lines = rng.integers(5, len(words), (job.lines, job.length - 2))
    text = "".join(" ".join(words[i] for i in line) + "\n" for line in lines)
    (folder / "texts.txt").write_text(text, encoding="utf8")


def busy():
    """Give the seconds that all processors together have worked so far."""
    numbers = [int(x) for x in Path("/proc/stat").read_text(encoding="utf8").split("\n")[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def await_quiet(seconds):
    """Wait until nothing else runs, but no longer than this."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = busy()
        time.sleep(0.4)
        if busy() - before < 0.04:
            return


def measured(name, job, ranks, folder, patience):
    """Start a job; give its seconds, the memory of its largest rank, and the part of the cores that others took."""
    command = [find_mpiexec("plan"), "-n", str(ranks), sys.executable, __file__]
    command += ["--run", name, str(folder), json.dumps(dataclasses.asdict(job))]
    await_quiet(patience)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin, before = time.perf_counter(), busy()
    subprocess.run(command, check=True, env=environment(1))
    whole = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    others = max(0.0, busy() - before - own) / (whole * (os.cpu_count() or 1))
    found = json.loads((folder / "found.json").read_text(encoding="utf8"))
    return found["seconds"] or whole, found["memory"], others


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rates", help="a file of `qkv plan measure` in place of measuring")
    parser.add_argument("--save", help="file for the rates")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--tries", type=int, default=3, help="of each job; the quietest counts")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds to wait for an idle machine before each"
    )
    options = parser.parse_args()
    names, counts = options.jobs.split(","), [int(n) for n in options.ranks.split(",")]
    rates = plan.load_rates(options.rates) if options.rates else plan.measure(counts)
    if options.save:
        rates.save(options.save)
    print(
        "| job | ranks | predicted | measured | ratio | memory predicted | measured | ratio | other programs |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        if "embed" in names:
            make_corpus(JOBS["embed"], Path(folder))
        for name in names:
            for ranks in counts:
                found = []
                while len(found) < options.tries and not (found and found[-1][2] < QUIET):
                    found.append(measured(name, JOBS[name], ranks, Path(folder), options.patience))
                seconds, memory, others = min(found, key=lambda run: run[2])
                step = JOBS[name].step(ranks, rates)
                print(
                    f"| {name} | {ranks} | {duration(step.seconds)} | {duration(seconds)} "
                    f"| {step.seconds / seconds:.2f} | {size(step.memory)} | {size(memory)} "
                    f"| {step.memory / memory:.2f} | {100 * others:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        name, folder, fields = sys.argv[2:]
        on_ranks(name, type(JOBS[name])(**json.loads(fields)), Path(folder))
    else:
        main()
