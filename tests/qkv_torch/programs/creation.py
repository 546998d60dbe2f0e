"""Making Tensors and printing them."""

import numpy as np
import torch

torch.manual_seed(1)
print(
    torch.tensor([1, 2]),
    torch.tensor([1.0, 2.5]),
    torch.tensor([True, False]),
    torch.tensor(3),
    torch.tensor(2.5),
)
print(
    torch.tensor([[1, 2.0], [3, 4]]), torch.tensor(np.arange(3)), torch.tensor(np.ones(2)), torch.tensor([])
)
print(
    torch.zeros(2, 3),
    torch.ones((2,)),
    torch.full((2, 2), 7),
    torch.full((2,), 0.5),
    torch.eye(3),
    torch.eye(2, 3),
)
print(
    torch.arange(5),
    torch.arange(1, 6, 2),
    torch.arange(0, 1, 0.25),
    torch.arange(3.0),
    torch.arange(5, 0, -2),
)
print(
    torch.linspace(0, 1, 5),
    torch.linspace(-1, 1, 4),
    torch.zeros(0, 3),
    torch.zeros(2, 0),
    torch.empty(0).shape,
)
print(torch.zeros(2, dtype=torch.int32), torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bool))
print(
    torch.zeros_like(torch.ones(2, dtype=torch.int64)),
    torch.ones_like(torch.zeros(2)),
    torch.full_like(torch.ones(2), 3),
)
print(torch.Tensor([1, 2]), torch.FloatTensor([1, 2]), torch.LongTensor([1, 2]), torch.Tensor(2, 3).shape)
print(
    torch.tensor([1e-5, 1.0]),
    torch.tensor([1e9, 1.0]),
    torch.tensor([1e-5, 1e-6]),
    torch.tensor([1000.0, 0.5]),
)
print(
    torch.tensor([float("nan"), 1.0]), torch.tensor([float("inf"), -1.5]), torch.tensor([-float("inf"), 1.0])
)
print(
    torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1e8]), torch.tensor([1.0, 2e8]), torch.tensor([-1, 20, 300])
)
print(torch.arange(2000), torch.rand(40, 40), torch.randn(3, 8, 9)[:, :3])
print(torch.rand(30), torch.rand(2, 2, 2), torch.rand(1, 1, 1, 1))
print(torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64, requires_grad=True) * 2)
print(torch.rand(2, 9, requires_grad=True) * 1, torch.rand(7, 1, requires_grad=True).exp())
print(
    torch.ones(2).dtype,
    torch.ones(2).device,
    torch.ones(2, 3).shape,
    repr(torch.device("cpu")),
    torch.Size([1, 2]),
)
print(
    torch.ones(2, 3).size(),
    torch.ones(2, 3).size(1),
    torch.ones(2, 3).numel(),
    torch.ones(2, 3).dim(),
    len(torch.ones(4)),
)
print(
    torch.ones(2, 3).shape[:-1],
    torch.ones(2, 3).shape + (4,),
    tuple(torch.ones(2, 3).shape),
    torch.ones(2, 3).shape == (2, 3),
)
print(
    torch.ones(2).type(), torch.ones(2).long(), torch.tensor([1.9, -1.9]).int(), torch.tensor([0, 2]).bool()
)
print(
    torch.tensor([1, 2]).float(),
    torch.ones(2).double(),
    torch.ones(2).to(torch.int64),
    torch.ones(2).type(torch.float64),
)
print(
    torch.ones(2).to("cpu"),
    torch.ones(2).to(torch.device("cpu"), torch.float64),
    torch.ones(1).item(),
    torch.tensor([[1, 2]]).tolist(),
)
print(
    torch.finfo(torch.float32).min,
    torch.finfo(torch.float32).eps,
    torch.iinfo(torch.int64).max,
    torch.finfo(torch.float64),
)
print(torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"))
print(
    f"{torch.tensor(3.14159):.2f} {torch.tensor(7)} {torch.ones(2)}",
    str(torch.ones(1)),
    float(torch.tensor(2.5)),
    int(torch.tensor(7)),
)
print(
    torch.tensor([1, 2, 3]).numpy(),
    torch.from_numpy(np.array([1.5, 2.5])),
    np.asarray(torch.ones(2)),
    torch.is_tensor(torch.ones(1)),
)
print(
    torch.uint8, torch.tensor([250, 3], dtype=torch.uint8) + 10, torch.tensor([1, 2], dtype=torch.int32) * 2
)
torch.set_printoptions(precision=2, sci_mode=False)
print(torch.tensor([1e-5, 123.456]), torch.rand(3))
torch.set_printoptions(profile="default")
print(
    torch.tensor([1e-5, 123.456]),
    torch.get_default_dtype(),
    torch.tensor(5) in torch.arange(9),
    torch.ones(2).is_floating_point(),
)
