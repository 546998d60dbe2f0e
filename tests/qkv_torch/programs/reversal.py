"""A Transformer's encoder from its parts learns to reverse sequences; its schedule is a class of the program."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data as data


def scaled_dot_product(q, k, v, mask=None):
    d_k = q.size()[-1]
    attn_logits = torch.matmul(q, k.transpose(-2, -1))
    attn_logits = attn_logits / math.sqrt(d_k)
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
    attention = F.softmax(attn_logits, dim=-1)
    return torch.matmul(attention, v), attention


def expand_mask(mask):
    assert mask.ndim >= 2, "Mask must be at least 2-dimensional"
    if mask.ndim == 3:
        mask = mask.unsqueeze(1)
    while mask.ndim < 4:
        mask = mask.unsqueeze(0)
    return mask


class MultiheadAttention(nn.Module):
    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.qkv_proj, self.o_proj = nn.Linear(input_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        self.qkv_proj.bias.data.fill_(0)
        nn.init.xavier_uniform_(self.o_proj.weight)
        self.o_proj.bias.data.fill_(0)

    def forward(self, x, mask=None, return_attention=False):
        batch_size, seq_length, _ = x.size()
        if mask is not None:
            mask = expand_mask(mask)
        qkv = self.qkv_proj(x).reshape(batch_size, seq_length, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        values, attention = scaled_dot_product(q, k, v, mask=mask)
        values = values.permute(0, 2, 1, 3).reshape(batch_size, seq_length, self.embed_dim)
        o = self.o_proj(values)
        return (o, attention) if return_attention else o


class EncoderBlock(nn.Module):
    def __init__(self, input_dim, num_heads, dim_feedforward, dropout=0.0):
        super().__init__()
        self.self_attn = MultiheadAttention(input_dim, input_dim, num_heads)
        self.linear_net = nn.Sequential(
            nn.Linear(input_dim, dim_feedforward),
            nn.Dropout(dropout),
            nn.ReLU(inplace=True),
            nn.Linear(dim_feedforward, input_dim),
        )
        self.norm1, self.norm2 = nn.LayerNorm(input_dim), nn.LayerNorm(input_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.self_attn(x, mask=mask)))
        return self.norm2(x + self.dropout(self.linear_net(x)))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Predictor(nn.Module):
    def __init__(self, num_classes, model_dim, num_heads, num_layers, dropout=0.0):
        super().__init__()
        self.input_net = nn.Sequential(nn.Dropout(dropout), nn.Linear(num_classes, model_dim))
        self.positional_encoding = PositionalEncoding(d_model=model_dim)
        self.layers = nn.ModuleList(
            [EncoderBlock(model_dim, num_heads, 2 * model_dim, dropout) for _ in range(num_layers)]
        )
        self.output_net = nn.Sequential(
            nn.Linear(model_dim, model_dim), nn.LayerNorm(model_dim), nn.ReLU(inplace=True), nn.Linear(model_dim, num_classes)
        )

    def forward(self, x, mask=None):
        x = self.positional_encoding(self.input_net(x))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.output_net(x)

    @torch.no_grad()
    def get_attention_maps(self, x, mask=None):
        x, maps = self.positional_encoding(self.input_net(x)), []
        for layer in self.layers:
            maps.append(layer.self_attn(x, mask=mask, return_attention=True)[1])
            x = layer(x)
        return maps


class CosineWarmupScheduler(optim.lr_scheduler._LRScheduler):
    def __init__(self, optimizer, warmup, max_iters):
        self.warmup = warmup
        self.max_num_iters = max_iters
        super().__init__(optimizer)

    def get_lr(self):
        lr_factor = self.get_lr_factor(epoch=self.last_epoch)
        return [base_lr * lr_factor for base_lr in self.base_lrs]

    def get_lr_factor(self, epoch):
        lr_factor = 0.5 * (1 + np.cos(np.pi * epoch / self.max_num_iters))
        return lr_factor * (epoch * 1.0 / self.warmup if epoch <= self.warmup else 1)


class ReverseDataset(data.Dataset):
    def __init__(self, num_categories, seq_len, size):
        super().__init__()
        self.size = size
        self.data = torch.randint(num_categories, size=(self.size, seq_len))

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        return self.data[idx], torch.flip(self.data[idx], dims=(0,))


torch.manual_seed(42)
dataset = partial(ReverseDataset, 5, 6)
train_loader = data.DataLoader(dataset(96), batch_size=16, shuffle=True, drop_last=True, pin_memory=False)
test_loader = data.DataLoader(dataset(20), batch_size=8)
model = Predictor(num_classes=5, model_dim=16, num_heads=2, num_layers=1, dropout=0.1)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
scheduler = CosineWarmupScheduler(optimizer=optimizer, warmup=5, max_iters=30)
for epoch in range(3):
    model.train()
    for inp_data, labels in train_loader:
        one_hot = F.one_hot(inp_data, num_classes=5).float()
        preds = model(one_hot)
        loss = F.cross_entropy(preds.view(-1, preds.size(-1)), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
        optimizer.step()
        scheduler.step()
    acc = (preds.argmax(dim=-1) == labels).float().mean()
    print(f"{epoch}: {loss.item():.3f} {acc.item():.2f}", [round(float(lr), 6) for lr in scheduler.get_last_lr()])
model.eval()
right = total = 0
for inp_data, labels in test_loader:
    with torch.no_grad():
        preds = model(F.one_hot(inp_data, num_classes=5).float())
    right += (preds.argmax(dim=-1) == labels).sum().item()
    total += labels.numel()
print(right, total, list(model.state_dict())[:3], dict(model.named_buffers()).keys())
maps = model.get_attention_maps(F.one_hot(inp_data, num_classes=5).float())
print(len(maps), maps[0].shape, maps[0][0, 1].cpu().numpy().round(2).shape, maps[0][0])
causal = torch.tril(torch.ones(6, 6))
print(model.get_attention_maps(F.one_hot(inp_data, num_classes=5).float(), mask=causal)[0][1, 0, :3])
q, k, v = torch.randn(3, 2), torch.randn(3, 2), torch.randn(3, 2)
values, attention = scaled_dot_product(q, k, v)
print(f"Q\n{q}\nValues\n{values}\nAttention\n{attention}")
