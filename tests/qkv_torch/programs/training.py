"""Loops as textbooks write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def synthetic(w, b, count):
    X = torch.normal(0, 1, (count, len(w)))
    y = torch.matmul(X, w) + b
    y += torch.normal(0, 0.01, y.shape)
    return X, y.reshape((-1, 1))


# Linear regression from scratch.
torch.manual_seed(0)
features, labels = synthetic(torch.tensor([2, -3.4]), 4.2, 200)
w = torch.normal(0, 0.01, size=(2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)


def sgd(params, lr, size):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / size
            param.grad.zero_()


for epoch in range(3):
    order = torch.randperm(len(features))
    for i in range(0, len(features), 20):
        batch = order[i : min(i + 20, len(features))]
        loss = (torch.matmul(features[batch], w) + b - labels[batch].reshape((-1, 1))) ** 2 / 2
        loss.sum().backward()
        sgd([w, b], 0.1, 20)
    with torch.no_grad():
        error = ((features @ w + b - labels) ** 2 / 2).mean()
        print(f"epoch {epoch + 1}, loss {float(error):.4f}")
print(w, b, torch.tensor([2, -3.4]) - w.reshape(2))

# The same with layers and a loader.
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(2, 1))
net[0].weight.data.normal_(0, 0.01)
net[0].bias.data.fill_(0)
trainer = optim.SGD(net.parameters(), lr=0.03)
loader = DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True)
for epoch in range(3):
    for X, y in loader:
        loss = nn.MSELoss()(net(X), y)
        trainer.zero_grad()
        loss.backward()
        trainer.step()
    print(f"epoch {epoch + 1}, loss {nn.MSELoss()(net(features), labels):.5f}")
print(net[0].weight.data, net[0].bias.data)


# Classification, with a schedule and clipping.
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.drop, self.out = nn.Linear(2, 16), nn.Dropout(0.2), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.hidden(x))))


torch.manual_seed(2)
X = torch.randn(90, 2)
y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()
model, criterion = Classifier(), nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.02)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
for epoch in range(6):
    model.train()
    total = 0.0
    for xb, yb in DataLoader(TensorDataset(X, y), batch_size=30, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total += loss.item() * xb.size(0)
    scheduler.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(X).argmax(dim=1) == y).float().mean()
    print(epoch, f"{total / len(X):.3f}", f"{accuracy:.2f}", scheduler.get_last_lr())


# A language model with causal attention.
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        mask = torch.tril(torch.ones(T, T)).view(1, 1, T, T)
        att = F.softmax(att.masked_fill(mask[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, vocab, width, length):
        super().__init__()
        self.length = length
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 2) for _ in range(2)])
        self.head = nn.Linear(width, vocab, bias=False)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.1)
        if isinstance(module, nn.Linear) and module.bias is not None:
            torch.nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        logits = self.head(self.blocks(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            logits, _ = self(ids[:, -self.length :])
            probs = F.softmax(logits[:, -1, :], dim=-1)
            ids = torch.cat((ids, torch.multinomial(probs, num_samples=1)), dim=1)
        return ids


torch.manual_seed(3)
text = torch.arange(60) % 7
model = LanguageModel(7, 16, 8)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-2
)
for step in range(12):
    starts = torch.randint(len(text) - 9, (4,))
    x = torch.stack([text[i : i + 8] for i in starts])
    y = torch.stack([text[i + 1 : i + 9] for i in starts])
    logits, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        print(step, f"{loss.item():.3f}")
print(model.eval().generate(torch.zeros((1, 1), dtype=torch.long), 10).tolist())


# Sequence to sequence with teacher forcing.
class Encoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(vocab, width), nn.GRU(width, width)

    def forward(self, src):
        return self.rnn(self.embedding(src.t()))


class Decoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(vocab, width), nn.GRU(2 * width, width)
        self.attention, self.out = nn.Linear(2 * width, 1), nn.Linear(width, vocab)

    def forward(self, token, hidden, outputs):
        repeated = hidden[-1].unsqueeze(1).repeat(1, outputs.shape[0], 1)
        outputs = outputs.permute(1, 0, 2)
        weights = F.softmax(self.attention(torch.cat((repeated, outputs), dim=2)).squeeze(2), dim=1)
        context = torch.bmm(weights.unsqueeze(1), outputs).permute(1, 0, 2)
        embedded = self.embedding(token.unsqueeze(0))
        output, hidden = self.rnn(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output.squeeze(0)), hidden, weights


torch.manual_seed(4)
src = torch.randint(3, 9, (6, 5))
tgt = torch.cat([torch.ones(6, 1, dtype=torch.long), src.flip(1), torch.full((6, 1), 2)], dim=1)
encoder, decoder = Encoder(9, 12), Decoder(9, 12)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)
for step in range(8):
    outputs, hidden = encoder(src)
    loss = 0
    for t in range(1, tgt.shape[1]):
        logits, hidden, weights = decoder(tgt[:, t - 1], hidden, outputs)
        loss = loss + F.cross_entropy(logits, tgt[:, t], ignore_index=0)
    loss = loss / (tgt.shape[1] - 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}", end=" ")
print((weights.sum(1) - 1).abs().max().item() < 1e-6, weights.grad_fn is not None, weights.shape)
