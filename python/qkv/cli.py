"""The command line; each command imports what it needs when it is called."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import __version__
from ._words.errors import closest

# What a command says in one line; anything else is a fault of qkv's own.
FAILURES = (OSError, ValueError, TypeError, RuntimeError, ImportError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 success, 1 a check failed, 2 nothing could be run."""
    _open_closed_streams()
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.command.refuse(unknown)
    try:
        status = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        ended = type(stop).__name__ == "Terminated"
        kept = "--resume goes on from here" if getattr(options, "resume", False) else "nothing was written"
        kept = str(stop) or kept
        print(f"qkv: {'terminated' if ended else 'interrupted'}; {kept}", file=sys.stderr)
        return 143 if ended else 130
    except BrokenPipeError:  # the reader has left
        _drop_output()
        return 1
    except FAILURES as error:
        print(f"qkv: {str(error) or type(error).__name__}", file=sys.stderr)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:  # the disk is full
            _drop_output()
        return 2


def _drop_output() -> None:
    """Let what is buffered go nowhere: Python flushes once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Bind the numbers of closed standard streams to the null device, so that no opened file gets one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # print would write to the standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


# Arguments of commands: name, what stands for the value (nothing for a flag), meaning, and what else argparse is told.
Argument = tuple[str, str | None, str, dict[str, Any]]
REPRODUCE: list[Argument] = [
    ("ids", "ID", "experiment (D0-18), document (D1) or pattern ('D3-0*'); default: all", {"nargs": "*"}),
    ("--output", "DIR", "folder for the results (default: ./reproduced)", {"default": "reproduced"}),
    ("--full", "", "also repeat the trainings of minutes whose results are stored", {}),
    (
        "--timeout",
        "SECONDS",
        "end a cell that takes longer (default: 900; six hours with --full)",
        {"type": float},
    ),
    ("--verbose", "", "print a line for each check, not only for those that failed", {}),
    ("--list", "", "list the experiments and run nothing", {}),
]
FORMATS = {"choices": ("npy", "jsonl")}
EMBED: list[Argument] = [
    ("file", "FILE", "text, one per line (default: stdin)", {"nargs": "?", "default": "-"}),
    ("--model", "FOLDER", "folder with the model and its tokenizer", {"required": True}),
    ("--output", "PATH", "file to write (default: stdout, as JSON lines)", {"default": "-"}),
    ("--format", None, "array of float32, or lines of JSON (default: by the output's ending)", FORMATS),
    ("--batch-size", "N", "texts computed together (default: 32)", {"type": int, "default": 32}),
    ("--resume", "", "keep what is done, and go on where a job that was ended stopped", {}),
]
TEXT = "text for the model; without --model a .npz file with weights (layers, H, L, L) and tokens"
LOOK: list[Argument] = [
    ("what", "TEXT", TEXT, {"nargs": "?"}),
    ("--model", "PATH", "folder with the model and its tokenizer, or a .gguf file", {}),
    ("--prompt", "TEXT", "text that the model goes on with, or that its encoder reads", {}),
    ("--write", "N", "how many tokens are written at most, with --prompt", {"type": int}),
    ("--target", "TEXT", "text that a decoder after an encoder reads (default: what the model writes)", {}),
    ("--output", "FILE", "page to write; no other file is replaced (default: named after the model)", {}),
]
PLACES = [("--layer", 0), ("--head", 0), ("--token", -1)]
EXPLAIN: list[Argument] = [
    ("text", "TEXT", "text for the model", {}),
    ("--model", "PATH", "folder with the model and its tokenizer, or a .gguf file", {"required": True}),
    *(
        (
            name,
            "N",
            f"which is shown first, negative from the end (default: {first})",
            {"type": int, "default": first},
        )
        for name, first in PLACES
    ),
    ("--side", None, "of a model that has both (default: encoder)", {"choices": ("encoder", "decoder")}),
    *LOOK[2:],
]


class _Parser(argparse.ArgumentParser):
    """Says what was meant."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        super().error(message + (_meant(found[1], re.findall(r"[\w-]+", found[2])) if found else ""))

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Say that a command does not have these arguments, below its own usage."""
        known = [name for action in self._actions for name in action.option_strings]
        self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(unknown[0], known)}")


def _meant(name: str, names: list[str]) -> str:
    meant = closest(name, names)
    return "" if meant is None else f"; did you mean {meant}?"


def _add(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    arguments: list[Argument],
    **texts: str,
) -> None:
    command = commands.add_parser(name, **texts)
    for argument, value, meaning, more in arguments:
        kind: dict[str, Any] = {"action": "store_true"} if value == "" else {"metavar": value}
        command.add_argument(argument, help=meaning, **kind, **more)
    command.set_defaults(run=run, command=command)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qkv", description="Attention on the CPU: layers, pictures, real models.")
    parser.add_argument("--version", action="version", version=f"qkv {__version__}", help="show the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(
        *(commands, "reproduce", _reproduce, REPRODUCE),
        help="run the notebooks, check every number and picture of the documents",
        description="Runs the notebooks in Jupyter kernels, one per core, checks their results and writes a site: an "
        "index, a page for each notebook, the notebooks, figures and results.json. With IDs only the notebooks of "
        "these run, and their results are added to those that are there.",
        epilog="exit status: 0 all checks hold, 1 a check failed or a notebook raised, 2 nothing was run",
    )
    _add(
        *(commands, "embed", _embed, EMBED),
        help="write the embeddings of lines of text",
        description="Embeds the lines of a file, of any size, with a sentence-transformers folder of BERT's family.",
        epilog="Under mpiexec -n N the ranks share the lines. Exit status: 0 written, 2 nothing was written; a file is "
        "never half-written.",
    )
    _add(
        *(commands, "look", _look, LOOK),
        help="write a page of what a model's heads attend to",
        description="Writes a page, one file without a network, of the attention of all heads in a text, with a table "
        "of measures that can be sorted, and prints its name.",
        epilog="exit status: 0 written, 2 nothing was written",
    )
    _add(
        *(commands, "explain", _explain, EXPLAIN),
        help="write a page that walks through one pass of a model",
        description="Writes a page, one file without a network, that walks through one pass of a model of text, "
        "each step with its formula, its numbers and a sentence, and prints its name.",
        epilog="exit status: 0 written, 2 nothing was written",
    )
    _add(commands, "info", _info, [], help="show instruction set, BLAS, threads and versions")
    return parser


def _reproduce(options: argparse.Namespace) -> int:
    from .reproduce import run, terminal

    if options.list:
        print(run.listing(options.ids))
        return 0
    report = run.reproduce(options.ids, options.output, full=options.full, timeout=options.timeout)
    page = os.path.join(options.output, "index.html")
    print(terminal.tell(report, page, verbose=options.verbose))
    return 0 if report.ok else 1


def _embed(options: argparse.Namespace) -> int:
    from .distributed.environment import told_rank
    from .distributed.failure import settle
    from .models.sentences.embed import embed_lines

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
    except FAILURES:
        settle()  # an error that leaves this place is that of all ranks
        if told_rank() == 0:
            raise
        return 2
    return 0


def _look(options: argparse.Namespace) -> int:
    from .plot.pages.look import look_at_model, look_at_weights, look_at_writing

    if options.prompt is not None or options.write is not None:
        for name, wanted in (
            ("prompt", True),
            ("write", True),
            ("model", True),
            ("what", False),
            ("target", False),
        ):
            if (getattr(options, name) is not None) != wanted:
                rest = "be given" if wanted else "not be given"
                raise ValueError(
                    f"look: {name} must {rest} because --model PATH --prompt TEXT --write N go together"
                )
        path = look_at_writing(options.model, options.prompt, options.write, options.output)
    elif options.what is None:
        raise ValueError(
            "look: what must be given, a text for the model or an .npz file; got neither that nor --prompt"
        )
    elif options.model is not None:
        path = look_at_model(options.model, options.what, options.target, options.output)
    elif options.target is not None:
        raise ValueError("look: --target must be given with --model alone; got it with weights")
    else:
        path = look_at_weights(options.what, options.output)
    print(path)
    return 0


def _explain(options: argparse.Namespace) -> int:
    from .plot.pages.explain import explain_model

    names = {
        "layer": "layer",
        "head": "head",
        "query": "token",
        "side": "side",
        "target": "target",
        "output": "output",
    }
    print(
        explain_model(
            options.model, options.text, **{name: getattr(options, own) for name, own in names.items()}
        )
    )
    return 0


def _info(options: argparse.Namespace) -> int:
    from .functions.settings import show_config

    show_config()
    return 0
