"""Layers and models against PyTorch's: ``python benchmarks/models.py [repeats] [threads ...]``.

The same float32 weights on both sides, which must agree before they are timed. MiniLM stands for a BERT of its sizes (6
layers, 384 wide, 12 heads, 1536 inside) with random weights; PyTorch's is `nn.TransformerEncoder` behind embeddings,
in inference mode, which is its fastest path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import interleave, machine, table

import qkv

SHAPES = [(1, 8), (1, 32), (1, 128), (8, 64), (32, 32), (8, 256), (4, 512)]
Pair = dict[str, Callable[[], Any]]


def agree(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), rtol=1e-3, atol=1e-4)


def minilm(batch: int, tokens: int) -> Pair:
    config = qkv.models.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = qkv.models.BertModel(config).eval()
    layer = torch.nn.TransformerEncoderLayer(
        384, 12, 1536, 0.0, "gelu", layer_norm_eps=config.layer_norm_eps, batch_first=True
    )
    encoder = torch.nn.TransformerEncoder(layer, 6).eval()
    state = {k: torch.from_numpy(v.numpy().copy()) for k, v in model.state_dict().items()}
    for i, part in enumerate(encoder.layers):
        p = f"encoder.layer.{i}."
        kinds = ("weight", "bias")
        joined = {
            f"self_attn.in_proj_{kind}": torch.cat(
                [state[f"{p}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            )
            for kind in kinds
        }
        names = {
            "self_attn.out_proj": "attention.output.dense",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm1": "attention.output.LayerNorm",
            "norm2": "output.LayerNorm",
        }
        own = {f"{a}.{kind}": state[f"{p}{b}.{kind}"] for a, b in names.items() for kind in kinds}
        part.load_state_dict(joined | own)
    ids = np.random.default_rng(0).integers(0, 30522, (batch, tokens))
    their_ids = torch.from_numpy(ids)
    norm = torch.nn.LayerNorm(384, config.layer_norm_eps)
    norm.load_state_dict({k: state[f"embeddings.LayerNorm.{k}"] for k in ("weight", "bias")})

    def theirs() -> Any:
        with torch.inference_mode():
            x = state["embeddings.word_embeddings.weight"][their_ids]
            x = x + state["embeddings.position_embeddings.weight"][:tokens]
            return encoder(norm(x + state["embeddings.token_type_embeddings.weight"][0]))

    def ours() -> Any:
        with qkv.no_grad(), qkv.no_attention_record():
            return model(ids).last_hidden_state

    agree(ours(), theirs())
    return {"PyTorch": theirs, "qkv": ours}


def linear(rows: int) -> Pair:
    layer = qkv.nn.Linear(384, 1536)
    theirs = torch.nn.Linear(384, 1536)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in layer.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((rows, 384)).astype("float32")
    tensor, their_x = qkv.tensor(x), torch.from_numpy(x)

    def run_qkv() -> Any:
        with qkv.no_grad():
            return layer(tensor)

    def run_torch() -> Any:
        with torch.inference_mode():
            return theirs(their_x)

    agree(run_qkv(), run_torch())
    return {"PyTorch": run_torch, "qkv": run_qkv}


def training_step() -> Pair:
    layer = qkv.nn.TransformerEncoderLayer(256, 4, 1024, 0.0)
    model = qkv.nn.TransformerEncoder(layer, 2)
    their_layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
    their_model = torch.nn.TransformerEncoder(their_layer, 2)
    x = np.random.default_rng(0).standard_normal((16, 64, 256)).astype("float32")
    their_x = torch.from_numpy(x)
    adam = qkv.optim.Adam(model.parameters(), lr=1e-4)
    their_adam = torch.optim.Adam(their_model.parameters(), lr=1e-4)

    def ours() -> None:
        adam.zero_grad()
        (model(x) ** 2).mean().backward()
        adam.step()

    def theirs() -> None:
        their_adam.zero_grad()
        (their_model(their_x) ** 2).mean().backward()
        their_adam.step()

    return {"PyTorch": theirs, "qkv": ours}


def gru(backward: bool) -> Pair:
    layer, their_layer = qkv.nn.GRU(256, 256, 2), torch.nn.GRU(256, 256, 2, batch_first=True)
    their_layer.load_state_dict(
        {k: torch.from_numpy(v.numpy().copy()) for k, v in layer.state_dict().items()}
    )
    x = np.random.default_rng(0).standard_normal((16, 32, 256)).astype("float32")
    tensor, their_x = qkv.tensor(x), torch.from_numpy(x)
    agree(layer(tensor)[0], their_layer(their_x)[0])

    def ours() -> None:
        if backward:
            layer(tensor)[0].sum().backward()
        else:
            with qkv.no_grad():
                layer(tensor)

    def theirs() -> None:
        if backward:
            their_layer(their_x)[0].sum().backward()
        else:
            with torch.no_grad():
                their_layer(their_x)

    return {"PyTorch": theirs, "qkv": ours}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    thread_counts = [int(n) for n in sys.argv[2:]] or [1, 2]
    print("# Layers and models, float32\n")
    print(machine() + f"\n- median (quartiles) of {repeats} interleaved repeats, in ms\n")
    works: dict[str, Callable[[], Pair]] = {
        f"MiniLM forward {shape}": lambda shape=shape: minilm(*shape) for shape in SHAPES
    }
    works |= {
        f"Linear 384 -> 1536, {rows} rows, no gradient": lambda rows=rows: linear(rows) for rows in (1, 8, 64)
    }
    works["encoder training step (16, 64, 256), 2 layers, Adam"] = training_step
    works["GRU 2 x 256, (16, 32, 256), forward"] = lambda: gru(False)
    works["GRU 2 x 256, (16, 32, 256), forward + backward"] = lambda: gru(True)
    rows = []
    for name, make in works.items():
        functions = make()
        for threads in thread_counts:
            torch.set_num_threads(threads)
            qkv.set_num_threads(threads)
            times = interleave(functions, repeats)
            ratio = times["PyTorch"].median / times["qkv"].median
            rows.append([name, threads, times["PyTorch"], times["qkv"], f"{ratio:.2f}"])
    print(table(["work", "threads", "PyTorch", "qkv", "ratio"], rows))


if __name__ == "__main__":
    main()
