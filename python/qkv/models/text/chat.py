"""Conversations as text, by the templates that come with tokenizers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ..._words.errors import needs, shown
from ..files.folders import optional_json


def template_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Find a folder's template: a file of its own, or an entry of tokenizer_config.json."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf8")
    found = settings.get("chat_template")
    if isinstance(found, list):  # several, by name
        found = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}.get("default")
    return found if isinstance(found, str) else None


def special_tokens(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of special tokens that templates may name."""
    entries = {**optional_json(folder / "special_tokens_map.json"), **settings}
    texts = {
        k: v.get("content") if isinstance(v, dict) else v for k, v in entries.items() if k.endswith("_token")
    }
    return {k: v for k, v in texts.items() if isinstance(v, str)}


def rendered(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    add_generation_prompt: bool,
    tokens: Mapping[str, str],
) -> str:
    """Return the text of a conversation. Templates come with files of others: they run in jinja2's sandbox."""
    said = list(messages) if isinstance(messages, Iterable) and not isinstance(messages, Mapping) else [None]
    if not all(isinstance(message, Mapping) for message in said):
        raise TypeError(
            "apply_chat_template: messages must be a sequence of mappings with role and content; "
            f"got {shown(messages)}"
        )
    with needs("qkv.models: chat templates need the package jinja2; install it: pip install 'qkv[models]'"):
        from jinja2 import TemplateError
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    class Generation(Extension):
        """The block that says what the model wrote: its text is what is in it."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            messages=said,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **tokens,
        )
    except Exception as error:  # of any kind: templates are programs
        raise ValueError(f"apply_chat_template: messages must be what the template takes; {error}") from None
