"""Picking numbers."""

import torch

x = torch.arange(24.0).reshape(2, 3, 4)
i = torch.tensor([1, 0])
print(
    x[0], x[-1, 1], x[0, 1, 2], x[:, 1], x[..., 0], x[:, 1:, ::2], x[:, None].shape, x[0, :, None, 1:3].shape
)
print(
    x[i],
    x[:, [0, 2]],
    x[[0, 1], [1, 2]],
    x[:, i, 0],
    x[x > 20],
    x[i > 0].shape,
    x[torch.tensor(1)].shape,
    x[0][x[0] > 5],
)
print(
    x.index_select(2, torch.tensor([3, 0])),
    x.gather(2, torch.tensor([[[0], [1], [2]], [[3], [2], [1]]])),
    x.select(1, 2),
)
print(
    x.masked_fill(x > 3, -1),
)
print(
    torch.nonzero(torch.tensor([0, 3, 0, 4])),
    torch.nonzero(torch.eye(2), as_tuple=True),
)
print(
    torch.triu(torch.ones(3, 3)),
    torch.tril(torch.ones(3, 3), diagonal=-1),
    torch.triu(torch.ones(2, 3), 1).bool(),
    torch.full((2, 2), 5).tril(),
)
print(
)
print(
    x.diagonal(0, 1, 2),
    x.flip(0)[0],
    torch.roll(torch.arange(5), 2),
    torch.arange(6).view(2, 3).roll(1, 1),
)
print(
    torch.zeros(2, 4).scatter_(1, torch.tensor([[1], [2]]), 1.0),
    torch.zeros(2, 3).scatter(1, torch.tensor([[0, 2], [1, 1]]), torch.ones(2, 2)),
)
print(
    torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0])),
    torch.zeros(3, 2).index_add(0, torch.tensor([0, 0]), torch.ones(2, 2)),
)
print(
    torch.arange(7).unfold(0, 3, 2),
    torch.bincount(torch.tensor([0, 1, 1, 3])),
    torch.unique(torch.tensor([3, 1, 3])),
)
n = torch.tensor(2)
print(x[:, :n].shape, list(range(n)), torch.ones(n).shape, torch.arange(n), x[n - 1].shape, [0, 1, 2][n])
for row in torch.arange(4).view(2, 2):
    print(row, row.sum().item())
w = torch.arange(6.0).view(2, 3).requires_grad_()
for y in (
    w[0],
    w[:, 1],
    w[1:],
    w[i],
    w[w > 2],
    w[0, 1],
    w[:, None],
    w[..., 0],
    w[:],
    w.gather(1, i.view(2, 1)),
    w.index_select(0, i),
    w.triu(),
):
    w.grad = None
    y.square().sum().backward()
    print(y.grad_fn.name(), w.grad)
for y in (
    w.masked_fill(w > 3, 0),
    w.flip(1),
    w.roll(1),
    w.diagonal(),
    w.repeat(2, 1),
    w.repeat_interleave(2, 0),
):
    w.grad = None
    y.square().sum().backward()
    print(y.grad_fn.name() if y.dim() else "", w.grad)
for bad in (
    lambda: x[2],
    lambda: x[0, 0, 0, 0],
    lambda: x[::-1],
    lambda: x[0.5],
    lambda: torch.tensor([1, 2]).view(3),
):
    try:
        bad()
        print("no error")
    except (IndexError, ValueError, RuntimeError, TypeError) as error:
        print(type(error).__name__)
