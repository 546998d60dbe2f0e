"""Layers, activations and losses as functions and as modules."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)
x = torch.randn(2, 3, 4)
print(
    nn.Linear(4, 2)(x),
    nn.Linear(4, 2, bias=False)(x[0]),
    nn.Linear(4, 2)(x[0, 0]),
    F.linear(x, torch.ones(2, 4), torch.tensor([1.0, 2.0])),
)
print(
    nn.LayerNorm(4)(x),
    F.layer_norm(x, (3, 4)),
    nn.RMSNorm(4)(x),
    nn.LayerNorm(4, elementwise_affine=False)(x),
)
table = nn.Embedding(5, 2, padding_idx=1)
ids = torch.tensor([[0, 1], [4, 4]])
print(
    table.weight,
    table(ids),
    F.embedding(ids, table.weight),
    F.one_hot(ids, 5),
    F.one_hot(torch.tensor([0, 2])),
)
table(ids).sum().backward()
print(table.weight.grad)
v = torch.linspace(-2.5, 3.5, 7).requires_grad_()
for f in (
    F.relu,
    F.gelu,
    F.silu,
    F.softplus,
    F.logsigmoid,
    F.tanh,
    F.sigmoid,
):
    v.grad = None
    y = f(v)
    y.sum().backward()
    print(y, v.grad)
print(
    F.gelu(v, approximate="tanh"),
    F.softmax(x, dim=-1)[0],
    F.log_softmax(x, dim=1)[0, 0],
    x.softmax(0)[0, 0],
)
print(F.normalize(x[0]))
print(
    F.pad(torch.ones(1, 2), (1, 2)),
    F.pad(torch.ones(2, 2), (0, 1, 1, 0), value=5.0),
    F.pad(torch.arange(4), (-1, 1)),
)
torch.manual_seed(5)
print(
    F.dropout(torch.ones(3, 6), 0.5),
    nn.Dropout(0.2)(torch.ones(8)),
    nn.Dropout(0.5).eval()(torch.ones(3)),
    F.dropout(torch.ones(2), 0.5, training=False),
)
print(F.dropout(torch.ones(4, 3).T, 0.5), F.dropout(torch.ones(2, 3, 4).transpose(0, 1), 0.3))
z, t = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 2, 1, 1])
for loss in (
    F.cross_entropy(z, t),
    F.cross_entropy(z, t, reduction="sum"),
    F.cross_entropy(z, t, reduction="none").sum(),
    F.cross_entropy(z, t, label_smoothing=0.1),
    F.cross_entropy(z, t, ignore_index=1),
    F.cross_entropy(z, t, weight=torch.tensor([1.0, 2.0, 3.0])),
    F.cross_entropy(z, torch.softmax(torch.ones(4, 3), 1)),
    F.nll_loss(F.log_softmax(z, 1), t),
    F.mse_loss(z, torch.ones(4, 3)),
    F.l1_loss(z, torch.ones(4, 3)),
    F.binary_cross_entropy_with_logits(z, torch.ones(4, 3)),
    F.binary_cross_entropy(torch.sigmoid(z), torch.zeros(4, 3)),
    F.kl_div(F.log_softmax(z, 1), torch.softmax(torch.arange(12.0).view(4, 3), 1), reduction="batchmean"),
):
    z.grad = None
    loss.backward()
    print(loss, z.grad[0])
print(
    F.cross_entropy(torch.randn(2, 5, 3), torch.tensor([[0, 1, 4], [2, 2, 2]])),
    F.cross_entropy(z[0], t[0]),
    F.mse_loss(z, z.detach() + 1, reduction="none")[0],
)
print(
    nn.CrossEntropyLoss(ignore_index=0)(z, t),
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))(z, torch.ones(4, 3)),
    nn.NLLLoss()(z, t),
)
print(
    nn.MSELoss()(z, z * 0),
    nn.L1Loss(reduction="sum")(z, z * 0),
    nn.BCELoss()(z.sigmoid(), z.detach() * 0),
    nn.KLDivLoss()(z, z.detach().abs()),
)
q, k, w = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 6)
print(
    F.scaled_dot_product_attention(q, k, w)[0, 0],
    F.scaled_dot_product_attention(q, k, w, is_causal=True)[0, 0],
    F.scaled_dot_product_attention(q, k, w, scale=1.0)[1, 1],
)
allowed = torch.tensor([True, False, True, True, False])
print(
    F.scaled_dot_product_attention(q, k, w, attn_mask=allowed.expand(3, 5))[0, 0],
    F.scaled_dot_product_attention(q, k, w, attn_mask=torch.ones(3, 5))[0, 0],
)
torch.manual_seed(9)
w = torch.empty(3, 5)
for name in (
    "uniform_",
    "normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "zeros_",
    "ones_",
):
    print(name, getattr(nn.init, name)(w)[0])
print(
    nn.init.constant_(w, 2.5)[0],
    nn.init.uniform_(w, -1, 1)[0],
    nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu")[0],
    nn.init.calculate_gain("tanh"),
)
print(
    nn.utils.clip_grad_norm_([z], 0.1),
    z.grad.norm(),
)
print(
    nn.utils.rnn.pad_sequence([torch.arange(3), torch.arange(2)], batch_first=True, padding_value=-1),
)
