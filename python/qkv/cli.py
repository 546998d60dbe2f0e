"""The command line; each command imports what it needs when it is called."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import __version__

# What a command says in one line; anything else is a fault of qkv's own.
FAILURES = (OSError, ValueError, TypeError, RuntimeError, ImportError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 success, 1 a check failed, 2 nothing could be run."""
    _open_closed_streams()
    if (sys.argv[1:] if arguments is None else arguments)[:1] == ["embed"]:
        from . import distributed as distributed  # a wrong option of one rank ends the job
    options = _parser().parse_args(arguments)
    try:
        status = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        ended = type(stop).__name__ == "Terminated"
        kept = "--resume goes on from here" if getattr(options, "resume", False) else "nothing was written"
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
    """Give the numbers of closed standard streams to nothing, so that no file that is opened gets one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # print would write to the standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between; got {text!r}") from None


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
    ("what", "TEXT", TEXT, {}),
    ("--model", "PATH", "folder with the model and its tokenizer", {}),
    ("--target", "TEXT", "text that a decoder behind an encoder reads (default: what the model writes)", {}),
]
AT_ONCE = "processes that work at once (default: one, one per core, twice as many)"
MEASURE: list[Argument] = [
    ("output", "FILE", "JSON file to write; under mpiexec one of rates, to which the network is added", {}),
    ("--at-once", "N,...", AT_ONCE, {"type": _numbers}),
    ("--threads", "N", "of each process (default: 1)", {"type": int, "default": 1}),
    ("--quick", "", "take a tenth of the time, with more noise", {}),
]
NETWORKS = (
    "here (one machine), ethernet-1, ethernet-10, ethernet-25, infiniband-hdr, '25 Gbit/s, 10 us', or measured; may be "
    "given several times (default: measured, or else ethernet-25)"
)
RANKS = {"type": _numbers, "default": [2**i for i in range(11)]}
JOB: list[Argument] = [
    ("--ranks", "N,...", "default: 1,2,4, ... 1024", RANKS),
    ("--network", "NET", NETWORKS, {"action": "append"}),
    ("--per-machine", "N", "ranks of a machine (default: one per core)", {"type": int}),
    ("--rates", "FILE", "of `qkv plan measure` (default: those in the documentation)", {}),
    ("--plot", "FILE", "draw the curves, as .png, .svg or .pdf", {}),
]
# The jobs that `qkv plan` predicts: what they are, and options by the names of their fields.
JOBS = {
    "train": "training a causal language model, Trainer(comm=)",
    "attention": "attention to a split sequence, distributed.attention",
    "embed": "embedding a corpus, qkv embed",
}
PLANNED = {
    "train": ("width", "heads", "layers", "vocabulary", "batch", "length"),
    "attention": ("length", "heads", "features", "batch"),
    "embed": ("lines", "length", "width", "heads", "layers", "inner", "vocabulary", "batch"),
}


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
    command.set_defaults(run=run, job=name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qkv", description="Attention on the CPU: layers, pictures, real models."
    )
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
    plan = commands.add_parser(
        "plan",
        help="predict time and memory of a job on many ranks",
        description="Predicts what a job takes on any number of ranks, from rates that were measured on one machine, "
        "and says where it stops scaling and why.",
    )
    kinds = plan.add_subparsers(title="jobs", metavar="JOB", required=True)
    _add(
        *(kinds, "measure", _measure, MEASURE),
        help="measure the rates of this machine, in about a minute",
        description="Measures the rates of this machine; under mpiexec on several machines, the network between them.",
    )
    for name, job in JOBS.items():
        own: list[Argument] = [(f"--{field}", "N", "", {"type": int}) for field in PLANNED[name]]
        if name == "attention":
            own.append(("--bidirectional", "", "no causal mask", {}))
        _add(kinds, name, _plan, own + JOB, help=job, description=f"Predicts {job}.")
    _add(commands, "info", _info, [], help="show instruction set, BLAS, threads and versions")
    return parser


def _measure(options: argparse.Namespace) -> int:
    from .distributed import is_main, plan, size

    effort: dict[str, Any] = {"seconds": 0.005, "repeats": 2} if options.quick else {}
    if size() > 1:
        return _measure_network(options.output, effort, main=is_main())
    rates = plan.measure(options.at_once, threads=options.threads, **effort)
    rates.save(options.output)
    print(f"{options.output}: {rates.machine['cpu']}, {', '.join(map(str, rates.pieces))} processes at once")
    return 0


def _measure_network(path: str, effort: dict[str, Any], *, main: bool) -> int:
    from .distributed import plan

    rates = plan.load_rates(path) if main else None
    found = plan.measure_network(**effort)
    if rates is not None:
        network = {name: value for name, value in found._asdict().items() if name != "name"}
        dataclasses.replace(rates, network=network).save(path)
        print(
            f"{path}: between machines {8 * found.bandwidth / 1e9:.3g} Gbit/s, {found.latency * 1e6:.3g} us, "
            f"{found.hidden:.0%} hidden behind computing"
        )
    return 0


def _plan(options: argparse.Namespace) -> int:
    from .distributed import plan
    from .distributed.plan import report

    given = {name: value for name in PLANNED[options.job] if (value := getattr(options, name)) is not None}
    if getattr(options, "bidirectional", False):
        given["causal"] = False
    job = {"train": plan.Train, "attention": plan.Attention, "embed": plan.Embed}[options.job](**given)
    rates = plan.load_rates(options.rates)
    usual = "ethernet-25" if rates.network is None else "measured"
    networks, each = options.network or [usual], options.per_machine
    curves = {}
    for name in networks:
        one = job.step(1, rates, name, each)
        curves[name] = job.curve(options.ranks, rates, name, each)
        if len(curves) > 1:
            print()
        print(report.heading(job, rates, name, each), report.table(curves[name], one), sep="\n")
        print(report.verdict(job, rates, name, each))
    if options.plot:
        report.draw(options.plot, f"{job.name}: {job.step_is}", curves)
    return 0


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
    except FAILURES:
        settle()  # an error that leaves this place is that of all ranks
        if told_rank() == 0:
            raise
        return 2
    return 0


def _look(options: argparse.Namespace) -> int:
    from .look.page import look_at_model, look_at_weights

    if options.model is not None:
        path = look_at_model(options.model, options.what, options.target)
    elif options.target is not None:
        raise ValueError("look: --target must be given with --model alone; got it with weights")
    else:
        path = look_at_weights(options.what)
    print(path)
    return 0


def _info(options: argparse.Namespace) -> int:
    from .config import show_config

    show_config()
    return 0
