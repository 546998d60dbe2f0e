"""Random programs of statements on Tensors: views, changes in place, arithmetic, gradients.

Results are made contiguous, as PyTorch gives some the strides of their operands. Not written: views under no_grad of
what requires a gradient (PyTorch says that they require one, which does not flow), and requires_grad_() of a base whose
views exist (PyTorch says then that these are leaves that require one).

A program is Python source on ``torch`` and a list ``t`` of Tensors, so that one that fails can be read and run by hand.
Which statements make sense depends on the Tensors that there are; PyTorch's are asked.
"""

from __future__ import annotations

import random
from typing import Any

SHAPES = [(3, 4), (4, 3), (12,), (2, 3, 2), (1, 4), (3, 3), ()]
MOST_NUMBERS = 300
OPERATIONS = [
    "t[{i}] + t[{j}]",
    "t[{i}] * t[{j}]",
    "t[{j}] - t[{i}]",
    "t[{i}].tanh()",
    "t[{i}] * 1.5",
    "t[{i}].abs().sqrt()",
    "torch.where(t[{j}] > 0, t[{i}], t[{j}])",
    "t[{i}].clamp(-1, 1)",
    "torch.maximum(t[{i}], t[{j}])",
    "torch.softmax(t[{i}].reshape(1, -1), 1)",
    "torch.stack([t[{i}], t[{i}]])",
    "t[{i}].sin() / 2",
]
CHANGES = [
    "t[{i}].add_({o})",
    "t[{i}].mul_({o})",
    "t[{i}] += {o}",
    "t[{i}] *= 0.5",
    "t[{i}].tanh_()",
    "t[{i}].copy_(torch.as_tensor({o}))",
    "t[{i}].zero_()",
    "t[{i}].fill_(0.25)",
    "t[{i}].sub_({o}, alpha=2)",
    "t[{i}].clamp_(-1, 1)",
    "t[{i}].masked_fill_(t[{i}] > 0, 0.5)",
    "t[{i}] -= 1",
    "t[{i}].neg_()",
]


class Writer:
    """Writes statements that fit the Tensors `t` of PyTorch."""

    def __init__(self, seed: int, torch: Any) -> None:
        self.draw = random.Random(seed)
        self.torch = torch

    def leaf(self) -> str:
        """A new leaf of numbers that are the same everywhere."""
        shape, seed = self.draw.choice(SHAPES), self.draw.randrange(10**6)
        wants = self.draw.random() < 0.5
        count = 1
        for n in shape:
            count *= n
        made = f"torch.tensor(numbers({seed}, {count})).reshape({shape}).detach()"
        return f"t.append({made}.requires_grad_({wants}))"

    def statement(self, t: list[Any]) -> str:
        """One statement; now and then without recording."""
        draw = self.draw
        kinds = [self.view] * 5 + [self.operation] * 3 + [self.in_place] * 5 + [self.set_item] * 3
        kinds += [self.copy, self.reduction, self.leaf_change]
        try:
            text = draw.choice(kinds)(t) or self.leaf()
        except (RuntimeError, IndexError):  # PyTorch refuses to look at some views whose base was changed
            text = self.leaf()
        quiet = draw.random() < 0.2 and not (text.startswith("t.append") and any(x.requires_grad for x in t))
        return f"with torch.no_grad(): {text}" if quiet else text

    def any(self, t: list[Any]) -> int:
        """The number of a Tensor, more often a late one."""
        return max(self.draw.randrange(len(t)), self.draw.randrange(len(t)))

    # Views.

    def view(self, t: list[Any]) -> str | None:
        i = self.any(t)
        made = self.view_of(t[i])
        return f"t.append(t[{i}]{made})" if made else None

    def view_of(self, x: Any) -> str | None:
        """The end of an expression that shows a part of x."""
        draw, n = self.draw, x.dim()
        axis = draw.randrange(n) if n else 0
        size = x.shape[axis] if n else 1
        k = draw.randrange(15)
        if k == 0:
            return f".unsqueeze({draw.randrange(n + 1)})" if n < 4 else None
        if k == 1:
            return ".squeeze()"
        if k == 2:
            return draw.choice([".detach()", ".data", f".view_as(torch.zeros({tuple(x.shape)}))"])
        if n == 0 or size == 0:
            return None
        if k in (3, 4):
            return f"[{self.index(x)}]"
        if k == 5:
            return f".select({axis}, {draw.randrange(size)})"
        if k == 6:
            begin = draw.randrange(size)
            return f".narrow({axis}, {begin}, {draw.randint(1, size - begin)})"
        if k in (7, 8) and n >= 2:
            axes = draw.sample(range(n), n)
            return draw.choice([f".permute({axes})", ".mT", f".transpose({axes[0]}, {axes[1]})"])
        if k == 9:
            return draw.choice([".reshape(-1)", ".flatten()", ".view(-1)"])
        if k == 10 and x.numel() * 2 <= MOST_NUMBERS and n < 4:
            return f".expand(2, {', '.join(['-1'] * n)})"
        if k == 11 and n >= 2:
            return f".diagonal({draw.randint(-1, 1)}, 0, 1)"
        if k == 12 and size >= 2 and n < 4:
            return f".unfold({axis}, {draw.randint(1, size)}, {draw.randint(1, 2)})"
        if k == 13:
            return f".{draw.choice(['chunk', 'split'])}({draw.randint(1, size)}, {axis})[{0}]"
        return f".unbind({axis})[{draw.randrange(size)}]"

    def index(self, x: Any) -> str:
        """Whole numbers, slices, None and an ellipsis."""
        draw, items = self.draw, []
        for size in x.shape[: draw.randint(1, x.dim())]:  # None takes none of them, so later ones may not fit
            k = draw.random()
            if k < 0.3 and size:
                items.append(str(draw.randrange(-size, size)))
            elif k < 0.8:
                begin, end = draw.randint(0, size), draw.randint(0, size)
                items.append(f"{min(begin, end) or ''}:{max(begin, end) or ''}:{draw.choice(['', '', '2'])}")
            elif k < 0.9:
                items.append(":")
            else:
                items.append("None")
        if draw.random() < 0.1:
            items.append("...")
        return ", ".join(items)

    # Computation.

    def fitting(self, t: list[Any], x: Any) -> list[int]:
        """Tensors that broadcast to x's shape."""
        found = []
        for i, other in enumerate(t):
            try:
                if self.torch.broadcast_shapes(other.shape, x.shape) == x.shape:
                    found.append(i)
            except RuntimeError:
                pass
        return found

    def operation(self, t: list[Any]) -> str | None:
        i = self.any(t)
        if t[i].numel() > MOST_NUMBERS:
            return None
        j = self.draw.choice(self.fitting(t, t[i]))
        forms = list(OPERATIONS)
        if t[i].dim() == 2:
            forms += ["t[{i}] @ t[{i}].T", "t[{i}].T @ t[{i}]", "torch.einsum('ij,ij->i', t[{i}], t[{i}])"]
        if t[i].dim() and t[i].shape[0]:
            forms += [
                "t[{i}][[0, -1]]",
                "torch.cat([t[{i}], t[{i}]])",
                "t[{i}][t[{i}] > 0]",
                "t[{i}].flip(0)",
            ]
        return "t.append((" + self.draw.choice(forms).format(i=i, j=j) + ").contiguous())"

    def reduction(self, t: list[Any]) -> str | None:
        i = self.any(t)
        if not t[i].dim() or not t[i].numel():
            return None
        axis = self.draw.randrange(t[i].dim())
        name = self.draw.choice(["sum", "mean", "amax", "cumsum", "logsumexp", "softmax"])
        return f"t.append(t[{i}].{name}({axis}).contiguous())"

    def copy(self, t: list[Any]) -> str | None:
        i = self.any(t)
        leaves = [k for k, x in enumerate(t) if x.is_leaf and x.is_contiguous()]
        forms = [f"t.append(t[{i}].clone().contiguous())", f"t.append(t[{i}].contiguous())"]
        if leaves:
            j = self.draw.choice(leaves)
            forms += [f"t += deepcopy([t[{j}], t[{j}]])[:1]"]
        return self.draw.choice(forms)

    # Changes.

    def operand(self, t: list[Any], x: Any) -> str:
        """A Tensor that broadcasts to x; a copy if it shows memory of x otherwise than x does."""
        fitting = self.fitting(t, x)
        if not fitting:
            return "2.5"
        j = self.draw.choice(fitting)
        other = t[j]
        alike = other.shape == x.shape and other.stride() == x.stride() and other.data_ptr() == x.data_ptr()
        shared = other.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        return f"t[{j}]" + (".clone()" if shared and not alike else "")

    def in_place(self, t: list[Any]) -> str | None:
        i = self.any(t)
        other = self.operand(t, t[i])
        return self.draw.choice(CHANGES).format(i=i, o=other)

    def set_item(self, t: list[Any]) -> str | None:
        i = self.any(t)
        if not t[i].dim() or not t[i].numel():
            return None
        index = self.index(t[i])
        part = eval(f"x[{index}]", {"x": t[i]})
        if self.draw.random() < 0.25:
            return f"t[{i}][t[{i}].detach() > 0] = 0.75"
        if self.draw.random() < 0.3:
            return f"t[{i}][{index}] = -0.5"
        if self.draw.random() < 0.3:
            return f"t[{i}][{index}] *= 3"
        return f"t[{i}][{index}] = {self.operand(t, part)}"

    def leaf_change(self, t: list[Any]) -> str | None:
        leaves = [k for k, x in enumerate(t) if x.is_leaf and x.requires_grad]
        alone = [x.untyped_storage().data_ptr() for x in t]
        plain = [
            k for k, x in enumerate(t) if x.is_leaf and not x.requires_grad and alone.count(alone[k]) == 1
        ]
        forms = []
        if leaves:
            i = self.draw.choice(leaves)
            forms += [f"torch.optim.SGD([t[{i}]], 0.1).step()", f"t[{i}].data = t[{i}].detach() * 2"]
        if plain:
            forms.append(f"t[{self.draw.choice(plain)}].requires_grad_()")
        return self.draw.choice(forms) if forms else None
