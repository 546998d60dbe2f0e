"""Pages of attention beside BertViz and CircuitsVis: time, size, memory, and what they ask of a network.

    python benchmarks/views.py                       # 12 layers of 12 heads over 512 tokens
    python benchmarks/views.py --lengths 64 128 --memory 8 --open

Each page is made in a process of its own, which may take --memory GB; libraries that are not installed are left out.
With --open Chromium opens it, without a network, and the seconds are told until it shows
tokens and answers, of at most 60.
"""

from __future__ import annotations

import argparse
import json
import re
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

Maker = Callable[[np.ndarray, list[str]], str]


def weights_of(layers: int, heads: int, length: int) -> np.ndarray:
    """Return softmax weights of random scores, as float32 (layers, H, L, L)."""
    scores = 3 * np.random.default_rng(0).standard_normal((layers, heads, length, length), dtype=np.float32)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def qkv_heads(weights: np.ndarray, tokens: list[str]) -> str:
    """Make lines of all heads."""
    from qkv import plot

    return plot.head_view(list(weights), tokens)._repr_html_()


def qkv_layers(weights: np.ndarray, tokens: list[str]) -> str:
    """Make all heads at a glance, one enlarged."""
    from qkv import plot

    return plot.layer_view(weights, tokens)._repr_html_()


def bertviz_heads(weights: np.ndarray, tokens: list[str]) -> str:
    """Make BertViz's lines of all heads."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    from bertviz import head_view  # type: ignore[import-not-found,unused-ignore]

    return str(
        head_view([torch.from_numpy(layer[None]) for layer in weights], tokens, html_action="return").data
    )


def bertviz_layers(weights: np.ndarray, tokens: list[str]) -> str:
    """Make BertViz's lines of all heads at a glance."""
    import torch
    from bertviz import model_view  # type: ignore[import-not-found,unused-ignore]

    return str(
        model_view([torch.from_numpy(layer[None]) for layer in weights], tokens, html_action="return").data
    )


def circuitsvis_heads(weights: np.ndarray, tokens: list[str]) -> str:
    """Make CircuitsVis's heads at a glance, one enlarged; all layers as one list of heads."""
    from circuitsvis.attention import attention_heads  # type: ignore[import-not-found,unused-ignore]

    heads = weights.reshape(-1, *weights.shape[2:])
    return str(attention_heads(heads, tokens).local_src)


MAKERS: dict[str, tuple[str, Maker]] = {
    "qkv head_view": ("qkv", qkv_heads),
    "qkv layer_view": ("qkv", qkv_layers),
    "BertViz head_view": ("bertviz", bertviz_heads),
    "BertViz model_view": ("bertviz", bertviz_layers),
    "CircuitsVis attention_heads": ("circuitsvis", circuitsvis_heads),
}


def measure(name: str, layers: int, heads: int, length: int, *, open_: bool) -> dict[str, Any]:
    """Make one page in this process."""
    weights, tokens = weights_of(layers, heads, length), [f"token{i}" for i in range(length)]
    MAKERS[name][1](weights[:1, :1, :4, :4], tokens[:4])  # imports
    start = time.perf_counter(), time.process_time()
    page = MAKERS[name][1](weights, tokens)
    seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    asked = {
        host for host in re.findall(r"""(?:src=["']|import\(?["'])(https?://[^"'/]+)""", page[:2_000_000])
    }
    return {
        "seconds": seconds,
        "cpu": cpu,
        "megabytes": len(page.encode()) / 1e6,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "asks": sorted(asked),
        "opened": opening(page) if open_ else None,
    }


def opening(page: str) -> str:
    """Open a page in Chromium and tell how long it takes to show a token and to answer."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import browser

    browser.TIMEOUT = 60.0
    drawn = "document.body.innerText.includes('token1') || document.querySelector('canvas') !== null"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.html").write_text(
            f"<!DOCTYPE html><meta charset=utf-8><body>{page}", encoding="utf-8"
        )
        with browser.served(folder) as address, browser.opened(folder / "profile") as tab:
            start = time.perf_counter()
            try:
                tab.open(f"{address}/page.html")
                tab.wait(lambda: tab.run(drawn))
                for _ in range(2):  # its script may continue
                    tab.run("new Promise(done => setTimeout(() => requestAnimationFrame(done), 500))")
            except Exception as error:  # anything that ends a tab
                return f"no ({type(error).__name__})"
            return f"{time.perf_counter() - start - 1:.1f} s"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--lengths", type=int, nargs="*", default=[512])
    parser.add_argument("--memory", type=float, default=12.0, metavar="GB")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--open", action="store_true", help="open each page in Chromium")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        if not options.open:  # a browser reserves more than it takes
            limit = int(options.memory * 1e9)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        name, length = options.one[0], int(options.one[1])
        print(json.dumps(measure(name, options.layers, options.heads, length, open_=options.open)))
        return
    print(
        "| page | tokens | s | CPU s | MB | peak memory, MB | asks a network | opens in |\n"
        + "| --- " * 8
        + "|"
    )
    for length in options.lengths:
        for name, (library, _) in MAKERS.items():
            if find_spec(library) is None:
                continue
            also = ["--open"] if options.open else []
            sizes = [
                "--layers",
                str(options.layers),
                "--heads",
                str(options.heads),
                "--memory",
                str(options.memory),
            ]
            command = [sys.executable, __file__, *sizes, *also, "--one", name, str(length)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
            except subprocess.TimeoutExpired:
                print(f"| {name} | {length} | over {options.timeout:.0f} | | | | | |", flush=True)
                continue
            if done.returncode:
                last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
                print(f"| {name} | {length} | {last[:60]} | | | | | |", flush=True)
                continue
            got = json.loads(done.stdout.splitlines()[-1])
            print(
                f"| {name} | {length} | {got['seconds']:.1f} | {got['cpu']:.1f} | {got['megabytes']:.1f} | "
                f"{got['memory']:.0f} | {', '.join(got['asks']) or 'no'} | {got['opened'] or ''} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
