"""Computations: layers, models, trainings, generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import qkv
from qkv import losses, models, nn, optim

from .record import Hashes, draw, filled

IDS = np.random.default_rng(1).integers(3, 60, (4, 24))
NEXT = np.roll(IDS, -1, 1)


def layers(h: Hashes) -> None:
    """Layers, in inference and in a step of training."""
    h.family = "layers"
    x, y, ids = draw(2, 33, 64), draw(2, 20, 64), np.arange(60).reshape(2, 30) % 50
    Encoder = nn.TransformerEncoderLayer
    h.layer("GRU", lambda: nn.GRU(16, 32), draw(5, 9, 16))
    h.layer("GRU of two", lambda: nn.GRU(16, 50, num_layers=2), draw(3, 20, 16))
    h.layer("GRU of one item", lambda: nn.GRU(7, 5), draw(1, 4, 7))
    h.layer("heads", lambda: nn.MultiHeadAttention(64, 4), x, x, x)
    h.layer(
        "heads with rotations",
        lambda: nn.MultiHeadAttention(64, 4, num_kv_heads=2, is_causal=True, rotary_base=1e4),
        *(x, x, x),
    )
    h.layer(
        "heads with a window",
        lambda: nn.MultiHeadAttention(64, 4, softcap=10.0, window=(8, 8), qk_norm="rms"),
        *(x, x, x),
    )
    h.layer("encoder", lambda: Encoder(64, 4, 128, dropout=0.0), x)
    h.layer(
        "encoder with gelu", lambda: Encoder(64, 4, 128, dropout=0.0, activation="gelu", norm_first=True), x
    )
    h.layer("encoder with dropout", lambda: Encoder(64, 4, 128, dropout=0.1), x)
    h.layer(
        "encoder gated",
        lambda: Encoder(64, 4, 128, dropout=0.0, activation="silu", gated=True, norm="rms"),
        x,
    )
    h.layer("decoder", lambda: nn.TransformerDecoderLayer(64, 4, 128, dropout=0.0), y, x)
    h.layer(
        "two encoders", lambda: nn.TransformerEncoder(Encoder(48, 3, 100, dropout=0.0), 2), draw(2, 17, 48)
    )
    three = (draw(2, 9, 10), draw(2, 30, 12), draw(2, 30, 8))
    h.layer("additive", lambda: nn.AdditiveAttention(24, query_size=10, key_size=12), *three)
    h.layer("bilinear", lambda: nn.BilinearAttention(10, 12), *three)
    h.layer("linear attention", lambda: nn.LinearAttention(32, 4), draw(2, 40, 32))
    h.layer("self-attention", lambda: nn.SelfAttention(10, 6), draw(2, 9, 10))
    h.layer("LayerNorm", lambda: nn.LayerNorm(101), draw(37, 101))
    h.layer("RMSNorm", lambda: nn.RMSNorm(101), draw(37, 101))
    h.layer("feed-forward", lambda: nn.PositionWiseFFN(101, 64), draw(37, 101))
    h.layer("Linear", lambda: nn.Linear(101, 33), draw(37, 101))
    h.layer("Linear of one row", lambda: nn.Linear(101, 33), draw(1, 101))
    h.layer("Embedding", lambda: nn.Embedding(50, 33), ids)
    h.layer("seq2seq encoder", lambda: models.Seq2SeqEncoder(50, 16, 24, 2), ids)

    def in_bfloat16() -> Any:
        layer = filled(nn.Linear(101, 33)).to("bfloat16")
        with qkv.no_grad():
            return [layer(draw_like(rows)) for rows in (1, 7, 200)]

    h.add("Linear in bfloat16", in_bfloat16)


def draw_like(rows: int) -> np.ndarray:
    """Rows of numbers that do not depend on what was drawn before."""
    return (np.random.default_rng(rows).random((rows, 101)) - 0.5).astype("float32")


def _train(make: Callable[[], nn.Module], x: np.ndarray, targets: np.ndarray, steps: int = 30) -> list[Any]:
    module = filled(make()).train()
    optimizer = optim.Adam(module.parameters(), 1e-3)
    found = []
    for _ in range(steps):
        y = module(x)
        y = y[0] if isinstance(y, tuple) else y
        loss = losses.cross_entropy(y.reshape(-1, y.shape[-1]), targets.reshape(-1))
        loss.backward()
        optim.clip_grad_norm(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return [np.array(found), *module.parameters()]


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru, self.out = nn.Embedding(60, 24), nn.GRU(24, 40), nn.Linear(40, 60)

    def forward(self, ids: np.ndarray) -> qkv.Tensor:
        return self.out(self.gru(self.embedding(ids))[0])


def trainings(h: Hashes) -> None:
    """Models that are trained, and what they generate."""
    h.family = "models"
    x, targets = draw(37, 101).astype("float32"), np.arange(37) * 7 % 101
    h.add(
        "training of a perceptron",
        lambda: _train(lambda: nn.Sequential(nn.Linear(101, 64), nn.Tanh(), nn.Linear(64, 101)), x, targets),
    )

    def causal(**more: int) -> nn.Module:
        return models.CausalLM(60, 64, 4, 2, dim_feedforward=128, **more)

    h.add("training of a language model", lambda: _train(causal, IDS, NEXT))
    h.add(
        "training of an encoder",
        lambda: _train(
            lambda: nn.Sequential(
                nn.Embedding(60, 48), nn.TransformerEncoderLayer(48, 4, 96, dropout=0.1), nn.Linear(48, 60)
            ),
            IDS,
            NEXT,
        ),
    )
    h.add("training of a recurrent model", lambda: _train(_Recurrent, IDS, NEXT))

    def transformer() -> list[Any]:
        model = filled(models.Transformer(60, 60, 48, 4, 2, 2, 96, dropout=0.0)).eval()
        found = [
            models.generate(model, IDS[:2], start_id=1, end_id=2, method=method, max_len=12)
            for method in ("greedy", "beam")
        ]
        return [repr([[(one[0], one[1]) for one in batch] for made in found for batch in made])]

    h.add("generation of a transformer", transformer)

    def language_model() -> list[Any]:
        model = filled(causal(num_kv_heads=2)).eval()
        with qkv.no_grad():
            return [model.generate(IDS[:1, :10], max_len=30), model(IDS)]

    h.add("generation of a language model", language_model)

    def bert() -> Any:
        config = models.BertConfig(
            vocab_size=60, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
        )
        model = filled(models.BertModel(config)).eval()
        with qkv.no_grad():
            return list(vars(model(IDS)).values()) if not isinstance(model(IDS), tuple) else model(IDS)

    h.add("BERT", bert)
