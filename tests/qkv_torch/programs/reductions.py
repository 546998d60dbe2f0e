"""Sums, extremes, orders, products."""

import torch

x = torch.tensor([[1.0, 5.0, 2.0], [4.0, 0.5, 3.0]])
i = torch.tensor([[3, 1, 2], [1, 1, 9]])
print(
    x.sum(),
    x.sum(0),
    x.sum(dim=1, keepdim=True),
    x.sum(axis=1),
    x.sum((0, 1)),
    x.mean(),
    x.mean(-1),
    x.sum(-1, keepdims=True),
    torch.sum(x, 0),
)
print(
    i.sum(),
    i.sum(0),
    (i > 1).sum(),
    i.float().mean(),
    i.prod(),
    x.prod(1),
    x.var(),
    x.std(),
    x.var(1, unbiased=False),
    x.std(0),
    x.var(dim=1, correction=0),
)
print(
    x.max(),
    x.min(),
    x.max(1),
    x.min(dim=0),
    x.max(1).values,
    x.max(dim=1, keepdim=True)[0],
    x.argmax(),
    x.argmax(1),
    x.argmin(dim=0, keepdim=True),
    x.amax(0),
)
values, indices = torch.max(x, dim=1)
print(
    values,
    indices,
    torch.argmax(x, dim=-1),
    torch.topk(x, 2),
    x.topk(2, dim=1, largest=False).values,
    x.sort(),
    x.sort(descending=True)[1],
    torch.argsort(x, 1),
)
print(
    x.cumsum(0),
    x.cumsum(1),
    i.cumsum(1),
    x.norm(),
    x.norm(dim=1),
    x.norm(p=1),
    torch.norm(x, dim=0),
)
print(
    (x > 1).all(),
    (x > 4).any(),
    (x > 1).all(1),
    torch.any(x > 4, dim=0),
    x.logsumexp(1),
    torch.logsumexp(x, dim=0),
)
print(
    torch.equal(x, x),
    torch.allclose(x, x + 1e-9),
    torch.isclose(x, x + 1),
    x.unique(),
    torch.tensor(3.0).max(),
    torch.tensor([2.0]).argmax(),
)
a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
s, t, v = torch.arange(12.0).view(2, 2, 3), torch.arange(18.0).view(2, 3, 3), torch.tensor([1.0, 2.0, 3.0])
print(
    a @ b,
    torch.matmul(a, v),
    v @ b,
    v @ v,
    torch.mm(a, b),
    torch.bmm(s, t),
    torch.dot(v, v),
    torch.mv(a, v),
    torch.outer(v, v),
    s @ v,
    a @ t,
    s @ b,
)
print(
    torch.einsum("ij,jk->ik", a, b),
    torch.einsum("bij,bjk->bik", s, t),
    torch.einsum("ij->ji", a),
    torch.einsum("ij->", a),
    torch.einsum("i,j->ij", v, v),
)
print(
    torch.einsum("...ij,...jk->...ik", s, t),
    torch.einsum("ii->i", torch.ones(3, 3)),
    torch.einsum("bij,bij->b", s, s),
    torch.einsum("ij,kj,k->i", a, a, v[:2]),
    torch.einsum("ij,jk", a, b),
)
print(
    torch.arange(3) @ torch.arange(3),
)
w = x.clone().requires_grad_()
for y in (
    w.sum(),
    w.mean(),
    w.sum(0),
    w.mean(1, keepdim=True),
    w.max(),
    w.min(),
    w.max(1)[0],
    w.min(0).values,
    w.amax(1),
    w.var(),
    w.std(1),
    w.norm(),
    w.norm(dim=1),
    w.prod(1),
):
    w.grad = None
    y.sum().backward()
    print(y.grad_fn.name(), w.grad)
for y in (
    w.cumsum(1),
    w.sort(1)[0],
    w.topk(2)[0],
    w.logsumexp(1),
    w @ w.T,
    w @ v,
    v.requires_grad_() @ v,
    w.T @ w,
    torch.einsum("ij,kj->ik", w, w),
    w.softmax(1),
    torch.log_softmax(w, 0),
):
    w.grad = None
    y.square().sum().backward()
    print(y.grad_fn.name(), w.grad)
for bad in (
    lambda: a @ a,
    lambda: i.mean(),
    lambda: torch.bmm(a, b),
    lambda: a + torch.ones(4),
    lambda: a @ i.T,
    lambda: torch.mm(s, t),
    lambda: torch.topk(x, 9),
):
    try:
        bad()
        print("no error")
    except RuntimeError:
        print("RuntimeError")
