"""A GPT with its mask as a buffer, weight decay by kind of module, and sampling among the most likely tokens."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, length, dropout):
        super().__init__()
        assert width % heads == 0
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        self.n_head, self.n_embd = heads, width

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    def __init__(self, width, heads, length, dropout):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length, dropout)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(width, 4 * width),
                c_proj=nn.Linear(4 * width, width),
                act=NewGELU(),
                dropout=nn.Dropout(dropout),
            )
        )
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlpf(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, length, layers=2, heads=2, width=16, dropout=0.1):
        super().__init__()
        self.block_size = length
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab, width),
                wpe=nn.Embedding(length, width),
                drop=nn.Dropout(dropout),
                h=nn.ModuleList([Block(width, heads, length, dropout) for _ in range(layers)]),
                ln_f=nn.LayerNorm(width),
            )
        )
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))
        print("number of parameters:", sum(p.numel() for p in self.transformer.parameters()))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
        elif isinstance(module, nn.LayerNorm):
            torch.nn.init.zeros_(module.bias)
            torch.nn.init.ones_(module.weight)

    def configure_optimizers(self, lr, weight_decay):
        decay, no_decay = set(), set()
        for prefix, module in self.named_modules():
            for name, _ in module.named_parameters(recurse=False):
                full = f"{prefix}.{name}" if prefix else name
                if name.endswith("weight") and isinstance(module, (torch.nn.Linear,)):
                    decay.add(full)
                elif name.endswith("bias") or isinstance(module, (torch.nn.LayerNorm, torch.nn.Embedding)):
                    no_decay.add(full)
        params = {name: p for name, p in self.named_parameters()}
        assert not decay & no_decay and len(params.keys() - (decay | no_decay)) == 0
        groups = [
            {"params": [params[name] for name in sorted(decay)], "weight_decay": weight_decay},
            {"params": [params[name] for name in sorted(no_decay)], "weight_decay": 0.0},
        ]
        print(len(decay), len(no_decay), sorted(no_decay)[:4])
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))

    def forward(self, idx, targets=None):
        device = idx.device
        _, t = idx.size()
        assert t <= self.block_size, f"Cannot forward {t} tokens"
        pos = torch.arange(0, t, dtype=torch.long, device=device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits, loss = self.lm_head(self.transformer.ln_f(x)), None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0, do_sample=False, top_k=None):
        for _ in range(count):
            idx_cond = idx if idx.size(1) <= self.block_size else idx[:, -self.block_size :]
            logits = self(idx_cond)[0][:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, top_k)
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            if do_sample:
                idx_next = torch.multinomial(probs, num_samples=1)
            else:
                _, idx_next = torch.topk(probs, k=1, dim=-1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


class SortDataset(Dataset):
    """Three digits and then the same in order; the first ones are not to be predicted."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        inp = torch.randint(3, size=(4,), dtype=torch.long)
        cat = torch.cat((inp, torch.sort(inp)[0]), dim=0)
        x, y = cat[:-1].clone(), cat[1:].clone()
        y[:3] = -1
        return x, y


torch.manual_seed(3407)
model = GPT(vocab=3, length=7)
optimizer = model.configure_optimizers(lr=5e-3, weight_decay=0.1)
loader = DataLoader(SortDataset(), shuffle=False, batch_size=16)
model.train()
batches = iter(loader)
for step in range(20):
    try:
        batch = next(batches)
    except StopIteration:
        batches = iter(loader)
        batch = next(batches)
    x, y = [t.to("cpu") for t in batch]
    logits, loss = model(x, y)
    model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step}: loss {loss.item():.4f}")
model.eval()
with torch.no_grad():
    print([[f"{logit:.3f}" for logit in row] for row in model(x)[0][0].tolist()])
print(model.transformer.h[1].attn.c_proj.weight[0, :4], model.transformer.h[0].attn.bias.shape)
print([name for name, _ in model.named_buffers()], "transformer.h.0.attn.bias" in model.state_dict())
start = torch.tensor([[2, 0, 1, 0]], dtype=torch.long)
print(model.generate(start, 4), model.generate(start, 6, temperature=0.9, do_sample=True, top_k=2).tolist())
