"""Builds the documentation site: ``python docs/build.py [--output build/docs]``.

It gathers the pages of this folder, the notebooks as they were executed, the tables of the benchmarks, the changelog
and pages for everything that qkv's modules list in ``__all__``, runs Sphinx, which treats warnings as errors, and
checks all links. It needs ``pip install ".[docs]"`` and no network, and neither do the pages.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from builder import links
from builder.pages import ROOT, gather


def build(output: Path, jobs: int) -> int:
    """Build the site into a folder and check its links; gives the exit status."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory(prefix="qkv-docs-") as made:
        pages = Path(made) / "pages"
        pages.mkdir()
        gather(pages)
        command = ["-b", "html", "-W", "--keep-going", "-q", "-E", "-j", str(jobs), "-d", f"{made}/doctrees"]
        status = build_main([*command, str(pages), str(output)])
    shutil.rmtree(output / ".doctrees", ignore_errors=True)
    if status == 0:
        problems = links.problems(output)
        print(*problems, sep="\n", end="\n" if problems else "")
        status = 1 if problems else 0
    return status


def main() -> int:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "docs", help="folder (default: build/docs)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of Sphinx")
    options = parser.parse_args()
    start = time.monotonic()
    status = build(options.output.absolute(), options.jobs)
    if status == 0:
        print(f"{options.output / 'index.html'}: {time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
