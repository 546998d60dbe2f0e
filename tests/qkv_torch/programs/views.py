"""Views, shapes, and changes in place."""

import torch

a = torch.arange(12)
b = a.reshape(3, 4)
b[:] = 2
print(a)
b[1] = torch.arange(4)
print(a, b.T, b.t().shape, b.view(-1).shape, b.view(2, -1))
x = torch.arange(24.0).view(2, 3, 4)
print(
    x.transpose(1, 2).shape,
    x.permute(2, 0, 1).shape,
    x.permute(2, 0, 1)[0],
    x.unsqueeze(1).shape,
    x[None].shape,
    x.mT.shape,
)
print(
    x.transpose(0, 2).is_contiguous(),
    x.transpose(0, 2).stride(),
    x[:, 1].stride(),
    x.is_contiguous(),
    x[:, :, ::2].stride(),
)
print(
    x.transpose(1, 2).contiguous().view(2, 12)[0],
    x.transpose(1, 2).reshape(-1)[:6],
    x.flatten(1).shape,
    x.flatten().shape,
)
try:
    x.transpose(1, 2).view(2, 12)
except RuntimeError:
    print("view needs contiguous memory")
print(
    x.squeeze().shape,
    x[:1].squeeze(0).shape,
    x[:1].squeeze().shape,
    torch.ones(1, 3, 1).squeeze(-1).shape,
    x.ravel().shape,
)
print(
    torch.ones(3, 1).expand(3, 4),
    torch.ones(1, 2).expand(3, -1).shape,
    torch.arange(2).repeat(3),
    torch.arange(2).repeat(2, 2),
)
print(
    torch.arange(3).repeat_interleave(2),
    torch.repeat_interleave(torch.tensor([[1], [2]]), 2, dim=0),
)
print(
    torch.cat([torch.zeros(1, 2), torch.ones(1, 2)], dim=0),
    torch.cat((a[:2], a[:2])),
    torch.stack([a[:2], a[2:4]], dim=1),
)
print(
    x.chunk(2, dim=2)[1].shape,
    [p.shape for p in x.split([1, 2], dim=1)],
)
print(
    [p.item() for p in torch.arange(3).unbind()],
    torch.arange(6).view(2, 3).swapaxes(0, 1),
    x.size(-1),
)
v = x[0]
v += 100
print(x[0, 0], x[1, 0])
row = x[1, 2]
row[1:3] = -1
x[0].zero_()
x[:, 0, 0] = 7
print(x)
x[x > 20] = 0
x[0, 1] = torch.tensor([1.0, 2.0, 3.0, 4.0])
print(x, v)
d = x.detach()
d[0, 0, 0] = 99
print(x[0, 0], d is x)
e = x.clone()
e[0] = -1
print(x[0, 0, 0], e[0, 0, 0])
w = torch.ones(2, 3, requires_grad=True)
c = w * 2
c[0] = 5
print(c)
c.sum().backward()
print(w.grad)
c = w * 1
part = c[:, 1]
part *= 3
print(c, part)
(c * torch.arange(6.0).view(2, 3)).sum().backward()
print(w.grad)
scores = w * torch.arange(6.0).view(2, 3)
scores.masked_fill_(torch.tensor([[False, True, False], [True, False, False]]), -1e9)
print(scores)
for change in (lambda: w.mul_(2), lambda: w.__setitem__(0, 1.0), lambda: w[0].add_(1)):
    try:
        change()
    except RuntimeError:
        print("a leaf that requires grad")
with torch.no_grad():
    w -= 0.5
    w[0, 0] = 9
print(w)
w.data[1] = 3
w.data += 1
print(w, w.grad_fn, w.is_leaf, w.data.requires_grad)
w.data = torch.zeros(4)
print(w)
before = id(a)
a += 1
print(id(a) == before, a)
z = torch.zeros_like(x)
z[:] = x + 1
print(z[1, 2], z.fill_(1).sum())
q = torch.zeros(2, 2)
p = q.view(4)
q += torch.arange(4.0).view(2, 2)
print(p, q.T)
t = q.t()
t[0] = 50
print(q, p)
u = w.view(2, 2)
with torch.no_grad():
    u[0, 1] = 4
print(w, q.unflatten(0, (1, 2)).shape)
