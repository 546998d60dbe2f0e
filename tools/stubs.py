"""Writes python/qkv/_core.pyi, the types of the extension, from the signatures that the extension carries.

    python tools/stubs.py && pre-commit run --files python/qkv/_core.pyi

The tables below say what the bindings do not know: what `object` means, and which parts a layer has.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from qkv._operations import OPERATIONS

TARGET = Path(__file__).parents[1] / "python" / "qkv" / "_core.pyi"

HEADER = '''"""Types of the compiled core. Written by tools/stubs.py; change that."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import Self

Causal: TypeAlias = bool | Literal["upper_left", "lower_right"]
Numbers: TypeAlias = Tensor | ArrayLike
_LayerNorm: TypeAlias = LayerNorm  # its name is also that of a part
DecoderState: TypeAlias = tuple[Tensor, Tensor, Tensor | None]
'''

# What an argument of type `object` is, by its name.
NUMBERS = "x y queries keys values data query key value gradient src tgt memory residual words"
OPTIONAL = "valid_lens attn_mask dropout_keep memory_valid_lens memory_attn_mask state"  # None is said by position, too
ARGUMENTS = {
    **dict.fromkeys(NUMBERS.split(), "Numbers"),
    **dict.fromkeys(OPTIONAL.split(), "Numbers | None"),
    **dict.fromkeys(["context", "hidden_states", "attention_mask"], "Numbers"),
    "ids": "ArrayLike",
    "indices": "ArrayLike",
    "input_ids": "Numbers",
    "token_type_ids": "Numbers",
    "normalized_shape": "int | Sequence[int]",
    "is_causal": "Causal",
    "cache": "KVCache",
    "encoder": "Module",
    "decoder": "Module",
    "encoder_outputs": "tuple[Numbers, Numbers]",
    "enc_X": "Any",
    "dec_X": "Any",
    "enc_valid_lens": "Any",
    "encoder_valid_lens": "Numbers | None",
    "params": "Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]",
    "window": "tuple[int, int] | None",
    "normalizer": "str | Callable[[Tensor], Any]",
    "dtype": "DTypeLike",
    "axis": "int | tuple[int, ...] | None",
    "copy": "bool",
    "seed": "int",
    "state_dict": "Mapping[str, Any]",
    "layer": "Module",
    "norm": "Module",
    "module": "Module",
    "modules": "Iterable[Module]",
    "parameter": "Parameter",
    "f": "Callable[[Any], Any]",
}
SEQ2SEQ_DECODERS = ("Seq2SeqDecoder", "Seq2SeqAttentionDecoder")
OPERATORS = ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and", "or", "xor")
# What comes back, where that is more than the signature says.
RETURNS = {
    **dict.fromkeys(["topk", "sort", "median"], "tuple[Any, Any]"),
    "batch_part": "tuple[int, int, int]",
    "grad_where_used": "list[Tensor | None]",
    "default_generator": "Generator",
    "Tensor.__dlpack_device__": "tuple[int, int]",
    "Tensor.__array__": "NDArray[Any]",
    "Tensor.__bool__": "bool",
    "Tensor.__format__": "str",
    "Tensor.__repr__": "str",
    "Tensor.__iter__": "Iterator[Tensor]",
    "Tensor.copy_": "Self",
    "Tensor.item": "Any",
    **dict.fromkeys(["Tensor.__divmod__", "Tensor.__rdivmod__"], "tuple[Tensor, Tensor]"),
    "Tensor.__array_function__": "Any",
    **dict.fromkeys(
        [
            f"Tensor.__i{name}__"
            for name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and", "or", "xor")
        ],
        "Tensor",
    ),
    "Tensor.numpy": "NDArray[Any]",
    "Tensor.tolist": "Any",
    "Tensor.__dlpack__": "Any",
    "Tensor.dtype": "np.dtype[Any]",
    "Tensor.grad": "Tensor | None",
    "Tensor.shape": "tuple[int, ...]",
    "LayerNorm.normalized_shape": "tuple[int, ...]",
    "RMSNorm.normalized_shape": "tuple[int, ...]",
    "ModuleList.__iter__": "Iterator[Module]",
    "ModuleList.__getitem__": "Any",
    "Module.__call__": "Any",
    "Module.__dir__": "list[str]",
    "Module.__getattr__": "Any",
    "Module.__repr__": "str",
    "Module.state_dict": "dict[str, Tensor]",
    "Module.modules": "list[Module]",
    "Module.named_modules": "list[tuple[str, Module]]",
    **dict.fromkeys([f"Module.{name}" for name in ("apply", "eval", "to", "train")], "Self"),
    "GRU.forward": "tuple[Tensor, Tensor]",
    "AttentionDecoder.attention_weights": "Any",
    "Seq2SeqEncoder.forward": "tuple[Tensor, Tensor]",
    **dict.fromkeys(
        [f"{name}.{method}" for name in SEQ2SEQ_DECODERS for method in ("init_state", "reorder_state")],
        "DecoderState",
    ),
    **dict.fromkeys([f"{name}.forward" for name in SEQ2SEQ_DECODERS], "tuple[Tensor, DecoderState]"),
    "Seq2SeqAttentionDecoder.attention_weights": "list[Tensor]",
    **dict.fromkeys(["EncoderDecoder.forward", "EncoderDecoder.attention_weights"], "Any"),
    **dict.fromkeys(
        ["Encoder.forward", "Decoder.forward", "Decoder.init_state", "Decoder.reorder_state"], "Any"
    ),
    "Optimizer.param_groups": "tuple[ParameterGroup, ...]",
    "ParameterGroup.__iter__": "Iterator[str]",
    "ParameterGroup.keys": "list[str]",
    "ParameterGroup.items": "list[tuple[str, Any]]",
    "attention_weights": "Tensor | None",
    "TransformerEncoder.attention_weights": "list[Tensor | None]",
    "TransformerDecoder.attention_weights": "list[Tensor | None]",
    **dict.fromkeys(
        [f"TransformerBody.{name}_weights" for name in ("attention", "memory")], "list[Tensor | None]"
    ),
}
# Arguments whose types belong to one method.
ARGUMENTS_OF = {
    "Tensor.reshape": "*shape: int | Sequence[int]",
    "Tensor.transpose": "*axes: int | Sequence[int] | None",
    "Tensor.broadcast_to": "*shape: int | Sequence[int]",
    "Tensor.repeat": "repeats: ArrayLike, *args: Any, axis: int | None = None",
    **dict.fromkeys(["Tensor.argmax", "Tensor.argmin"], "axis: int | None = None, keepdims: bool = False"),
    "Tensor.cumsum": "axis: int | None = None",
    **dict.fromkeys(["Tensor.unsqueeze", "Tensor.expand_dims"], "axis: int | tuple[int, ...]"),
    "ParameterGroup.__setitem__": "name: str, value: Any",
    "Sequential.__init__": "*modules: Module",
    "Module.__call__": "*args: Any, **kwargs: Any",
    "Tensor.__dlpack__": "**options: Any",
    **dict.fromkeys([f"{name}.forward" for name in SEQ2SEQ_DECODERS], "ids: ArrayLike, state: Sequence[Any]"),
    **dict.fromkeys(
        [f"{name}.reorder_state" for name in SEQ2SEQ_DECODERS], "state: Sequence[Any], indices: ArrayLike"
    ),
}
# Parts and parameters, which are attributes of the instances.
LAYER = {
    "self_attn": "MultiHeadAttention",
    "linear1": "Linear",
    "linear2": "Linear",
    "norm1": "LayerNorm",
    "norm2": "LayerNorm",
}
RECURRENT = {"embedding": "Embedding", "rnn": "GRU"}
PROJECTIONS = dict.fromkeys(("q_proj", "k_proj", "v_proj"), "Linear")
PARTS: dict[str, dict[str, str]] = {
    "Linear": {"weight": "Parameter", "bias": "Parameter | None"},
    "Embedding": {"weight": "Parameter"},
    "LayerNorm": {"weight": "Parameter | None", "bias": "Parameter | None"},
    "RMSNorm": {"weight": "Parameter"},
    "AddNorm": {"norm": "LayerNorm", "dropout": "Dropout"},
    "BilinearAttention": {"weight": "Parameter"},
    "AdditiveAttention": {"W_q": "Linear", "W_k": "Linear", "w_v": "Linear"},
    "SelfAttention": PROJECTIONS,
    "MultiHeadAttention": {**PROJECTIONS, "out_proj": "Linear"},
    "PositionWiseFFN": {"linear1": "Linear", "linear2": "Linear", "dropout": "Dropout"},
    "PositionalEncoding": {"dropout": "Dropout"},
    "TransformerEncoderLayer": LAYER,
    "TransformerDecoderLayer": {**LAYER, "multihead_attn": "MultiHeadAttention", "norm3": "LayerNorm"},
    "TransformerEncoder": {"layers": "ModuleList"},
    "TransformerDecoder": {"layers": "ModuleList"},
    "TransformerBody": {"embedding": "Embedding", "layers": "ModuleList"},
    "Seq2SeqEncoder": RECURRENT,
    "Seq2SeqDecoder": {**RECURRENT, "dense": "Linear"},
    "Seq2SeqAttentionDecoder": {**RECURRENT, "attention": "AdditiveAttention", "dense": "Linear"},
}
HIDDEN = re.compile(
    r"^_pybind11|^__(doc|module|dict|weakref|new|getstate|setstate|hash|array_ufunc|pandas_priority|init_subclass)__$|^_set_state$"
)
OPERATORS = "|".join(row.operator for row in OPERATIONS.values() if row.operator and row.parameters == "a, b")
ARITHMETIC = re.compile(f"^__[ri]?({OPERATORS}|matmul)__$")


def signatures(thing: Any) -> list[str]:
    """Return `name(arguments) -> result` of each overload; nothing for anything but a function of the extension."""
    found: list[str] = importlib.import_module("qkv._core")._typed_signatures(thing)
    return found


def split(arguments: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts if p.strip()]


def plain(kind: str) -> str:
    """Return the annotation of a type of the extension."""
    bare = {"dict": "dict[str, Any]", "tuple": "tuple[Any, ...]", "list": "list[Any]", "object": "Any"}
    bare |= {"Sequence": "Sequence[Any]", "Iterator": "Iterator[Any]", "Callable": "Callable[..., Any]"}
    return " | ".join(bare.get(part, re.sub(r"\bobject\b", "Any", part)) for part in kind.split(" | "))


def argument(text: str) -> str:
    """Annotate one argument."""
    match = re.fullmatch(r"(\*{0,2}\w+)(?:: (.*?))?(?: = (.*))?", text)
    if match is None:  # "*" and "/"
        return text
    name, kind, default = match.groups()
    if name == "self":
        return "self"
    kind = re.sub(r"^list\b", "Sequence", kind or "Any")  # what an argument is converted from
    annotation = ARGUMENTS.get(name, "Any") if kind in ("object", "Callable") else plain(kind)
    if kind == "dict":
        annotation = ARGUMENTS.get(name, plain(kind))
    if default == "None" and annotation != "Any" and "None" not in annotation:
        annotation += " | None"
    return f"{name}: {annotation}" + (f" = {default}" if default is not None else "")


def function(signature: str, owner: str = "") -> str:
    """Write one `def` line."""
    match = re.fullmatch(r"(\w+)\((.*)\)(?: -> (.*))?", signature)
    assert match is not None, signature
    name, arguments, result = match.groups()
    full = f"{owner}.{name}" if owner else name
    if full in ARGUMENTS_OF:
        given = ["self", ARGUMENTS_OF[full]]
    else:
        given = [argument(a) for a in split(arguments)]
        given = [a for a in given if a != "/"]
        if any(re.match(r"arg\d", a) for a in given):
            given.append("/")
    result = "None" if name == "__init__" else plain(result or "None")
    if ARITHMETIC.match(name):
        given, result = (
            ["self", "other: object" if name in ("__eq__", "__ne__") else "other: Any", "/"],
            "Tensor",
        )
    result = RETURNS.get(full, result)
    note = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"def {name}({', '.join(given)}) -> {result}: ...{note}"


def with_weights(line: str, owner: str) -> list[str]:
    """Write a call that gives its weights when they are asked for as two overloads."""
    asked = "return_weights: bool = False"
    if asked not in line:
        return [line]
    kind = "list[Tensor]" if owner in ("TransformerEncoder", "TransformerDecoder") else "Tensor"
    head = line.removesuffix(" -> Any: ...")
    return [
        head.replace(asked, "return_weights: Literal[False] = False") + " -> Tensor: ...",
        head.replace(asked, "return_weights: Literal[True]") + f" -> tuple[Tensor, {kind}]: ...",
    ]


def overloads(thing: Any, owner: str = "") -> list[str]:
    lines: list[str] = []
    for signature in signatures(thing):
        for line in with_weights(function(signature, owner), owner):
            if line not in lines:
                lines.append(line)
    return lines if len(lines) == 1 else [part for line in lines for part in ("@overload", line)]


def attribute(thing: property, owner: str, name: str) -> list[str]:
    signature = signatures(thing.fget)
    kind = plain(signature[0].rpartition(" -> ")[2]) if signature else "Any"
    kind = RETURNS.get(f"{owner}.{name}", RETURNS.get(name, kind))
    lines = ["@property", f"def {name}(self) -> {kind}: ..."]
    if thing.fset is not None:
        accepted = "Numbers | None" if name == "grad" else "None" if name == "attention_weights" else kind
        lines += [f"@{name}.setter", f"def {name}(self, value: {accepted}) -> None: ..."]
    return lines


def members(kind: type) -> list[str]:
    """Return the public methods and properties that a class itself defines."""
    return sorted(name for name in vars(kind) if not HIDDEN.search(name) and vars(kind)[name] is not None)


def one_class(kind: type) -> list[str]:
    bases = [b.__name__ for b in kind.__bases__ if b.__name__ != "pybind11_object"]
    body = [f"{name}: {part}" for name, part in PARTS.get(kind.__name__, {}).items()]
    for name in members(kind):
        thing = vars(kind)[name]
        if isinstance(thing, property):
            body += attribute(thing, kind.__name__, name)
        elif name == "__array_function__":  # without a signature of the bindings
            body.append("def __array_function__(self, *args: Any) -> Any: ...")
        elif not signatures(thing):
            continue  # made by functions, not by calling the class
        elif name == "__call__" and "forward" in vars(kind):
            continue  # see below
        else:
            lines = overloads(thing, kind.__name__)
            body += lines
            if name == "forward":  # a layer is called like its forward
                body += [line.replace("def forward(", "def __call__(") for line in lines]
    heading = f"class {kind.__name__}" + (f"({', '.join(bases)})" if bases else "") + ":"
    return [heading, *(f"    {line}" for line in body or ["..."]), ""]


def text(core: Any) -> str:
    """Return the whole stub."""
    public = [name for name in sorted(vars(core)) if not name.startswith("__")]
    classes = [getattr(core, n) for n in public if inspect.isclass(getattr(core, n))]
    lines = [HEADER]
    for kind in sorted(classes, key=lambda k: (len(k.__mro__), k.__name__)):
        lines += one_class(kind)
    for name in public:
        if not inspect.isclass(getattr(core, name)):
            lines += overloads(getattr(core, name))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(importlib.import_module("qkv._core")), encoding="utf8")
