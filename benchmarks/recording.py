"""Memory that recording the weights of a model takes, beside TransformerLens and transformers.

    python benchmarks/recording.py                              # 12 layers of 12 heads, 512 to 8192 tokens
    python benchmarks/recording.py --lengths 512 1024 --memory 8

A GPT-2 of random weights is called once on one text. Each tool runs in a process of its own, which may take --memory
GB; libraries that are not installed are left out. What libraries and model take before the call is told beside the
peak. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, HEADS, WIDTH, VOCABULARY = 12, 12, 768, 1000
Record = Callable[[], Any]


def make(folder: Path, length: int) -> None:
    """Write a GPT-2 of random weights that reads so many tokens."""
    import qkv

    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": VOCABULARY}
    entries = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": length, **sizes}
    qkv.models.from_config(entries).save_pretrained(folder)


def qkv_weights(folder: Path, ids: np.ndarray) -> Record:
    """Record all weights, and read one matrix of them and all measures."""
    import qkv

    model = qkv.models.from_pretrained(folder)

    def call() -> Any:
        with qkv.no_grad():
            recording = qkv.look.record(model, ids)
        path = recording.names()[0].rpartition(".")[0]
        return recording.image(path, size=(512, 512)), qkv.look.measures(recording)

    return call


def qkv_page(folder: Path, ids: np.ndarray) -> Record:
    """Make the page of all heads at a glance."""
    import qkv

    model = qkv.models.from_pretrained(folder)

    def call() -> Any:
        with qkv.no_grad():
            recording = qkv.look.record(model, ids)
        return qkv.plot.layer_view(recording)._repr_html_()

    return call


def qkv_everything(folder: Path, ids: np.ndarray) -> Record:
    """Record every value of every module."""
    import qkv

    model = qkv.models.from_pretrained(folder)

    def call() -> Any:
        with qkv.no_grad():
            return qkv.look.record(model, ids, keep="*")

    return call


def lens(folder: Path, ids: np.ndarray, **options: Any) -> Record:
    """Return TransformerLens's record of a call."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    from transformer_lens.model_bridge import (  # type: ignore[import-not-found,unused-ignore]
        TransformerBridge,
    )

    torch.set_grad_enabled(False)
    model = TransformerBridge.boot_transformers(str(folder), hf_model=theirs(folder), device="cpu")
    return lambda: model.run_with_cache(torch.from_numpy(ids), **options)


def lens_weights(folder: Path, ids: np.ndarray) -> Record:
    """Record all weights with TransformerLens."""
    return lens(folder, ids, names_filter=lambda name: name.endswith("hook_pattern"))


def transformers_weights(folder: Path, ids: np.ndarray) -> Record:
    """Return transformers' attentions, which BertViz and CircuitsVis show."""
    import torch

    torch.set_grad_enabled(False)
    model = theirs(folder)
    return lambda: model(torch.from_numpy(ids), output_attentions=True)


def theirs(folder: Path) -> Any:
    """Load the model with transformers."""
    import transformers  # type: ignore[import-not-found,unused-ignore]

    return transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()


RECORDS: dict[str, tuple[str, Callable[[Path, np.ndarray], Record]]] = {
    "qkv, weights": ("qkv", qkv_weights),
    "qkv, page": ("qkv", qkv_page),
    "qkv, everything": ("qkv", qkv_everything),
    "TransformerLens, weights": ("transformer_lens", lens_weights),
    "TransformerLens, everything": ("transformer_lens", lens),
    "transformers, attentions": ("transformers", transformers_weights),
}


def peak() -> float:
    """Return the most memory that this program has held since :func:`forget`, in MB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def forget() -> None:
    """Let the peak begin at what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def measure(name: str, folder: Path, length: int) -> dict[str, float]:
    """Record once in this process."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (1, length))
    call = RECORDS[name][1](folder, ids)
    forget()
    before, start = peak(), time.process_time()
    kept = call()
    found = {"before": before, "peak": peak(), "cpu": time.process_time() - start}
    del kept
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--memory", type=float, default=12.0, metavar="GB")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=list(RECORDS), choices=list(RECORDS), metavar="NAME")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "FOLDER", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        limit = int(options.memory * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        name, folder, length = options.one
        print(json.dumps(measure(name, Path(folder), int(length))))
        return
    print("| recorded | tokens | before, MB | peak, MB | CPU s |\n" + "| --- " * 5 + "|")
    with tempfile.TemporaryDirectory() as name:
        for length in options.lengths:
            folder = Path(name) / str(length)
            make(folder, length)
            for tool in options.only:
                if find_spec(RECORDS[tool][0]) is not None:
                    print(f"| {tool} | {length} | {_row(tool, folder, length, options)} |", flush=True)


def _row(tool: str, folder: Path, length: int, options: argparse.Namespace) -> str:
    command = [
        sys.executable,
        __file__,
        "--memory",
        str(options.memory),
        "--one",
        tool,
        str(folder),
        str(length),
    ]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, env=offline)
    except subprocess.TimeoutExpired:
        return f"over {options.timeout:.0f} s | |"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return f"{last[:70]} | |"
    got = json.loads(done.stdout.splitlines()[-1])
    return f"{got['before']:.0f} | {got['peak']:.0f} | {got['cpu']:.1f}"


if __name__ == "__main__":
    main()
