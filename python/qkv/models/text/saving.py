"""Tokenizers as the files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._atomic import Writer
from ..files.folders import bytes_writer, json_writer
from .library import OPTIONS


def saved_files(tokenizer: Any, folder: Path, max_length: int | None) -> list[tuple[Path, Writer]]:
    """Return the files of a :class:`Tokenizer`, and what writes them."""
    files = getattr(tokenizer.tokenizer, "files", None)  # of SentencePiece
    own: dict[str, Any] = {"model_max_length": max_length}
    own |= {name: word for name, word in tokenizer.special_tokens.items() if name.endswith("_token")}
    if isinstance(tokenizer.chat_template, str):
        own["chat_template"] = tokenizer.chat_template
    elif tokenizer.chat_template:
        named = tokenizer.chat_template.items()
        own["chat_template"] = [{"name": name, "template": template} for name, template in named]
    if files is None:
        files = {"tokenizer.json": tokenizer.tokenizer.to_str(pretty=True).encode()}
        own["tokenizer_class"] = "PreTrainedTokenizerFast"
    else:
        own["added_tokens_decoder"] = {
            str(number): {"content": token.content, **{name: getattr(token, name) for name in OPTIONS}}
            for number, token in tokenizer.tokenizer.get_added_tokens_decoder().items()
        }
    written = [(folder / name, bytes_writer(content)) for name, content in files.items()]
    return [(folder / "tokenizer_config.json", json_writer({**own, **tokenizer.settings})), *written]
