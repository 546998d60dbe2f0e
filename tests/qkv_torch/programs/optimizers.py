"""Optimizers, groups of parameters, schedules, data loaders."""

import copy

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, StepLR
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split


def run(make, steps=4):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = make(net)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 5))
    print(losses, net[2].bias)
    return net, optimizer


run(lambda n: optim.SGD(n.parameters(), lr=0.1))
run(lambda n: optim.SGD(n.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01))
run(lambda n: optim.SGD(n.parameters(), lr=0.1, momentum=0.9, nesterov=True))
run(lambda n: optim.Adam(n.parameters(), lr=0.05))
run(lambda n: optim.Adam(n.parameters(), lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1))
run(lambda n: optim.AdamW(n.parameters(), lr=0.05))
net, optimizer = run(
    lambda n: optim.Adam(
        [{"params": n[0].parameters()}, {"params": n[2].parameters(), "lr": 0.5, "weight_decay": 0.01}],
        lr=0.01,
    )
)
print(optimizer, len(optimizer.param_groups), [g["lr"] for g in optimizer.param_groups])
optimizer.param_groups[0]["lr"] *= 0.1
saved = optimizer.state_dict()
print(
    saved["param_groups"][0],
    list(saved["state"]),
    saved["state"][0]["step"],
    saved["state"][2]["exp_avg"].shape,
)
again = optim.Adam([{"params": net[0].parameters()}, {"params": net[2].parameters()}])
again.load_state_dict(copy.deepcopy(saved))
for o in (optimizer, again):
    net.zero_grad()
    net(torch.ones(2, 3)).sum().backward()
    o.step()
    print(net[0].weight[0], net[2].bias)
w = torch.tensor([1.0, 2.0], requires_grad=True)
print(optim.SGD([w], lr=0.1), optim.SGD([w], lr=0.1).state_dict())
sgd = optim.SGD([w], lr=1.0)
for group in sgd.param_groups:
    group["lr"] = 0.25
(w**2).sum().backward()
sgd.step()
print(w, w.grad, sgd.zero_grad(), w.grad)
first, second = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
adam = optim.Adam([{"params": [first]}, {"params": []}, {"params": [second], "lr": 0.5}], lr=0.1)
for _ in range(2):
    adam.zero_grad()
    (first.sum() + (second**2).sum()).backward()
    adam.step()
print(adam.state[first], len(adam.state))
adam.state[second]["exp_avg"].zero_()
adam.add_param_group({"params": w, "weight_decay": 0.5})
w.grad = torch.ones(2)
adam.step()
print(first, second, w, [adam.state[p]["step"].item() for p in (first, second, w)])
sgd = optim.SGD([first], lr=0.1, momentum=0.9, nesterov=True)
sgd.step()
sgd.param_groups[0].update(momentum=0, nesterov=False)
sgd.step()
print(first, sgd.state[first])


def rates(make, steps=7, lr=1.0):
    optimizer = optim.SGD([torch.ones(1, requires_grad=True)], lr=lr)
    schedule = make(optimizer)
    found = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr()[0])
    print(type(schedule).__name__, found)


s = optim.lr_scheduler
rates(lambda o: StepLR(o, 2, gamma=0.5))
rates(lambda o: s.MultiStepLR(o, [2, 5], gamma=0.1))
rates(lambda o: s.ExponentialLR(o, 0.9))
rates(lambda o: CosineAnnealingLR(o, T_max=5, eta_min=0.1))
rates(lambda o: LambdaLR(o, lambda n: min((n + 1) ** -0.5, (n + 1) * 3**-1.5)))


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i)]), "y": i * i, "name": str(i)}


torch.manual_seed(4)
for batch in DataLoader(Squares(), batch_size=3, shuffle=True):
    print(batch)
data = TensorDataset(torch.arange(10.0).view(5, 2), torch.arange(5))
for _ in range(2):
    for x, y in DataLoader(data, batch_size=2, shuffle=True, drop_last=True):
        print(x, y)
print(
    len(DataLoader(data, batch_size=2)),
    len(data),
    data[1],
    next(iter(DataLoader(data, 5)))[1],
    len(DataLoader(data, 2, drop_last=True)),
)
train, test = random_split(data, [3, 2], generator=torch.Generator().manual_seed(42))
print(
    train.indices,
    test.indices,
    [y.item() for _, y in train],
    Subset(data, [4, 0])[0],
)
print(
    [b.tolist() for b in DataLoader([1.0, 2.0, 3.0], batch_size=2)],
    list(DataLoader(["a", "b"], batch_size=2)),
    torch.rand(2),
)
print(
    [b for b in DataLoader(data, batch_size=2, collate_fn=lambda rows: len(rows))],
    list(DataLoader(range(3), batch_size=None)),
)
