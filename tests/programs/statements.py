"""Random statements on Tensors that PyTorch, `qkv.torch` and, where marked so, the core spell alike.

A statement is text. What it is about is chosen from the Tensors of PyTorch that live in the program so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .choice import Choice, broadcasts


@dataclass(frozen=True)
class Kind:
    """A kind of statement; `makes` says whether the text is an expression, whose value gets a name."""

    name: str
    text: Callable[[Choice], str]
    weight: float
    core: bool
    makes: bool


KINDS: list[Kind] = []


def expression(name: str, text: Callable[[Choice], str], weight: float = 1.0, core: bool = False) -> None:
    KINDS.append(Kind(name, text, weight, core, True))


def change(name: str, text: Callable[[Choice], str], weight: float = 1.0, core: bool = False) -> None:
    KINDS.append(Kind(name, text, weight, core, False))


def on(template: str, rank: int = 0, **options: bool) -> Callable[[Choice], str]:
    """Fill ``{t}`` a Tensor, ``{u}`` one beside it, ``{v}`` one within it, ``{d}`` ``{e}`` axes, ``{n}`` a number."""

    def text(c: Choice) -> str:
        t = c.tensor(rank=rank, **options)
        return template.format(
            t=t,
            u=c.beside(t) if "{u}" in template else "",
            v=c.beside(t, within=True) if "{v}" in template else "",
            d=c.axis(t) if "{d}" in template else "",
            e=c.axis(t) if "{e}" in template else "",
            n=c.number(),
            item=c.item(t) if "{item}" in template else "",
            shape=c.shape(t) if "{shape}" in template else "",
        )

    return text


def sized(template: str) -> Callable[[Choice], str]:
    """Fill ``{d}`` an axis, ``{i}`` a place on it, ``{k}`` a length from there."""

    def text(c: Choice) -> str:
        t = c.tensor(rank=1)
        d = c.axis(t)
        size = c.tensors[t].shape[d]
        i = c.below(size)
        return template.format(t=t, d=d, i=i, k=1 + c.below(size - i), m=1 + c.below(size))

    return text


def permuted(c: Choice) -> str:
    t = c.tensor(rank=2)
    return f"{t}.permute({', '.join(map(str, c.stream.permutation(c.tensors[t].dim())))})"


def expanded(c: Choice) -> str:
    t = c.tensor()
    sizes = [c.among([2, 3]) if n == 1 and c.chance(0.7) else n for n in c.tensors[t].shape]
    return f"{t}.expand({', '.join(map(str, [2] * c.below(2) + sizes or [2]))})"


def part(method: str) -> Callable[[Choice], str]:
    def text(c: Choice) -> str:
        t = c.tensor(rank=1)
        d = c.axis(t)
        size = c.tensors[t].shape[d]
        if method == "unbind":
            return f"{t}.unbind({d})[{c.below(size)}]"
        n = 1 + c.below(size)
        count = -(-size // n) if method == "split" else -(-size // -(-size // n))
        return f"{t}.{method}({n}, {d})[{c.below(count)}]"

    return text


def product(c: Choice) -> str:
    a = c.tensor(rank=1)
    rows = c.tensors[a].shape[-1]
    fitting = [
        n for n, t in c.tensors.items() if t.dim() in (1, 2) and t.shape[0] == rows and t.is_floating_point()
    ]
    return f"{a} @ {c.among(fitting)}" if fitting else f"{a} @ {a}.T"


def joined(function: str) -> Callable[[Choice], str]:
    def text(c: Choice) -> str:
        t = c.tensor(rank=1)
        same = [n for n, u in c.tensors.items() if u.shape == c.tensors[t].shape and u.is_floating_point()]
        return f"torch.{function}([{t}, {c.among(same)}], {c.below(c.tensors[t].dim())})"

    return text


def rows(template: str) -> Callable[[Choice], str]:
    """Fill ``{list}`` some places of the first axis."""

    def text(c: Choice) -> str:
        t = c.tensor(rank=1)
        places = [c.below(c.tensors[t].shape[0]) for _ in range(1 + c.below(3))]
        return template.format(t=t, list=places, n=c.number())

    return text


def loss(c: Choice) -> str:
    terms = [f"({k + 1} * {c.tensor()}).sum()" for k in range(1 + c.below(3))]
    terms.append(f"torch.tanh({c.tensor()}).sum()")
    return " + ".join(terms)


def set_part(c: Choice) -> str:
    t = c.tensor(rank=1)
    item = c.item(t)
    part = eval(f"x[{item}]", {"x": c.tensors[t]})
    fitting = [
        n
        for n, u in c.tensors.items()
        if broadcasts(u.shape, part.shape, True) and u.is_floating_point() and n != t
    ]
    value = c.among(fitting) if fitting and c.chance(0.6) else c.number()
    return f"{t}[{item}] {c.among(['=', '=', '+=', '*='])} {value}"


def fresh(c: Choice) -> str:
    shape = c.among([(3, 4), (4, 3), (12,), (2, 3, 4), (1, 5), (3, 1), (), (3, 3)])
    return f"new({shape}, {c.below(1000)}, {c.chance(0.6)})"


expression("creation", fresh, 1.5, core=True)
expression("creation of float32", lambda c: f"new((3, 4), {c.below(1000)}, {c.chance(0.5)}, 'float32')", 0.2)

# Views.
expression("select", sized("{t}.select({d}, {i})"))
expression("index", on("{t}[{item}]", 1), 4, core=True)
expression("transpose", on("{t}.transpose({d}, {e})", 1), 1.5)
expression("swapaxes", on("{t}.swapaxes({d}, {e})", 1), 1, core=True)
expression(
    "T", lambda c: f"{c.among([n for n, t in c.tensors.items() if t.dim() == 2] or ['x'])}.T", 1, core=True
)
expression("permute", permuted)
expression("expand", expanded, 1.5)
expression("squeeze", on("{t}.squeeze()"), 0.7, core=True)
expression("squeeze of an axis", on("{t}.squeeze({d})", 1), 0.7)
expression("unsqueeze", on("{t}.unsqueeze({d})", 1), 1, core=True)
expression("view", on("{t}.view({shape})"), 1.5)
expression("reshape", on("{t}.reshape({shape})"), 1, core=True)
expression("flatten", on("{t}.flatten()", 1), 0.7)
expression("diagonal", on("{t}.diagonal()", 2))
expression("unfold", sized("{t}.unfold({d}, {m}, 1)"), 0.6)
expression("unfold by steps", sized("{t}.unfold({d}, {m}, 2)"), 0.4)
expression("index of None", on("{t}[None, {item}]", 1), 0.5, core=True)
expression("split", part("split"), 1)
expression("chunk", part("chunk"), 0.7)
expression("unbind", part("unbind"), 0.7)
expression("detach", on("{t}.detach()"), 1, core=True)
expression("data", on("{t}.data"), 0.5)
expression("view_as", lambda c: (lambda t: f"{t}.view_as({t})")(c.tensor()), 0.3)
expression("contiguous", on("{t}.contiguous()"), 0.5)

# Results in memory of their own.
expression("clone", on("{t}.clone()"))
for operator in "+-*":
    expression(operator, on(f"{{t}} {operator} {{u}}"), 1, core=True)
expression("/", on("{t} / 2.5"), 0.5, core=True)
expression("power", on("{t} ** 2"), 0.5, core=True)
expression("comparison", on("torch.where({t} > {u}, {t}, {n})"), 0.7)
for function in ("tanh", "sin", "sigmoid", "relu", "abs"):
    expression(function, on(f"torch.{function}({{t}})"), 0.4, core=True)
expression("exp", on("torch.exp(torch.tanh({t}))"), 0.4, core=True)
expression("sqrt", on("torch.sqrt(torch.abs({t}))"), 0.3, core=True)
expression("clamp", on("{t}.clamp(-0.5, 0.5)"), 0.4)
expression("maximum", on("torch.maximum({t}, {t} * {n})"), 0.4, core=True)
expression("matmul", product, 1, core=True)
expression("einsum", on("torch.einsum('...i,...i->...', {t}, {t})", 1), 0.5, core=True)
expression("einsum of one", on("torch.einsum('ij->ji', {t})", 2), 0.3)
for reduction in ("sum", "mean"):
    expression(f"{reduction} of all", on(f"{{t}}.{reduction}()"), 0.4, core=True)
    expression(f"{reduction} of an axis", on(f"{{t}}.{reduction}({{d}})", 1), 0.6, core=True)
expression("max of all", on("{t}.max()"), 0.4)
expression("max of an axis", on("{t}.max({d})[0]", 1), 0.5)
expression("argmax", on("{t}.argmax({d})", 1), 0.3, core=True)
expression("amax", on("{t}.amax({d})", 1), 0.3)
expression("logsumexp", on("torch.logsumexp({t}, {d})", 1), 0.4, core=True)
expression("prod", on("{t}.prod({d})", 1), 0.3)
expression("var", on("{t}.var({d})", 1), 0.3)
expression("norm", on("{t}.norm()", 1), 0.3)
expression("cumsum", on("{t}.cumsum({d})", 1), 0.4, core=True)
expression("softmax", on("torch.softmax({t}, {d})", 1), 0.5, core=True)
expression("sort", on("{t}.sort({d})[0]", 1), 0.4)
expression("cat", joined("cat"), 0.6)
expression("stack", joined("stack"), 0.6, core=True)
expression("repeat", on("{t}.repeat(2, 1)", 1), 0.4)
expression("repeat once", on("{t}.repeat(1)"), 0.1)
expression("flip", on("{t}.flip({d})", 1), 0.4)
expression("roll", on("torch.roll({t}, 1)", 1), 0.3)
expression("tril", on("torch.tril({t})", 2), 0.3)
expression("masked_fill", on("{t}.masked_fill({t} > 0, {n})"), 0.5)
expression("index of a list", rows("{t}[{list}]"), 0.8, core=True)
expression("index of a Tensor", rows("{t}[torch.tensor({list})]"), 0.5)
expression("index of a mask", on("{t}[{t} > 0]", 1), 0.5, core=True)
expression("index of numbers and lists", on("{t}[0, :, [0, 1]]", 3), 0.3)
expression("index_select", rows("{t}.index_select(0, torch.tensor({list}))"), 0.4)
expression("gather", on("{t}.gather({d}, {t}.argsort({d}))", 1), 0.4)
expression("zeros_like", on("torch.zeros_like({t})"), 0.3)
expression("to float32", on("{t}.to(torch.float32)"), 0.15)
expression("deepcopy", on("copy.deepcopy({t})", leaf=True), 0.6, core=True)
expression("deepcopy of two", on("copy.deepcopy([{t}, {t}.detach()])[1]", leaf=True), 0.3, core=True)
expression("gradient", lambda c: f"torch.autograd.grad({loss(c)}, {c.tensor()})[0]", 0.5)
expression("what a leaf's gradient is", on("{t}.grad", leaf=True), 0.5, core=True)

expression("creation of integers", lambda c: f"torch.tensor([[{c.below(5)}, 2], [0, {c.below(9) - 4}]])", 0.3)
for name, template in {
    "std": "{t}.std({d})",
    "outer": "torch.outer({t}.flatten()[:3], {t}.flatten()[:2])",
    "repeat_interleave": "{t}.repeat_interleave(2, {d})",
    "scatter": "{t}.scatter({d}, {t}.argsort({d}), {n})",
    "topk": "{t}.topk(1, {d})[0]",
    "lerp": "torch.lerp({t}, {t} * 0.5, 0.3)",
}.items():
    expression(name, on(template, 1), 0.25)
for name, template in {
    "remainder": "torch.remainder({t}, 0.7)",
    "fmod": "torch.fmod({t}, 0.7)",
    "floor_divide": "{t} // 0.7",
    "reciprocal": "1 / {t}",
    "power of a half": "torch.abs({t}) ** 0.5",
    "minus": "-{t}",
    "new_zeros": "{t}.new_zeros(3)",
    "type_as": "{t}.type_as({t})",
}.items():
    expression(name, on(template), 0.25)
for name, template in {
    "whole %": "{t} % 3",
    "whole //": "{t} // 2",
    "whole /": "{t} / 2",
    "whole *": "{t} * {t}",
    "whole sum": "{t}.sum()",
    "whole comparison": "{t} > 1",
    "whole to float": "{t}.double() * 2",
}.items():
    expression(name, on(template, whole=True), 0.15)
expression(
    "write to one of two copies",
    on("(lambda pair: (pair[0].fill_(2.0), pair[1])[1])(copy.deepcopy([{t}.detach(), {t}.detach()]))"),
    0.3,
)

# Changes in place.
for operator in ("+=", "-=", "*="):
    change(operator, on(f"{{t}} {operator} {{v}}"), 1.2, core=True)
change("/=", on("{t} /= 2.5"), 0.4, core=True)
change("add_", on("{t}.add_({v})"))
change("add_ with alpha", on("{t}.add_({v}, alpha=0.5)"), 0.7)
change("sub_", on("{t}.sub_({v})"), 0.4)
change("mul_", on("{t}.mul_({v})"))
change("div_", on("{t}.div_(2.0)"), 0.4)
change("copy_", lambda c: _copy(c), 1, core=True)
change("fill_", on("{t}.fill_({n})"), 0.8)
change("zero_", on("{t}.zero_()"), 0.8)
for function in ("tanh_", "sin_", "sigmoid_", "relu_", "neg_", "abs_"):
    change(function, on(f"{{t}}.{function}()"), 0.3)
change("clamp_", on("{t}.clamp_(-1.0, 1.0)"), 0.3)
change("masked_fill_", on("{t}.masked_fill_({t} > 0, {n})"), 0.5)
change("set item", set_part, 3, core=True)
change("set item by a list", rows("{t}[{list}] = {n}"), 0.6, core=True)
change("set item by a Tensor", rows("{t}[torch.tensor({list})] = {n}"), 0.4)
change("set item by a mask", on("{t}[{t} > 0] = {n}", 1), 0.6, core=True)
change("set item of all", on("{t}[:] = {v}", 1), 0.5, core=True)
change("index_fill_", on("{t}.index_fill_({d}, torch.tensor([0]), {n})", 1), 0.3)
change("index_add_", on("{t}.index_add_(0, torch.tensor([0]), {t}[:1] * 0.5)", 1), 0.3)
change("scatter_", on("{t}.scatter_({d}, {t}.argsort({d}), {n})", 1), 0.3)
change("add to an item of the gradient", on("{t}.grad[0] += 1.0", 1, leaf=True), 0.2, core=True)
change("whole +=", on("{t} += 1", whole=True), 0.15)
change("whole set item", on("{t}[0] = 7", 1, whole=True), 0.15)
change(
    "step with momentum",
    on("torch.optim.SGD([{t}], 0.1, momentum=0.9, weight_decay=0.1).step()", leaf=True),
    0.3,
)
change("requires_grad is set", on("{t}.requires_grad = True", leaf=True), 0.2, core=True)
change("requires_grad_", on("{t}.requires_grad_()"), 0.6)
change("requires_grad_(False)", on("{t}.requires_grad_(False)", leaf=True), 0.2)
change("detach_", on("{t}.detach_()"), 0.3)
change("write to data", on("{t}.data.fill_({n})"), 0.4)
change("add to data", on("{t}.data += {n}"), 0.4)
change("write to an item's data", on("{t}[{item}].data.fill_({n})", 1), 0.3)
change("write to what is detached", on("{t}.detach()[{item}] = {n}", 1), 0.4)
change("set data", on("{t}.data = {t}.detach() * 0.5", leaf=True), 0.4)
change("write to the gradient", on("{t}.grad.zero_()", leaf=True), 0.5)
change("add to the gradient", on("{t}.grad.add_({t}.detach(), alpha=0.1)", leaf=True), 0.4)
change("forget the gradient", on("{t}.grad = None", leaf=True), 0.3, core=True)
change("backward", lambda c: f"({loss(c)}).backward(retain_graph=True)", 2, core=True)
change("backward once", lambda c: f"({loss(c)}).backward()", 1.2, core=True)
change("step of SGD", on("torch.optim.SGD([{t}], 0.1).step()", leaf=True), 0.8, core=True)
change("step of Adam", on("torch.optim.Adam([{t}], 0.1).step()", leaf=True), 0.5, core=True)


def _copy(c: Choice) -> str:
    t = c.tensor()
    u = c.beside(t, within=True)
    if u not in c.tensors:
        raise LookupError
    return f"{t}.copy_({u})"


def statement(c: Choice, core: bool, names: int) -> tuple[Kind, str]:
    """Return a statement of a random kind, some of them without gradients; the n-th name is new."""
    kinds = [kind for kind in KINDS if kind.core or not core]
    weights = np.array([kind.weight for kind in kinds])
    while True:
        kind = kinds[int(c.stream.choice(len(kinds), p=weights / weights.sum()))]
        try:
            text = kind.text(c)
        except (LookupError, RuntimeError):
            continue
        if kind.makes:
            text = f"t{names} = {text}"
        if "backward" not in kind.name and c.chance(0.08 if kind.makes else 0.25):
            text = f"with torch.no_grad(): {text}"
        return kind, text
