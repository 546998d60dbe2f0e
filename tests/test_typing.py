"""The stub of the extension names what the extension has, and mypy agrees with the package and its users."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sweep import sweep

import qkv
from qkv import _core, models

PACKAGE = Path(qkv.__file__).parent
STUB = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf8"))
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
PICKLING = {"__getstate__", "__setstate__", "__init_subclass__"}
PYTHON_S_OWN = {
    "__class__",
    "__doc__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__new__",
    "__hash__",
    "__array_ufunc__",
    "__pandas_priority__",
    "__signature__",
}

nn = qkv.nn
TINY_BERT = {
    "vocab_size": 5,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 3,
}
LAYERS = {
    "Linear": lambda: nn.Linear(2, 3),
    "Embedding": lambda: nn.Embedding(3, 2),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "AddNorm": lambda: nn.AddNorm(3),
    "BilinearAttention": lambda: nn.BilinearAttention(2, 3),
    "TransformerBody": lambda: _core.TransformerBody(
        [{"nhead": 2, "dim_feedforward": 3}], d_model=4, vocab_size=5
    ),
    "AdditiveAttention": lambda: nn.AdditiveAttention(3, query_size=2, key_size=2),
    "SelfAttention": lambda: nn.SelfAttention(2, 3),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(4, 2),
    "PositionWiseFFN": lambda: nn.PositionWiseFFN(2, 3),
    "PositionalEncoding": lambda: nn.PositionalEncoding(2),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 3),
    "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(4, 2, 3),
    "TransformerEncoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3), 2),
    "TransformerDecoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3), 2),
    **{
        name: lambda kind=kind: kind(**TINY_BERT)
        for name, kind in vars(_core).items()
        if name.startswith("Bert")
    },
    "Seq2SeqEncoder": lambda: models.Seq2SeqEncoder(3, 4, 5, 1),
    "Seq2SeqDecoder": lambda: models.Seq2SeqDecoder(3, 4, 5, 1),
    "Seq2SeqAttentionDecoder": lambda: models.Seq2SeqAttentionDecoder(3, 4, 5, 1),
}


def functions(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def parts(kind: ast.ClassDef) -> dict[str, str]:
    """Return the annotated attributes of a class in the stub."""
    annotated = (n for n in kind.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
    return {n.target.id: ast.unparse(n.annotation) for n in annotated}


def arguments(function: ast.FunctionDef) -> list[tuple[str, str]]:
    """Return name and default of each argument, `*` where keywords begin; without self."""
    a = function.args
    names = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(names) - len(a.defaults)) + list(a.defaults)
    listed = [(n.arg, ast.unparse(d) if d else "") for n, d in zip(names, defaults, strict=True)]
    if a.vararg:
        listed.append(("*args", ""))
    elif a.kwonlyargs:
        listed.append(("*", ""))
    listed += [(n.arg, ast.unparse(d) if d else "") for n, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    listed = [("return_weights", "False") if x[0] == "return_weights" else x for x in listed]  # overloads
    if a.kwarg:
        listed.append(("**kwargs", ""))
    return [x for x in listed if x[0] != "self"]


def signature(lines: list[str]) -> list[list[tuple[str, str]]]:
    """Parse the signatures of the extension, one for each overload."""
    parsed = []
    for line in lines:
        call = re.sub(r"\bself: [\w.]+", "self", line)
        parsed.append(arguments(ast.parse(f"def {call}: ...").body[0]))
    return parsed


def members(kind: type) -> set[str]:
    ignored = PICKLING | PYTHON_S_OWN
    names = {n for n in vars(kind) if n not in ignored and not n.startswith("_pybind11")}
    added = (type(object.__init__), type(members))  # by Python: operators, functions
    if type(vars(kind).get("__init__")).__name__ == "instancemethod":  # refuses a construction
        names.discard("__init__")
    return {n for n in names if not isinstance(vars(kind)[n], added)}


def test_the_stub_has_the_extension_s_names():
    public = {n for n in vars(_core) if not n.startswith("__")}
    stubbed = {*CLASSES, *functions(STUB.body)}
    assert stubbed == public


@sweep("name", CLASSES)
def test_a_class_has_the_extension_s_members(name):
    kind, stub = getattr(_core, name), CLASSES[name]
    added = {"__call__"} if "forward" in vars(kind) else set()
    assert set(functions(stub.body)) - added == members(kind) - added
    assert {ast.unparse(b) for b in stub.bases} == {b.__name__ for b in kind.__bases__} - {"pybind11_object"}


@sweep("name", CLASSES)
def test_a_class_has_the_extension_s_signatures(name):
    kind = getattr(_core, name)
    for method, stubs in functions(CLASSES[name].body).items():
        thing = vars(kind).get("forward" if method == "__call__" and "forward" in vars(kind) else method)
        special = method.startswith("__") and method not in ("__init__", "__call__")
        if special or isinstance(thing, property):
            continue
        real = signature(_core._typed_signatures(thing))
        stubbed = [arguments(s) for s in stubs]
        for given in stubbed:
            assert [("*args", "") if n.startswith("*") and n != "*" else (n, d) for n, d in given] in [
                [("*args", "") if n.startswith("*") and n != "*" else (n, d) for n, d in r] for r in real
            ], f"{name}.{method}"
        assert len({str(r) for r in real}) == len({str(s) for s in stubbed})


def test_functions_have_the_extension_s_signatures():
    for name, stubs in functions(STUB.body).items():
        real = signature(_core._typed_signatures(getattr(_core, name)))
        assert [arguments(s) for s in stubs] == real, name


def statements(text: str) -> list[str]:
    """Return a module's statements without its imports; a stub keeps those that it needs."""
    imports = (ast.Import, ast.ImportFrom)
    return [ast.unparse(node) for node in ast.parse(text).body if not isinstance(node, imports)]


def test_stubs_of_functions_are_those_of_the_functions(monkeypatch):
    tools = Path(__file__).parents[1] / "tools"
    monkeypatch.syspath_prepend(str(tools))
    function_stubs = pytest.importorskip("function_stubs")
    sources = function_stubs.sources()
    assert {path.stem for path in sources} > {"attention", "elementwise", "losses"}
    assert {p.with_suffix(".pyi") for p in sources} == {
        p for folder in ("", *function_stubs.FOLDERS) for p in (function_stubs.PACKAGE / folder).glob("*.pyi")
    } - {function_stubs.PACKAGE / "_core.pyi"}
    for source in sources:
        stub = source.with_suffix(".pyi").read_text(encoding="utf8")
        assert statements(stub) == statements(function_stubs.text(source)), source.name


def test_setters_are_where_the_extension_has_them():
    for name, stub in CLASSES.items():
        for member, stubs in functions(stub.body).items():
            thing = vars(getattr(_core, name)).get(member)
            if isinstance(thing, property):
                assert len(stubs) == (1 if thing.fset is None else 2), f"{name}.{member}"


def test_every_layer_with_parts_is_built_here():
    assert {n for n, stub in CLASSES.items() if parts(stub)} == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_parts_of_a_layer_exist_and_have_their_types(name):
    layer = LAYERS[name]()
    for part, kind in parts(CLASSES[name]).items():
        assert type(getattr(layer, part)).__name__ in kind.replace("_LayerNorm", "LayerNorm").split(" | "), (
            part
        )
    trained = {key.split(".")[0] for key, _ in layer.named_parameters()}
    assert trained <= set(parts(CLASSES[name]))


def test_a_changed_signature_is_noticed():
    real = signature(["f(self: qkv._core.A, x: object, p: float = 0.5, *, q: bool | None = None) -> Tensor"])
    assert real == [[("x", ""), ("p", "0.5"), ("*", ""), ("q", "None")]]
    other = ast.parse("def f(self, x: int, p: float = 0.1, *, q: bool = None): ...").body[0]
    assert arguments(other) != real[0]


def test_layers_of_python_list_the_classes_of_the_core():
    layers = {
        n for n, kind in vars(_core).items() if inspect.isclass(kind) and issubclass(kind, _core.Module)
    }
    listed = set(nn.__all__) | set(models.__all__)
    parts_of_models = {"TransformerBody", "TransformerBlock"}  # what tables of architectures are made of
    assert {
        name for name in layers - parts_of_models if not name.startswith("Bert")
    } <= listed  # likewise BERT's


PROGRAM = """
from typing import Any

import numpy as np
import qkv
from numpy.typing import NDArray
from typing_extensions import assert_type

x = qkv.tensor(np.ones((2, 3, 4)), requires_grad=True)
assert_type(x + 1, qkv.Tensor)
assert_type(2 * x, qkv.Tensor)
assert_type(x.shape, tuple[int, ...])
layer = qkv.nn.MultiHeadAttention(4, 2, is_causal="lower_right")
assert_type(layer(x, valid_lens=[3, 1]), qkv.Tensor)
assert_type(layer(x, return_weights=True), tuple[qkv.Tensor, qkv.Tensor])
assert_type(x % 2, qkv.Tensor)
assert_type(~(x > 0) & (x < 1), qkv.Tensor)
assert_type(layer.q_proj.weight, qkv.nn.Parameter)
assert_type(layer.eval(), qkv.nn.MultiHeadAttention)
qkv.optim.Adam(layer.parameters(), lr=0.1).step()
assert_type(qkv.grad(x.sum(), x), qkv.Tensor | list[qkv.Tensor])
array, attend = np.ones((2, 3, 4)), qkv.scaled_dot_product_attention
assert_type(qkv.exp(array), NDArray[Any])
assert_type(qkv.exp([1.0, 2.0]), NDArray[Any])
assert_type(qkv.exp(x), qkv.Tensor)
assert_type(qkv.matmul(array, x), qkv.Tensor)
assert_type(qkv.where(array > 0, x, 0.0), qkv.Tensor)
assert_type(qkv.concatenate([x, x]), qkv.Tensor)
assert_type(qkv.topk(array, 2), tuple[NDArray[Any], NDArray[Any]])
assert_type(qkv.losses.mse(x, array), qkv.Tensor)
assert_type(attend(array, array, array), NDArray[Any])
assert_type(attend(x, array, array, return_weights=True), tuple[qkv.Tensor, qkv.Tensor])
assert_type(attend(array, array, array, return_weights=True), tuple[NDArray[Any], NDArray[Any]])
assert_type(attend(x, x, x, return_weights=True, return_lse=True), tuple[qkv.Tensor, qkv.Tensor, qkv.Tensor])
assert_type(qkv.linear_attention(x, x, x, return_state=True), tuple[qkv.Tensor, qkv.Tensor])
assert_type(qkv.NadarayaWatson().fit([1.0], [2.0]).predict([1.0]), NDArray[Any])
layer(x, valid_length=3)  # type: ignore[call-overload]
qkv.exp("x", axis=0)  # type: ignore[call-overload]
qkv.look.record(array, array)  # type: ignore[arg-type]
qkv.nn.Linear(2)  # type: ignore[call-arg]
"""


def mypy(*arguments: str, cwd: Path) -> None:
    pytest.importorskip("mypy")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow  # .pre-commit-config.yaml asks the same at each push
def test_mypy_accepts_the_package(tmp_path):
    root = Path(__file__).parents[1]
    mypy("--config-file", str(root / "pyproject.toml"), "--cache-dir", str(tmp_path), cwd=root)


def check_program(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let mypy check a program as a user of the package would."""
    (tmp_path / "program.py").write_text(program, encoding="utf8")
    if PACKAGE.parent.name != "site-packages":
        monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    mypy(
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
        "program.py",
        cwd=tmp_path,
    )


def test_mypy_knows_the_types_of_a_program(tmp_path, monkeypatch):
    check_program(PROGRAM, tmp_path, monkeypatch)
