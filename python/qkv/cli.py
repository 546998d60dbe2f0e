"""The command line; each command imports what it needs when it is called."""

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 success, 1 a check failed, 2 nothing could be run."""
    options = _parser().parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        ended = type(stop).__name__ == "Terminated"
        kept = "--resume goes on from here" if getattr(options, "resume", False) else "nothing was written"
        print(f"qkv: {'terminated' if ended else 'interrupted'}; {kept}", file=sys.stderr)
        return 143 if ended else 130
    except BrokenPipeError:
        # The reader has left. Python flushes once more when it ends: what is buffered goes nowhere then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qkv", description="Attention on the CPU: layers, pictures, real models."
    )
    parser.add_argument("--version", action="version", version=f"qkv {__version__}", help="show the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    reproduce = commands.add_parser(
        "reproduce",
        help="run the notebooks, check every number and picture of the documents",
        description="Runs the notebooks in Jupyter kernels, one per core, checks their results and writes a site: an "
        "index, a page for each notebook, the notebooks, figures and results.json. With IDs only the notebooks of "
        "these run, and their results are added to those that are there.",
        epilog="exit status: 0 all checks hold, 1 a check failed or a notebook raised, 2 nothing was run",
    )
    reproduce.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="experiment (D0-18), document (D1) or pattern ('D3-0*'); default: all",
    )
    reproduce.add_argument(
        "--output", default="reproduced", metavar="DIR", help="folder for the results (default: ./reproduced)"
    )
    reproduce.add_argument(
        "--full", action="store_true", help="also repeat the trainings of minutes whose results are stored"
    )
    reproduce.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="end a cell that takes longer (default: 900; six hours with --full)",
    )
    reproduce.add_argument(
        "--verbose", action="store_true", help="print a line for each check, not only for those that failed"
    )
    reproduce.add_argument("--list", action="store_true", help="list the experiments and run nothing")
    reproduce.set_defaults(run=_reproduce)

    embed = commands.add_parser(
        "embed",
        help="write the embeddings of lines of text",
        description="Embeds the lines of a file, of any size, with a sentence-transformers folder of BERT's family.",
        epilog="Under mpiexec -n N the ranks share the lines. Exit status: 0 written, 2 nothing was written; a file is "
        "never half-written.",
    )
    embed.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="text, one per line (default: stdin)"
    )
    embed.add_argument(
        "--model", required=True, metavar="FOLDER", help="folder with the model and its tokenizer"
    )
    embed.add_argument(
        "--output", default="-", metavar="PATH", help="file to write (default: stdout, as JSON lines)"
    )
    embed.add_argument(
        "--format",
        choices=("npy", "jsonl"),
        help="array of float32, or lines of JSON (default: by the output's ending)",
    )
    embed.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="texts computed together (default: 32)"
    )
    embed.add_argument(
        "--resume",
        action="store_true",
        help="keep what is done, and go on where a job that was ended stopped",
    )
    embed.set_defaults(run=_embed)

    info = commands.add_parser("info", help="show instruction set, BLAS, threads and versions")
    info.set_defaults(run=_info)
    return parser


def _reproduce(options: argparse.Namespace) -> int:
    from .reproduce import run, terminal
    from .reproduce.registry import UsageError

    try:
        if options.list:
            print(run.listing(options.ids))
            return 0
        report = run.reproduce(options.ids, options.output, full=options.full, timeout=options.timeout)
    except (UsageError, OSError, ImportError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
    page = os.path.join(options.output, "index.html")
    print(terminal.tell(report, page, verbose=options.verbose))
    return 0 if report.ok else 1


def _embed(options: argparse.Namespace) -> int:
    from .distributed.environment import told_rank
    from .models.embed import embed_lines

    try:
        embed_lines(
            options.model,
            options.file,
            options.output,
            format=options.format,
            batch_size=options.batch_size,
            resume=options.resume,
        )
    except BrokenPipeError:
        raise
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        if told_rank() == 0:  # all ranks have the same to say
            print(f"qkv: {error}", file=sys.stderr)
        return 2
    return 0


def _info(options: argparse.Namespace) -> int:
    from .config import show_config

    show_config()
    return 0
