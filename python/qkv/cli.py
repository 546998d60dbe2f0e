"""The command line; each command imports what it needs when it is called."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import __version__


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
    except BrokenPipeError:
        # The reader has left. Python flushes once more when it ends: what is buffered goes nowhere then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _open_closed_streams() -> None:
    """Give the numbers of closed standard streams to nothing, so that no file that is opened gets one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # print would write to the standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


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

    look = commands.add_parser(
        "look",
        help="write a page of what a model's heads attend to",
        description="Writes a page, one file without a network, of the attention of all heads in a text, with a table "
        "of measures that can be sorted, and prints its name.",
        epilog="exit status: 0 written, 2 nothing was written",
    )
    look.add_argument(
        "what",
        metavar="TEXT",
        help="text for the model; without --model a .npz file with weights (layers, H, L, L) and tokens",
    )
    look.add_argument("--model", metavar="PATH", help="folder with the model and its tokenizer")
    look.set_defaults(run=_look)

    _add_plan(commands)

    info = commands.add_parser("info", help="show instruction set, BLAS, threads and versions")
    info.set_defaults(run=_info)
    return parser


# The options of the jobs that `qkv plan` predicts, by the names of their fields.
PLANNED = {
    "train": ("width", "heads", "layers", "vocabulary", "batch", "length"),
    "attention": ("length", "heads", "features", "batch"),
    "embed": ("lines", "length", "width", "heads", "layers", "inner", "vocabulary", "batch"),
}


def _add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    plan = commands.add_parser(
        "plan",
        help="predict time and memory of a job on many ranks",
        description="Predicts what a job takes on any number of ranks, from rates that were measured on one machine, "
        "and says where it stops scaling and why.",
    )
    kinds = plan.add_subparsers(title="jobs", metavar="JOB", required=True)
    measure = kinds.add_parser(
        "measure",
        help="measure the rates of this machine, in about a minute",
        description="Measures the rates of this machine; under mpiexec on several machines, the network between them.",
    )
    measure.add_argument(
        "output",
        metavar="FILE",
        help="JSON file to write; under mpiexec one of rates, to which the network is added",
    )
    measure.add_argument(
        "--at-once",
        type=_numbers,
        metavar="N,...",
        help="processes that work at once (default: one, one per core, twice as many)",
    )
    measure.add_argument("--threads", type=int, default=1, metavar="N", help="of each process (default: 1)")
    measure.add_argument("--quick", action="store_true", help="take a tenth of the time, with more noise")
    measure.set_defaults(run=_measure)
    helps = {
        "train": "training a causal language model, Trainer(comm=)",
        "attention": "attention to a split sequence, distributed.attention",
        "embed": "embedding a corpus, qkv embed",
    }
    for name, fields in PLANNED.items():
        job = kinds.add_parser(name, help=helps[name], description=f"Predicts {helps[name]}.")
        for field in fields:
            job.add_argument(f"--{field}", type=int, metavar="N")
        if name == "attention":
            job.add_argument("--bidirectional", action="store_true", help="no causal mask")
        job.add_argument(
            "--ranks",
            type=_numbers,
            default=[2**i for i in range(11)],
            metavar="N,...",
            help="default: 1,2,4, ... 1024",
        )
        job.add_argument(
            "--network",
            action="append",
            metavar="NET",
            help="here (one machine), ethernet-1, ethernet-10, ethernet-25, infiniband-hdr, '25 Gbit/s, 10 us', or "
            "measured; may be given several times (default: measured, or else ethernet-25)",
        )
        job.add_argument(
            "--per-machine", type=int, metavar="N", help="ranks of a machine (default: one per core)"
        )
        job.add_argument(
            "--rates", metavar="FILE", help="of `qkv plan measure` (default: those in the documentation)"
        )
        job.add_argument("--plot", metavar="FILE", help="draw the curves, as .png, .svg or .pdf")
        job.set_defaults(run=_plan, job=name)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between; got {text!r}") from None


def _measure(options: argparse.Namespace) -> int:
    from .distributed import is_main, plan, size

    effort: dict[str, Any] = {"seconds": 0.005, "repeats": 2} if options.quick else {}
    try:
        if size() > 1:
            return _measure_network(options.output, effort, main=is_main())
        rates = plan.measure(options.at_once, threads=options.threads, **effort)
        rates.save(options.output)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
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
    try:
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
    except BrokenPipeError:
        raise
    except (OSError, ValueError, TypeError, ImportError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    from .reproduce import run, terminal
    from .reproduce.registry import UsageError

    try:
        if options.list:
            print(run.listing(options.ids), flush=True)
            return 0
        report = run.reproduce(options.ids, options.output, full=options.full, timeout=options.timeout)
    except BrokenPipeError:
        raise
    except (UsageError, OSError, ImportError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
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
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        settle()  # an error that leaves this place is that of all ranks
        if told_rank() == 0:
            print(f"qkv: {error}", file=sys.stderr)
        return 2
    return 0


def _look(options: argparse.Namespace) -> int:
    from .look.page import look_at_model, look_at_weights

    try:
        path = (
            look_at_weights(options.what)
            if options.model is None
            else look_at_model(options.model, options.what)
        )
    except (OSError, ValueError, TypeError, ImportError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
    print(path)
    return 0


def _info(options: argparse.Namespace) -> int:
    from .config import show_config

    show_config()
    return 0
