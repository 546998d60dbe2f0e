"""A training script: fused attention, tied weights, accumulated gradients, a schedule by hand, checkpoints."""

import inspect
import math
import os
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block_size: int = 8
    vocab_size: int = 11
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 16
    dropout: float = 0.0
    bias: bool = False


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        n, self.n_head, self.dropout = config.n_embd, config.n_head, config.dropout
        self.ln_1, self.ln_2 = LayerNorm(n, bias=config.bias), LayerNorm(n, bias=config.bias)
        self.c_attn, self.c_proj = nn.Linear(n, 3 * n, config.bias), nn.Linear(n, n, bias=config.bias)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n, config.bias), nn.GELU(), nn.Linear(4 * n, n, config.bias))
        assert hasattr(torch.nn.functional, "scaled_dot_product_attention")

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        rate = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=rate, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, n = config, config.n_embd
        self.wte, self.wpe = nn.Embedding(config.vocab_size, n), nn.Embedding(config.block_size, n)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = LayerNorm(n, bias=config.bias)
        self.lm_head = nn.Linear(n, config.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, mean=0.0, std=0.1)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def configure_optimizers(self, weight_decay, lr):
        params = {name: p for name, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        fused = "fused" in inspect.signature(torch.optim.AdamW).parameters
        extra = dict(fused=True) if fused and torch.cuda.is_available() else dict()
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), **extra)


text = torch.arange(200) ** 2 % 11
device_type, dtype = "cpu", "float32"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, dtype=ptdtype)


def get_batch(generator):
    ix = torch.randint(len(text) - 8, (4,), generator=generator)
    x = torch.stack([text[i : i + 8] for i in ix])
    return x, torch.stack([text[i + 1 : i + 9] for i in ix])


def get_lr(it, warmup=3, last=10, highest=1e-2, lowest=1e-3):
    if it < warmup:
        return highest * (it + 1) / (warmup + 1)
    if it > last:
        return lowest
    return lowest + 0.5 * (1.0 + math.cos(math.pi * (it - warmup) / (last - warmup))) * (highest - lowest)


def train(model, optimizer, first, last, accumulation=2):
    generator = torch.Generator().manual_seed(first)
    scaler = torch.amp.GradScaler(enabled=(dtype == "float16"))
    losses = []
    for it in range(first, last):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(it)
        for _ in range(accumulation):
            with ctx:
                _, loss = model(*get_batch(generator))
                loss = loss / accumulation
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() * accumulation)
    print(" ".join(f"{x:.3f}" for x in losses), f"norm {norm.item():.3f}")


@torch.no_grad()
def estimate(model):
    model.eval()
    generator, losses = torch.Generator().manual_seed(9), torch.zeros(5)
    for k in range(5):
        with ctx:
            losses[k] = model(*get_batch(generator))[1].item()
    model.train()
    return losses.mean()


torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
model = GPT(Config())
optimizer = model.configure_optimizers(1e-1, 1e-2)
print(sum(p.numel() for p in model.parameters()), model.wte.weight is model.lm_head.weight, sorted(model.state_dict())[:3])
train(torch.compile(model), optimizer, 0, 8)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "ckpt.pt")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": 8, "args": asdict(model.config)}
    torch.save(state, path)
    checkpoint = torch.load(path, map_location="cpu")
resumed = GPT(Config(**checkpoint["args"]))
print(resumed.load_state_dict(checkpoint["model"]), resumed.wte.weight is resumed.lm_head.weight)
second = resumed.configure_optimizers(1e-1, 1e-2)
second.load_state_dict(checkpoint["optimizer"])
print(estimate(model), torch.equal(estimate(model), estimate(resumed)))
train(model, optimizer, checkpoint["iter_num"], 12)
train(resumed, second, checkpoint["iter_num"], 12)
print(estimate(resumed), all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters())))

# Weights that another program keeps transposed.
source = {k: v.t().contiguous() if k.endswith("c_attn.weight") else v for k, v in resumed.state_dict().items()}
fresh = GPT(Config())
target = fresh.state_dict()
for k in source:
    with torch.no_grad():
        target[k].copy_(source[k].t() if k.endswith("c_attn.weight") else source[k])
print(estimate(fresh), torch.equal(estimate(fresh), estimate(resumed)))
