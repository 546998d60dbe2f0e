"""Embeddings of the lines of a text, of any number: the command ``qkv embed``."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import numpy as np

from ..._atomic import write_file
from ..._public import explained
from ..files.folders import checked_folder
from .embed_parts import PIECE, Ends, OneRank, Parts, Reports, fingerprint
from .progress import progress_bar
from .sentence_encoder import SentenceEncoder

FORMATS = ("npy", "jsonl")
CHUNK = 256  # lines that are computed together, the longest first
STANDARD = "-"  # input or output is the standard one
STANDARD_INPUT = (STANDARD, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
STANDARD_OUTPUT = (STANDARD, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


@explained
def embed_lines(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str] = STANDARD,
    output: str | os.PathLike[str] = STANDARD,
    *,
    format: str | None = None,
    batch_size: int = 32,
    show_progress: bool | None = None,
    resume: bool = False,
) -> int:
    """Write the embeddings of the lines of a file, which may be larger than the memory.

    Parameters
    ----------
    model : path
        Folder of a :class:`SentenceEncoder`.
    source, output : path
        Text in UTF-8, one per line, with or without a byte order mark; ``"-"`` is the standard input or output, as
        ``/dev/stdin`` and ``/dev/stdout`` are. A file is written under another name and gets its own when it is whole.
    format : {"npy", "jsonl"}, optional
        An array ``(N, M)`` of float32, or lines ``{"text": ..., "embedding": [...]}``. By default the ending of
        `output` says it, and lines go to the standard output.
    batch_size : int
        Texts computed together.
    show_progress : bool, optional
        Show a bar (needs tqdm); None: on a terminal, if tqdm is there.
    resume : bool
        Keep what is done in a folder ``.NAME.embed`` beside the output, and continue with what is there from a job
        that was ended.

    Returns
    -------
    int
        How many lines there were.

    Raises
    ------
    OSError
        If the folder or a file cannot be read or written.
    ValueError
        If the model or an option does not fit, a line is not UTF-8, a job to be continued was another one, a
        standard stream is closed, `output` is `source`, or `source` changes while it is read.

    Notes
    -----
    Under ``mpiexec -n N`` each rank computes a part of the lines; `source` and `output` must then be files that all
    ranks see. The file is the same to the bit for any number of ranks, whether or not the job was ended and resumed.

    Examples
    --------
    >>> qkv.models.embed_lines("all-MiniLM-L6-v2", "texts.txt", "embeddings.npy")  # doctest: +SKIP
    2
    """
    source = STANDARD if str(source) in STANDARD_INPUT else source
    output = STANDARD if str(output) in STANDARD_OUTPUT else output
    from ...distributed.launch import world

    comm = world()
    several = comm is not None and comm.Get_size() > 1

    def checked() -> dict[str, Any]:
        kind = _format(output, format)
        if not 1 <= batch_size < 2**31:
            raise ValueError(f"embed: batch_size must be at least 1 and below 2 ** 31; got {batch_size}")
        _check_streams(source, output)
        place = Path(output).resolve()
        if Path(model).resolve() in place.parents and place.exists() and place.suffix[1:] not in FORMATS:
            raise ValueError(f"embed: output must not be a file of the model; got {output}")
        if not (several or resume):
            return {"format": kind}
        _check_files(source, output)
        checked_folder("embed", model)
        return _facts(model, Path(source), batch_size, kind)

    if several:
        from ...distributed import communicator, failure

        ranks = communicator.own(comm, "embed")
        with failure.together(ranks, trace=False):
            facts = ranks.on_all(checked)
            others = {"output": os.path.realpath(output), "resume": resume, "CHUNK": CHUNK}
            with open(source, "rb") as file:
                others["the beginning of the input"] = zlib.crc32(file.read(PIECE))
            ranks.agree({**facts, **others})
            return _embed_parts(ranks, model, Path(source), Path(output), facts, show_progress, resume)
    facts = checked()
    kind = facts["format"]
    if resume:
        return _embed_parts(OneRank(), model, Path(source), Path(output), facts, show_progress, resume)
    with ExitStack() as stack:
        lines = sys.stdin.buffer if str(source) == STANDARD else stack.enter_context(open(source, "rb"))
        checked_folder("embed", model)
        if str(output) != STANDARD:
            folder = Path(output).parent
            if not folder.is_dir():
                raise FileNotFoundError(f"embed: the folder of output must exist; got {folder}")
        encoder = SentenceEncoder.from_pretrained(model)
        size = Path(source).stat().st_size if str(source) != STANDARD and Path(source).is_file() else None
        tick, close = progress_bar(size, "B" if size is not None else " texts", show_progress)
        stack.callback(close)

        def blocks() -> Iterator[tuple[list[str], np.ndarray]]:
            before = None if size is None else os.fstat(lines.fileno())
            for texts, read in _chunks(lines, str(source), max(CHUNK, batch_size)):
                yield texts, encoder.encode(texts, batch_size)
                tick(len(texts) if size is None else read)
                if before is not None:  # each time: a file that grows as it is read has no end
                    _check_unchanged(source, before, os.fstat(lines.fileno()))

        if str(output) == STANDARD:
            return _write_lines(sys.stdout.buffer, blocks())
        counted: list[int] = []

        def write(file: BinaryIO) -> None:
            if kind == "npy":
                counted.append(_write_array(file, blocks(), encoder.dimension))
            else:
                counted.append(_write_lines(file, blocks()))

        write_file(output, write)
        return counted[0]


def _check_streams(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Refuse standard streams that are closed, and an output that is the input under any name."""
    found = []
    for name, path, stream in (("source", source, sys.stdin), ("output", output, sys.stdout)):
        if str(path) != STANDARD:
            found.append(os.stat(path) if os.path.exists(path) else None)
        elif stream is None:
            raise ValueError(f"embed: {name} must be a file because the standard one is closed; got {path}")
        else:
            with suppress(AttributeError, OSError, ValueError):  # what is used as a stream may have no number
                found.append(os.fstat(stream.fileno()))
    files = [entry for entry in found if entry is not None and S_ISREG(entry.st_mode)]
    if len(files) == 2 and os.path.samestat(*files):
        raise ValueError(f"embed: output must be another file than source; got {output} for both")


def _check_unchanged(source: str | os.PathLike[str], before: os.stat_result, now: os.stat_result) -> None:
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (now.st_size, now.st_mtime_ns, now.st_ino):
        raise ValueError(
            f"embed: source must stay as it is while it is read because its lines are read one after the other; got "
            f"{source} of {now.st_size} bytes after {before.st_size}, changed at {now.st_mtime_ns}"
        )


def _check_files(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    for name, path in (("source", source), ("output", output)):
        if str(path) == STANDARD or (Path(path).exists() and not Path(path).is_file()):
            raise ValueError(
                f"embed: {name} must be a file because ranks share it and jobs that go on read it again; got {path}"
            )
    if not Path(source).exists():
        raise FileNotFoundError(f"embed: source must exist; got {source}")
    if not Path(output).absolute().parent.is_dir():
        raise FileNotFoundError(f"embed: the folder of output must exist; got {Path(output).parent}")


def _facts(model: str | os.PathLike[str], source: Path, batch_size: int, kind: str) -> dict[str, Any]:
    """Return what must be the same where a job is continued, and on all ranks."""
    state = source.stat()
    return {
        "input": f"{source.name} of {state.st_size} bytes, changed at {state.st_mtime_ns}",
        "model": fingerprint(model),
        "batch_size": batch_size,
        "format": kind,
    }


def _embed_parts(
    comm: Any,
    model: str | os.PathLike[str],
    source: Path,
    output: Path,
    facts: dict[str, Any],
    show_progress: bool | None,
    resume: bool,
) -> int:
    """Let each rank embed its share of the parts that are not done yet."""
    encoder = SentenceEncoder.from_pretrained(model)
    kind, batch_size = facts["format"], facts["batch_size"]
    state, lines = source.stat(), max(CHUNK, batch_size)
    ends = Ends(comm, source, lines)
    with Parts(comm, output, facts, resume).opened() as parts:
        header = io.BytesIO()
        _write_header(header, ends.rows, encoder.dimension)
        row_bytes = 4 * encoder.dimension
        if kind == "npy":
            parts.allocate(header.getvalue(), len(header.getvalue()) + ends.rows * row_bytes)
        done = comm.from_main(parts.done)
        left = [number for number in range(len(ends.starts)) if number not in done]
        begin, end = (len(left) * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        tick, close = progress_bar(state.st_size, "B", show_progress if comm.rank == 0 else False)
        reports = Reports(comm, tick)
        tick(sum(ends.bytes_of(number) for number in done))
        with source.open("rb") as file:
            for number in left[begin:end]:
                file.seek(int(ends.starts[number]))
                data = io.BytesIO(file.read(ends.bytes_of(number)))
                texts = [
                    text for some, _ in _chunks(data, str(source), lines, number * lines) for text in some
                ]
                rows = np.ascontiguousarray(encoder.encode(texts, batch_size), "<f4")
                if kind == "npy":
                    place = len(header.getvalue()) + number * lines * row_bytes
                    parts.keep(number, rows.data.cast("B"), place)
                else:
                    written = io.BytesIO()
                    _write_lines(written, iter([(texts, rows)]))
                    parts.keep(number, written.getbuffer(), None)
                reports.done(ends.bytes_of(number))
        reports.wait(len(left) - (end - begin))
        close()
        parts.finish(kind == "jsonl", lambda: _check_unchanged(source, state, source.stat()))
    return int(ends.rows)


def _format(output: str | os.PathLike[str], format: str | None) -> str:
    if format is not None and format not in FORMATS:
        raise ValueError(f"embed: format must be npy or jsonl; got {format}")
    if str(output) == STANDARD or Path(output).is_fifo():
        if format == "npy":
            raise ValueError(
                "embed: format npy must have an output file because its first bytes hold the number of lines; "
                f"got {output}"
            )
        return "jsonl"
    if Path(output).is_dir():
        raise IsADirectoryError(f"embed: output must be a file; got the folder {output}")
    ending = Path(output).suffix.removeprefix(".")
    if format is None and ending not in FORMATS:
        raise ValueError(f"embed: output must end in .npy or .jsonl, or format be given; got {output}")
    return format or ending


def _chunks(lines: BinaryIO, name: str, size: int, number: int = 0) -> Iterator[tuple[list[str], int]]:
    """Return some lines at a time, and how many bytes they have in the file; `number` lines are before them."""
    following = iter(lines)
    while block := list(itertools.islice(following, size)):
        texts = []
        for line in block:
            number += 1
            try:
                texts.append(line.decode("utf-8-sig" if number == 1 else "utf8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise ValueError(f"{name}: must hold UTF-8; line {number}: {error}") from None
        yield texts, sum(map(len, block))


def _write_header(file: BinaryIO, rows: int, width: int) -> None:
    """Write the first bytes of a NPY file: NumPy leaves room for any number of rows, so it can be written again."""
    entries = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(file, entries)


def _write_array(file: BinaryIO, blocks: Iterator[tuple[list[str], np.ndarray]], width: int) -> int:
    count = 0
    _write_header(file, 0, width)
    for texts, rows in blocks:
        file.write(np.ascontiguousarray(rows, "<f4").data)
        count += len(texts)
    file.seek(0)
    _write_header(file, count, width)
    return count


def _write_lines(file: BinaryIO, blocks: Iterator[tuple[list[str], np.ndarray]]) -> int:
    count = 0
    for texts, rows in blocks:
        for text, row in zip(texts, rows, strict=True):
            numbers = [float(str(x)) for x in row]  # the shortest digits that give the same float32
            file.write(
                json.dumps({"text": text, "embedding": numbers}, ensure_ascii=False).encode("utf8") + b"\n"
            )
        file.flush()
        count += len(texts)
    return count
