"""Numbers one by one: dtypes of results, names of gradients."""

import torch

x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -0.125]])
y = torch.tensor([2.0, 4.0, 8.0])
i, b = torch.tensor([1, 2, 3]), torch.tensor([True, False, True])
print(x + y, x - 1, 2 * x, x / y, 1 - x, 2 / y, x**2, x**3, 2**y, y**0.5, y**-1, -x, abs(x))
print(i + 1, i / 2, i * 1.5, i // 2, i % 2, -i, i**2, 7 // i, i + b, i + y, i - 0.5, 10 % i, i / i)
print(
    x > 0, x == 1, i >= 2, i != 2, b & (i > 1), b | (i > 5), ~b, b ^ True, x > y, (x > 0).sum(), b + b, b * b
)
print(
    x.exp(),
    y.log(),
    y.sqrt(),
    y.rsqrt(),
    x.sin(),
    x.cos(),
    x.tanh(),
    x.sigmoid(),
    x.relu(),
    x.abs(),
)
print(
    x.floor(),
    x.ceil(),
    x.round(),
    x.trunc(),
    x.square(),
    x.erf(),
    x.expm1(),
    y.log1p(),
    y.log2(),
    y.log10(),
)
print(
    x.clamp(0, 1),
    x.clamp(min=0),
    torch.clip(x, -1, 1),
    torch.maximum(x, y),
    torch.minimum(x, y),
    torch.max(x, y),
)
print(
    torch.where(x > 0, x, y),
    torch.where(x > 0, 1.0, 0.0),
    torch.where(b)[0],
    torch.pow(10000, y / 8),
    torch.pow(y, 2),
)
print(
    torch.add(x, y, alpha=2),
    torch.sub(x, y),
    torch.mul(x, 2),
    torch.div(i, 2, rounding_mode="floor"),
    torch.exp(-y),
    torch.abs(x),
)
print(
    torch.tensor(1.5) * i,
    torch.tensor(2, dtype=torch.float64) * y,
    torch.ones(2, dtype=torch.float64) * torch.ones(2),
)
print((i.int() + 1).dtype, (i.int() + i).dtype, (i.int() * 0.5).dtype, (i == i).dtype, (b.float() - 1).dtype)
print(
    torch.logical_and(b, i > 2), torch.logical_not(b), torch.isnan(x), torch.isinf(y / 0), torch.isfinite(x)
)
print(
    torch.lerp(x, x + 1, 0.5), x.fmod(2), y.fmod(3)
)
x.requires_grad_()
y.requires_grad_()
for z in (
    x + y,
    x - y,
    x * y,
    x / y,
    1 - x,
    2 / y,
    x**2,
    x**y,
    2**x,
    -x,
    x.exp(),
    y.log(),
    y.sqrt(),
    x.sin(),
    x.tanh(),
    x.abs(),
):
    print(z)
for z in (
    x.sigmoid(),
    x.relu(),
    x.clamp(0, 1),
    torch.maximum(x, y),
    torch.where(x > 0, x, y),
    x.square(),
    x.sum(),
    x.mean(1),
):
    print(z.grad_fn.name(), z.requires_grad, z.is_leaf)
for f in (
    torch.exp,
    torch.sin,
    torch.cos,
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.abs,
    torch.square,
    torch.erf,
    torch.expm1,
):
    x.grad = None
    f(x).sum().backward()
    print(f.__name__, x.grad)
for f in (torch.log, torch.sqrt, torch.rsqrt, torch.log1p, torch.log2):
    y.grad = None
    f(y).sum().backward()
    print(f.__name__, y.grad)
z = (x * y).detach()
z += 1
z *= 2
z -= y.detach()
z /= 4
print(
    z,
    z.add_(1),
    z.mul_(2).sub_(1),
    (z - 3).exp_().clamp_(max=500.0).sqrt_(),
    z.zero_(),
    z.fill_(3),
    z.requires_grad,
)
print(torch.erf(torch.tensor([1e-30, -3e-7, 2e-4, 0.03, 1.0, 7.0])) * 1e4)
