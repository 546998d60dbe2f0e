"""Gradients: leaves, graphs, modes, functions of torch.autograd."""

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = (x**2).sum()
y.backward()
print(x.grad, y, x.is_leaf, y.is_leaf, x.grad_fn, y.requires_grad)
(x * 3).sum().backward()
print(x.grad)
x.grad.zero_()
print(x.grad, x.grad is x.grad)
x.grad = None
print(x.grad)
z = x * 2
z.backward(torch.tensor([1.0, 10.0, 100.0]))
print(x.grad)
w = x.detach()
print(w, w.requires_grad, x.detach().requires_grad_(), (x * 1).detach())
with torch.no_grad():
    print((x * 2).requires_grad, torch.is_grad_enabled())
    with torch.enable_grad():
        print((x * 2).requires_grad)
print(torch.is_grad_enabled())


@torch.no_grad()
def quiet(t):
    return t * 2


print(quiet(x).requires_grad)
with torch.set_grad_enabled(False):
    print((x + 1).requires_grad)
with torch.inference_mode():
    print((x + 1).requires_grad)
a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
f = a**2 * b + b
print(torch.autograd.grad(f, (a, b), retain_graph=True), torch.autograd.grad(f, a))
(slope,) = torch.autograd.grad(a**3, a, create_graph=True)
(second,) = torch.autograd.grad(slope, a)
print(slope.item(), second)
print(torch.autograd.functional.jacobian(lambda t: t**2, torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.jacobian(lambda t: torch.softmax(t, 0), torch.tensor([1.0, 2.0, 0.5])))
p = torch.ones(2, 2, requires_grad=True)
loss = (p @ p).sum() + p[0].prod()
loss.backward(retain_graph=True)
loss.backward()
print(p.grad)
try:
    loss.backward()
except RuntimeError:
    print("a second time")
for bad in (
    lambda: (x * 2).backward(),
    lambda: torch.ones(2).sum().backward(),
    lambda: torch.tensor([1]).requires_grad_(),
):
    try:
        bad()
    except RuntimeError:
        print("RuntimeError")
c = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    loss = ((c - torch.tensor([3.0, -1.0])) ** 2).sum()
    loss.backward()
    with torch.no_grad():
        c -= 0.1 * c.grad
    c.grad.zero_()
    print(loss.item(), c)
e = (c * 2).exp()
e = e / e.sum()
print(e, e.argmax().item())
u = torch.rand(0, 3)
print(u.sum(), u.shape, (u + 1).shape)
mixed = torch.ones(2, dtype=torch.float64, requires_grad=True)
(mixed.float() * 3).sum().backward()
print(mixed.grad, mixed.float())
n = torch.zeros(3, requires_grad=True)
m = n.clone()
m[1] = n[0] * 5
m[2] += 1
print(m)
m.sum().backward()
print(n.grad)
