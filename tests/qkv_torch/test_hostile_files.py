"""torch.load of files that are made to do harm: each is refused, and the process is as it was before."""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
import struct
import subprocess
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest

import qkv.torch as torch

START, END = b"\x80\x04", b"."


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def data(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def parts(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def sizes(*values: int) -> bytes:
    return parts(*map(number, values))


NONE, TRUE, FALSE, EMPTY = b"N", b"\x88", b"\x89", b")"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + parts(*arguments) + b"R"


def dtype(kind: str) -> bytes:
    return call(name("numpy", "dtype"), text(kind), FALSE, TRUE)


def state(*items: bytes) -> bytes:
    return parts(*items) + b"b"


def plain(kind: str, order: str = "<") -> bytes:
    return dtype(kind) + state(number(3), text(order), NONE, NONE, NONE, number(-1), number(-1), number(0))


# A dtype with an object in it whose flags deny it.
HIDDEN = dtype("V8") + state(
    number(3),
    text("|"),
    NONE,
    parts(text("a")),
    b"}" + text("a") + parts(dtype("O"), number(0)) + b"s",
    number(8),
    number(1),
    number(0),
)
RESTORED, FLOAT = name("qkv.torch._tensor", "restored"), name("qkv.torch._dtypes", "float32")
RECONSTRUCT = name("numpy._core.multiarray", "_reconstruct")
FRESH = call(RECONSTRUCT, name("numpy", "ndarray"), sizes(0), data(b"b"))
FROM_BUFFER = name("numpy._core.numeric", "_frombuffer")


def filled(shape: bytes, kind: bytes, content: bytes, order: bytes = FALSE) -> bytes:
    return FRESH + state(number(1), shape, kind, order, data(content))


def tensor(numbers: bytes, kind: bytes = FLOAT, cls: bytes | None = None, gradient: bytes = FALSE) -> bytes:
    return call(RESTORED, cls or name("qkv.torch", "Tensor"), numbers, kind, gradient)


def array(count: int, kind: str = "f4") -> bytes:
    """Numbers of one axis."""
    return filled(sizes(count), plain(kind), b"A" * count * int(kind[1]))


VIEWED = name("qkv.torch._tensor", "viewed")
SIX = tensor(array(6))


def viewed(
    shape: bytes,
    strides: bytes,
    offset: bytes = number(0),
    memory: bytes = SIX,
    cls: bytes | None = None,
    gradient: bytes = FALSE,
) -> bytes:
    return call(VIEWED, cls or name("qkv.torch", "Tensor"), memory, offset, shape, strides, gradient)


LARGE = b"\x8a\x08" + struct.pack("<q", 2**62)
HOSTILE = {
    "a view that ends after its memory": viewed(sizes(7), sizes(1)),
    "a view with steps beyond its memory": viewed(sizes(2, 3), sizes(4, 1)),
    "a view that begins too late": viewed(sizes(6), sizes(1), number(1)),
    "a view that begins after its memory": viewed(sizes(1), sizes(1), number(6)),
    "a view that begins before its memory": viewed(sizes(1), sizes(1), number(-1)),
    "a view that begins anywhere": viewed(sizes(1), sizes(1), LARGE),
    "a view with steps back": viewed(sizes(6), sizes(-1), number(5)),
    "a view with a step back that goes nowhere": viewed(sizes(1), sizes(-1)),
    "a view that repeats numbers": viewed(sizes(7), sizes(0)),
    "a view of many numbers that are one": viewed(parts(LARGE), sizes(0)),
    "a view of more numbers than can be counted": viewed(parts(LARGE, LARGE, number(4)), sizes(0, 0, 0)),
    "a view whose reach wraps": viewed(sizes(5), parts(LARGE)),
    "a view whose reaches wrap together": viewed(sizes(2, 2, 1), parts(LARGE, LARGE, LARGE)),
    "a view of a size below zero": viewed(sizes(-2), sizes(1)),
    "a view of two sizes below zero": viewed(sizes(-2, -3), sizes(3, 1)),
    "a view without numbers": viewed(sizes(0), sizes(1)),
    "a view with fewer steps than sizes": viewed(sizes(2, 3), sizes(1)),
    "a view with more steps than sizes": viewed(sizes(2), sizes(1, 1)),
    "a view with too many axes": viewed(sizes(*[1] * 80), sizes(*[1] * 80)),
    "a view with sizes of True": viewed(parts(TRUE), sizes(1)),
    "a view with steps of text": viewed(sizes(1), parts(text("1"))),
    "a view with a list of sizes": viewed(b"]", sizes(1)),
    "a view with a size beyond 64 bits": viewed(parts(b"\x8a\x09" + b"\0" * 8 + b"\1"), sizes(1)),
    "a view of an array": viewed(sizes(1), sizes(1), memory=array(6)),
    "a view of a text": viewed(sizes(1), sizes(1), memory=text("AAAA")),
    "a view of a Parameter": viewed(
        sizes(1), sizes(1), memory=tensor(array(6), cls=name("qkv.torch.nn.parameter", "Parameter"))
    ),
    "a view of a Tensor that requires a gradient": viewed(
        sizes(1), sizes(1), memory=tensor(array(6), gradient=TRUE)
    ),
    "a view of a Tensor that is not filled": viewed(sizes(1), sizes(1), memory=tensor(FRESH)),
    "a view of strides": viewed(
        sizes(2, 3), sizes(3, 1), memory=viewed(sizes(2, 2), sizes(3, 1)), cls=name("builtins", "dict")
    ),
    "a view of steps in a view": viewed(sizes(3), sizes(1), memory=viewed(sizes(3), sizes(2))),
    "a view of another class": viewed(sizes(1), sizes(1), cls=name("builtins", "set")),
    "a view of another dtype": viewed(
        sizes(6), sizes(1), memory=tensor(array(3), name("qkv.torch._dtypes", "int64"))
    ),
    "a view as a dtype": viewed(sizes(1), sizes(1), cls=FLOAT),
    "gradients of whole numbers in a view": viewed(
        sizes(1),
        sizes(1),
        memory=tensor(array(6, "i8"), name("qkv.torch._dtypes", "int64")),
        gradient=TRUE,
    ),
    "gradients of no boolean in a view": viewed(sizes(1), sizes(1), gradient=number(1)),
    "attributes of a view": viewed(sizes(1), sizes(1))
    + parts(NONE, b"}" + text("_kind") + NONE + b"s")
    + b"b",
    "an array of forged objects": call(
        name("builtins", "set"), call(name("numpy", "ndarray"), sizes(1), HIDDEN, data(b"A" * 8))
    ),
    "a dtype with fields": HIDDEN,
    "a nested dtype": filled(sizes(1), HIDDEN, b"A" * 8),
    "a dtype of objects": filled(sizes(1), plain("O8", "|"), b"A" * 8),
    "a dtype of text": filled(sizes(1), plain("U1"), b"A" * 4),
    "a dtype whose state has fields": dtype("f4")
    + state(number(3), text("<"), NONE, parts(text("a")), b"}", number(4), number(1), number(0)),
    "a dtype of another size": dtype("f4")
    + state(number(3), text("<"), NONE, NONE, NONE, number(1 << 30), number(1), number(0)),
    "a dtype changed twice": plain("f4")
    + state(number(3), text(">"), NONE, NONE, NONE, number(-1), number(-1), number(0)),
    "memory that nobody filled": call(name("numpy", "ndarray"), sizes(64), text("u1")),
    "an array that is not filled": tensor(FRESH),
    "fewer bytes than numbers": filled(sizes(1000), plain("f4"), b"A" * 8),
    "more bytes than numbers": filled(sizes(1), plain("f4"), b"A" * 8),
    "a size below zero": filled(sizes(-2), plain("f4"), b"A" * 8),
    "two sizes below zero": filled(sizes(-1, -2), plain("f4"), b"A" * 8),
    "sizes beyond any memory": filled(sizes(2**31 - 1, 2**31 - 1, 2**31 - 1), plain("f4"), b""),
    "sizes that wrap to the right number": filled(sizes(2**30, 2**30, 2**4), plain("f4"), b""),
    "sizes with one zero": filled(b"(" + b"J\xff\xff\xff\x7f" * 3 + number(0) + b"t", plain("f4"), b"A"),
    "too many axes": filled(sizes(*[1] * 80), plain("f4"), b"A" * 4),
    "sizes that are no numbers": filled(parts(text("3")), plain("f4"), b"A" * 12),
    "an order that is no boolean": filled(sizes(1), plain("f4"), b"A" * 4, text("F")),
    "an array filled twice": filled(sizes(1), plain("f4"), b"A" * 4)
    + state(number(1), sizes(1), plain("f4"), FALSE, data(b"A" * 4)),
    "text for bytes": FRESH + state(number(1), sizes(1), plain("f4"), FALSE, text("AAAA")),
    "a buffer of objects": call(FROM_BUFFER, data(b"A" * 8), plain("O8", "|"), sizes(1), text("C")),
    "a buffer with fields": call(FROM_BUFFER, data(b"A" * 8), HIDDEN, sizes(1), text("C")),
    "a buffer that is too small": call(FROM_BUFFER, data(b"A" * 8), plain("f4"), sizes(9), text("C")),
    "a dtype that changes its name": FLOAT + b"}" + text("name") + text("int64") + b"sb",
    "attributes of a function": RESTORED + parts(NONE, b"}" + text("__defaults__") + NONE + b"s") + b"b",
    "attributes of Size": name("qkv.torch._dtypes", "Size")
    + parts(NONE, b"}" + text("__len__") + NONE + b"s")
    + b"b",
    "attributes of Tensor": name("qkv.torch", "Tensor")
    + parts(NONE, b"}" + text("shape") + NONE + b"s")
    + b"b",
    "attributes of a Tensor": tensor(filled(sizes(1), plain("f4"), b"A" * 4))
    + parts(NONE, b"}" + text("_kind") + NONE + b"s")
    + b"b",
    "the state of a Tensor": tensor(filled(sizes(1), plain("f4"), b"A" * 4)) + b"}b",
    "attributes of a dict": name("collections", "OrderedDict") + EMPTY + b"R}" + text("items") + NONE + b"sb",
    "Tensor called": call(name("qkv.torch", "Tensor"), number(9)),
    "a Tensor made of nothing": name("qkv.torch", "Tensor") + EMPTY + b"\x81",
    "an array made of nothing": name("numpy", "ndarray") + parts(sizes(64), text("O")) + b"\x81",
    "a dict made of nothing": name("builtins", "dict") + EMPTY + b"\x81",
    "an array subclass": call(RECONSTRUCT, name("qkv.torch", "Tensor"), sizes(0), data(b"b")),
    "a large fresh array": call(RECONSTRUCT, name("numpy", "ndarray"), sizes(64), data(b"O")),
    "a Tensor of another dtype": tensor(filled(sizes(1), plain("i8"), b"A" * 8)),
    "a Tensor of another class": tensor(filled(sizes(1), plain("f4"), b"A" * 4), cls=name("builtins", "set")),
    "a Tensor of a text": tensor(text("AAAA")),
    "a Tensor of a class's dtype": tensor(filled(sizes(1), plain("f4"), b"A" * 4), kind=text("float32")),
    "gradients of no boolean": tensor(filled(sizes(1), plain("f4"), b"A" * 4), gradient=number(2)),
    "a set of lists": call(name("builtins", "set"), b"]" + b"(" + b"]" + b"e"),
    "a set of a text": call(name("builtins", "set"), text("ab")),
    "a number called": call(number(3), number(1)),
    "a dtype called": call(FLOAT, number(1)),
    "another codec": call(name("_codecs", "encode"), text("x"), text("zip")),
    "an item of a Tensor": tensor(filled(sizes(1), plain("f4"), b"A" * 4)) + number(0) + number(7) + b"s",
    "an item appended to a class": name("builtins", "list") + number(7) + b"a",
    "an old instance": b"(" + name("collections", "OrderedDict") + b"o",
    "an extension": b"\x82\x01",
    "a persistent name": b"Pname\n",
    "a key nested in itself": b"}" + EMPTY + b"\x85" * 200_000 + NONE + b"s",
    "a key with as many parts as it can mean": b"}" + EMPTY + b"2\x86" * 60 + NONE + b"s",
    "a set of nested tuples": b"\x8f(" + EMPTY + b"\x85" * 200_000 + b"\x90",
    "a frozen set of nested tuples": b"(" + EMPTY + b"\x85" * 200_000 + b"\x91",
    "bytes that are not there": b"\x8e"
    + struct.pack("<Q", 2**62)
    + b"AAAA"
    + b"\x96"
    + struct.pack("<Q", 2**62),
    "the end": b"",
    "nothing to fetch": b"h\x07",
    "an unknown operation": b"\xff",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_and_changes_nothing(case):
    with pytest.raises(pickle.UnpicklingError, match=r"^load: "):
        torch.load(io.BytesIO(START + HOSTILE[case] + END))
    assert repr(torch.float32) == "torch.float32"
    assert torch.float32.name == "float32"
    assert len(torch.Size([2, 3])) == 2
    assert np.dtype("f4").itemsize == 4
    assert torch.load(io.BytesIO(pickle.dumps(torch.ones(2)))).tolist() == [1, 1]


def test_a_view_within_its_memory_is_read():
    """The cases of views differ from this one in what they say."""
    read = torch.load(io.BytesIO(START + viewed(sizes(2, 2), sizes(3, 1), number(1)) + END))
    assert read.shape == (2, 2)
    assert read.stride() == (3, 1)


def test_hostile_files_leave_the_process_alive():
    program = (
        "import io, pickle, gc\n"
        "from qkv_torch.test_hostile_files import HOSTILE, START, END\n"
        "import qkv.torch as torch\n"
        "for case in HOSTILE.values():\n"
        "    try: print(repr(torch.load(io.BytesIO(START + case + END))))\n"
        "    except pickle.UnpicklingError: pass\n"
        "gc.collect(); print('alive')"
    )
    tests = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tests, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_refused_or_read(seed):
    """Bytes of a file are changed: each file is read as something, or refused, never with another error."""
    random = np.random.default_rng(seed)
    file, w = io.BytesIO(), torch.ones(2, 3)
    torch.save({"w": w, "part": w[:, 1], "steps": [1, 2.5, None], "size": torch.Size([2])}, file)
    whole = file.getvalue()
    for _ in range(500):
        content = bytearray(whole)
        for place in random.integers(0, len(whole), random.integers(1, 4)):
            content[place] = random.integers(0, 256)
        with contextlib.suppress(pickle.UnpicklingError, MemoryError):
            torch.load(io.BytesIO(bytes(content)))
    for end in range(len(whole)):
        with pytest.raises(pickle.UnpicklingError, match=r"^load: "):
            torch.load(io.BytesIO(whole[:end]))


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            type(a) is type(b)
            and a.dtype is b.dtype
            and a.requires_grad == b.requires_grad
            and torch.equal(a, b)
        )
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_torch_save_writes_is_read_in_every_protocol(protocol):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.LayerNorm(5))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(7, 3)).sum().backward()
    optimizer.step()
    state = OrderedDict(model.state_dict())
    state._metadata = {"": {"version": 1}}
    counts = defaultdict(list)
    counts["a"].append(1)
    value = {
        "model": state,
        "optimizer": optimizer.state_dict(),
        "weights": [torch.nn.Parameter(torch.ones(2, 0)), torch.tensor(True), torch.ones(3, 2).t()],
        "views": [*torch.arange(12).to(torch.int16).reshape(3, 4)[:, :2].unbind(1)],
        "narrow": torch.tensor([1, 255], dtype=torch.uint8),
        "size": torch.Size([2, 3]),
        "kind": torch.bfloat16,
        "counts": counts,
        ("a", 1): [None, True, 2**70, -1.5, "é", b"", b"\xff" * 300, {1, "b"}, frozenset({2}), ()],
        "arrays": [
            np.arange(6).reshape(2, 3),
            np.asfortranarray(np.ones((2, 3))),
            np.zeros((0, 3), bool),
        ],
    }
    file = io.BytesIO()
    torch.save(value, file, pickle_protocol=protocol)
    read = torch.load(io.BytesIO(file.getvalue()))
    assert same(read, value)
    assert read["model"]._metadata == state._metadata
    assert read["counts"]["new"] == []


def test_the_cases_are_pickles():
    """Each runs to its end where anything may be called: what is refused is refused for what it holds."""
    counted = 0
    for case in HOSTILE.values():
        try:
            counted += len(list(pickletools.genops(START + case + END))) > 2
        except ValueError:
            continue
    assert counted > 50
