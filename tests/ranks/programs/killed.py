"""A training or an embedding that tells when it is past its start, and takes its time, so that it can be killed.

killed.py train FOLDER STEPS PAUSE
killed.py embed FOLDER OUTPUT PAUSE

FOLDER/begun gets a file for each rank, named by its number, with the number of its process.
"""

import os
import sys
import time
from pathlib import Path

import train

import qkv
from qkv import cli
from qkv.models.sentences import embed

LINES = 7  # of a part


def begun(folder):
    path = folder / "begun" / str(qkv.distributed.rank())
    if not path.exists():
        path.with_suffix(".new").write_text(str(os.getpid()), encoding="utf8")
        path.with_suffix(".new").replace(path)


def run_training(folder, steps, pause):
    path = folder / "run.npz" if pause else None
    trainer, batches = train.build(checkpoint=path, accumulate=1, comm=train.communicator())
    trainer.checkpoint_every = 3
    loss = trainer.loss

    def slowly(model, batch):
        begun(folder)
        time.sleep(pause)
        return loss(model, batch)

    if pause:
        trainer.loss = slowly
    history = trainer.fit(batches, steps=steps, resume=True, progress=False)
    if qkv.distributed.is_main():
        train.save(folder / ("result.npz" if pause else "alone.npz"), trainer, history)


def run_embedding(folder, output, pause):
    embed.CHUNK = LINES
    encode = embed.SentenceEncoder.encode

    def slowly(self, *arguments):
        begun(folder)
        time.sleep(pause)
        return encode(self, *arguments)

    if pause:
        embed.SentenceEncoder.encode = slowly
    arguments = ["embed", "--model", folder / "model", folder / "texts.txt", "--output", output, "--resume"]
    sys.exit(cli.main([*map(str, arguments), "--batch-size", "5"]))


if __name__ == "__main__":
    kind, folder, what, pause = sys.argv[1:]
    if kind == "train":
        run_training(Path(folder), int(what), float(pause))
    else:
        run_embedding(Path(folder), Path(what), float(pause))
