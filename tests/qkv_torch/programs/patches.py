"""A vision transformer: patches by a convolution whose stride is its kernel, a class token, pre-norm blocks."""

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Patches(nn.Module):
    def __init__(self, image_size, patch_size, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)
        self.num_patches = (image_size // patch_size) ** 2

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width, hidden, heads, dropout=0.0):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads)
        self.layer_norm_2 = nn.LayerNorm(width)
        self.linear = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        inp_x = self.layer_norm_1(x)
        x = x + self.attn(inp_x, inp_x, inp_x)[0]
        return x + self.linear(self.layer_norm_2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width=16, hidden=32, heads=2, layers=2, classes=3, channels=2, image_size=8, patch_size=4):
        super().__init__()
        self.patches = Patches(image_size, patch_size, channels, width)
        self.transformer = nn.Sequential(*(Block(width, hidden, heads) for _ in range(layers)))
        self.mlp_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.randn(1, 1 + self.patches.num_patches, width))

    def forward(self, x):
        x = self.patches(x)
        B, T, _ = x.shape
        x = torch.cat([self.cls_token.repeat(B, 1, 1), x], dim=1)
        x = (x + self.pos_embedding[:, : T + 1]).transpose(0, 1)
        return self.mlp_head(self.transformer(x)[0])


def img_to_patch(x, patch_size, flatten_channels=True):
    B, C, H, W = x.shape
    x = x.reshape(B, C, H // patch_size, patch_size, W // patch_size, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    x = x.flatten(1, 2)
    return x.flatten(2, 4) if flatten_channels else x


torch.manual_seed(3)
images = torch.randn(24, 2, 8, 8)
labels = (images[:, 0, :4, :4].mean((1, 2)) * 6).round().clamp(-1, 1).long() + 1
conv = nn.Conv2d(2, 5, 4, stride=4)
weight = conv.weight.flatten(1)
by_hand = img_to_patch(images, 4) @ weight.T + conv.bias
print(conv, conv.weight.shape, torch.allclose(by_hand, conv(images).flatten(2).transpose(1, 2), atol=1e-5))
print(img_to_patch(images, 4, False).shape)
rows = nn.Conv2d(2, 3, (2, 8), (2, 8), bias=False)
print(rows(images).shape, rows(images)[0, 0].squeeze(-1))

model = VisionTransformer()
optimizer = optim.AdamW(model.parameters(), lr=3e-3)
scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[4, 6], gamma=0.1)
print(sum(p.numel() for p in model.parameters()), [name for name, _ in model.named_parameters()][:4])
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True, drop_last=True)
for epoch in range(7):
    model.train()
    total = 0.0
    for imgs, targets in loader:
        loss = F.cross_entropy(model(imgs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(imgs)
    scheduler.step()
    print(f"{epoch}: {total / len(images):.3f} {scheduler.get_last_lr()[0]:.5f}")
model.eval()
with torch.inference_mode():
    preds = model(images)
    print((preds.argmax(dim=-1) == labels).float().mean(), preds[0])
    places = F.normalize(model.pos_embedding[0, 1:], dim=-1)
    print(places @ places.T)
print(model.patches.proj.weight.grad.norm(), model.cls_token.grad[0, 0, :3])
