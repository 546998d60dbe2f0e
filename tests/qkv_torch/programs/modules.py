"""Modules: parameters, buffers, names, text, state dicts, containers."""

import copy
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(5, 3)
        self.layers = nn.ModuleList([nn.Linear(3, width), nn.Linear(width, 2, bias=False)])
        self.scale = nn.Parameter(torch.ones(1) * 0.5)
        self.register_buffer("mask", torch.tril(torch.ones(2, 2)))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, ids):
        h = F.relu(self.layers[0](self.embed(ids)))
        return self.drop(self.layers[1](h)) * self.scale


net = Net(4)
print(net)
print([(n, p.shape, p.requires_grad) for n, p in net.named_parameters()])
print(
    [n for n, _ in net.named_modules()],
    [n for n, _ in net.named_children()],
    [n for n, _ in net.named_buffers()],
)
print(sum(p.numel() for p in net.parameters()), len(list(net.modules())), net.training, net.eval().training)
ids = torch.tensor([[0, 1], [4, 2]])
out = net(ids)
print(out)
print(list(net.state_dict()), net.state_dict()["scale"], net.state_dict()["mask"])
other = Net(4)
print(other.load_state_dict(net.state_dict()), torch.equal(other.eval()(ids), out))
print(other.load_state_dict({"scale": torch.zeros(1), "x": torch.zeros(1)}, strict=False))
for wrong in ({"scale": torch.zeros(2)}, {}):
    try:
        other.load_state_dict(wrong)
    except RuntimeError as error:
        print(str(error)[:70])
twin = copy.deepcopy(net)
twin.scale.data.fill_(9.0)
print(net.scale, twin.scale, twin.layers[0].weight is net.layers[0].weight)
out.sum().backward()
print(net.scale.grad, net.layers[1].weight.grad.shape, net.embed.weight.grad[3])
net.zero_grad()
print(net.scale.grad)
net.apply(lambda m: m.weight.data.zero_() if isinstance(m, nn.Linear) else None)
print(net(ids).abs().sum().item(), net.layers[0].weight.abs().sum())
for p in net.parameters():
    p.requires_grad = False
print(net(ids).requires_grad, net.requires_grad_(True)(ids).requires_grad)
print(
    net.double().scale.dtype,
    net.mask.dtype,
    net.float().scale,
    net.to("cpu") is net,
    net.to(torch.float64).scale,
)
seq = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
print(seq, seq[0], seq[:2], len(seq), seq(torch.ones(2, 2)))
seq.append(nn.Sigmoid())
seq.add_module("last", nn.Identity())
print(seq(torch.ones(1, 2)), [type(m).__name__ for m in seq], list(seq.state_dict()))
named = nn.Sequential(OrderedDict([("fc", nn.Linear(2, 2)), ("act", nn.ReLU())]))
print(named, named.fc.weight.shape)
table = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
print(
    table, "a" in table, list(table.keys()), nn.ParameterList([torch.zeros(2), nn.Parameter(torch.ones(1))])
)
print(nn.ModuleList([nn.Linear(2, 2) for _ in range(3)]), nn.ModuleList([nn.ReLU(), nn.Linear(2, 2)]))
print(
    [
        nn.Linear(2, 3),
        nn.Linear(2, 3, bias=False),
        nn.Embedding(4, 2, padding_idx=0),
        nn.LayerNorm(3),
        nn.LayerNorm((2, 3), eps=1e-6),
    ]
)
print(
    [
        nn.Dropout(0.3),
        nn.Softmax(dim=-1),
        nn.GELU(),
        nn.ReLU(inplace=True),
        nn.SiLU(),
        nn.Flatten(),
        nn.Identity(),
    ]
)
print(
    [
        nn.CrossEntropyLoss(),
        nn.MSELoss(),
        nn.GRU(2, 3, 2, dropout=0.1, batch_first=True),
        nn.LSTM(2, 3),
        nn.RNN(2, 3),
        nn.LazyLinear(3),
        nn.RMSNorm(3),
    ]
)
lazy = nn.LazyLinear(2)
print(lazy.weight, lazy(torch.ones(1, 3)), lazy)
hooked = nn.Linear(1, 1)
handle = hooked.register_forward_hook(lambda module, args, output: print("hook", output.shape))
hooked(torch.ones(2, 1))
handle.remove()
hooked(torch.ones(2, 1))
print(
    nn.Parameter(torch.zeros(2)),
    isinstance(net.scale, torch.Tensor),
    isinstance(net.scale, nn.Parameter),
    hasattr(net, "nothing"),
)
shared = nn.Module()
shared.a = nn.Linear(1, 1)
shared.b = shared.a
print(len(list(shared.parameters())), list(shared.state_dict()), shared)
del shared.b
print(shared, nn.Embedding.from_pretrained(torch.ones(2, 2)).weight)
for m in net.children():
    print(type(m).__name__)
try:
    nn.Module()(1)
except NotImplementedError:
    print("NotImplementedError")
for bounds in ((0.0, 1.0, -2.0, 2.0), (1.0, 1.0, -0.5, 0.5), (0.0, 1.0, 2.0, 2.5)):
    torch.manual_seed(3)
    print(nn.init.trunc_normal_(torch.zeros(3, 5), *bounds), torch.rand(1))
print(nn.utils.clip_grad_norm_(nn.Linear(1, 2).parameters(), 1.0))
