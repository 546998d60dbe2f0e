"""Conversations as text, by the templates that come with tokenizers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..._words.errors import needs, shown

BEGIN, END = "\U000f0000", "\U000f0001"  # around control tokens in what users have written
CONTINUED = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING = ("reasoning_content", "thinking", "reasoning")  # what messages call what was thought
OPERATION = "apply_chat_template"


def template_of(folder: Path, settings: Mapping[str, Any]) -> str | dict[str, str] | None:
    """Find a folder's templates: files of their own, or an entry of tokenizer_config.json; several have names."""
    found = settings.get("chat_template")
    if isinstance(found, list):
        found = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}
    files = {"default": folder / "chat_template.jinja"}
    if (more := folder / "additional_chat_templates").is_dir():
        files |= {file.stem: file for file in sorted(more.glob("*.jinja"))}
    own = {name: _text_of(file) for name, file in files.items() if file.is_file()}
    found = own or found
    if isinstance(found, dict):
        named = {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, str)}
        return named["default"] if list(named) == ["default"] else named or None
    return found if isinstance(found, str) else None


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: must hold a template in UTF-8; {error}") from None


def chosen_template(templates: str | Mapping[str, str] | None, asked: str | None, tools: Any) -> str:
    """Return the template that a call asks for, by its name or as it is."""
    named = templates if isinstance(templates, Mapping) else {}
    if asked is not None:
        return named.get(asked, asked)
    if isinstance(templates, str):
        return templates
    for name in ("tool_use",) * (tools is not None) + ("default",):
        if name in named:
            return named[name]
    what = f"one of the name default; got {', '.join(named)}" if named else "a chat template; there is none"
    raise ValueError(f"{OPERATION}: the tokenizer must have {what}")


def is_conversation(messages: Any) -> bool:
    """Return whether messages are those of one conversation and not several."""
    several = isinstance(messages, (list, tuple)) and len(messages) > 0
    return not (several and all(isinstance(m, (list, tuple)) for m in messages))


def checked_messages(messages: Any) -> list[dict[str, Any]]:
    """Return messages without what is None, as Hugging Face's library gives them to templates."""
    said = list(messages) if isinstance(messages, Iterable) and not isinstance(messages, Mapping) else [None]
    if not all(isinstance(message, Mapping) for message in said):
        raise TypeError(
            f"{OPERATION}: messages must be a sequence of mappings with role and content; got {shown(messages)}"
        )
    made = []
    for message in said:
        kept = {key: value for key, value in plain(message).items() if value is not None}
        thought = next((kept[name] for name in REASONING if name in kept), None)
        made.append(kept if thought is None else {"thinking": thought, **kept, REASONING[0]: thought})
    return made


def plain(value: Any) -> Any:
    """Return what templates may see: JSON's types alone, whose methods write no files."""
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain(value.item())
    return None if value is None else f"<{type(value).__name__}>"


def checked_mappings(name: str, given: Any) -> list[Any] | None:
    """Return tools or documents, which are sequences of mappings."""
    if given is None:
        return None
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{OPERATION}: {name} must be a sequence of mappings; got {shown(given)}")
    found = list(given)
    for one in found:
        if not isinstance(one, Mapping):
            what = "JSON schemas of functions" if name == "tools" else "title and text"
            raise TypeError(f"{OPERATION}: {name} must be mappings, {what}; got {shown(one)}")
    listed: list[Any] = plain(found)
    return listed


def marked(value: Any, tokens: Iterable[str]) -> Any:
    """Write signs around control tokens in what users have written, so that they can be told from the template's."""
    pattern = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or "(?!)")

    def mark(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(f"{BEGIN}\\g<0>{END}", re.sub(f"[{BEGIN}{END}]", "", value))
        if isinstance(value, dict):
            return {key: mark(item) for key, item in value.items()}
        return [mark(item) for item in value] if isinstance(value, list) else value

    return mark(value)


def check_read(template: str, given: Mapping[str, Any]) -> None:
    """Refuse variables that a template does not read: they would change nothing."""
    parsed = _parsed(template)
    from jinja2 import meta

    read = meta.find_undeclared_variables(parsed)
    for name, value in given.items():
        if name not in read and value is not None:
            raise ValueError(
                f"{OPERATION}: {name} must be a variable that the template reads, or it would change nothing; it reads "
                f"{', '.join(sorted(read)) or 'none'}"
            )


def literal_text(template: str) -> str:
    """Return what a template itself writes: its text and the strings in its expressions."""
    parsed = _parsed(template)
    from jinja2 import nodes

    found = [node.data for node in parsed.find_all(nodes.TemplateData)]
    found += [node.value for node in parsed.find_all(nodes.Const) if isinstance(node.value, str)]
    return "\0".join(found)


def _parsed(template: str) -> Any:
    environment = _environment()
    try:
        return environment.parse(template)
    except Exception as error:
        raise ValueError(f"{OPERATION}: messages must be what the template takes; {error}") from None


def _environment() -> Any:
    with needs("qkv.models: chat templates need the package jinja2; install it: pip install 'qkv[models]'"):
        from jinja2 import TemplateError
        from jinja2.ext import Extension
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block that says what the model wrote: its text is what is in it."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        options: dict[str, Any] = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def rendered(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    add_generation_prompt: bool,
    variables: Mapping[str, Any],
    *,
    continued: bool | str = False,
) -> str:
    """Return the text of a conversation. Templates come with files of others: they run in jinja2's sandbox."""
    said = checked_messages(messages)
    last = _continue(template, said, continued) if continued else None
    environment = _environment()
    try:
        text: str = environment.from_string(template).render(
            **{
                "tools": None,
                "documents": None,
                **variables,
                "messages": said,
                "add_generation_prompt": add_generation_prompt,
            }
        )
    except Exception as error:  # of any kind: templates are programs
        raise ValueError(f"{OPERATION}: messages must be what the template takes; {error}") from None
    return text if last is None else _until(text, last)


def _continue(template: str, said: list[dict[str, Any]], continued: bool | str) -> str:
    """Write a sign at the end of the last message, and return what was said before it."""
    name = continued if isinstance(continued, str) else "content"
    last = said[-1].get(name) if said else None
    if last is None:
        raise ValueError(
            f"{OPERATION}: messages must end with one that has {name}, which is continued; there is none"
        )
    names = [n for n in REASONING if said[-1].get(n) == last] if name in REASONING else [name]
    if not any(n in template for n in names):
        raise ValueError(
            f"{OPERATION}: continue_final_message must name an entry that the template reads; got {name!r}"
        )
    if isinstance(last, list):
        texts = [part for part in last if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if not texts:
            raise ValueError(f"{OPERATION}: messages must end with a text, which is continued; there is none")
        last, texts[-1]["text"] = texts[-1]["text"], texts[-1]["text"] + CONTINUED
        return str(last)
    for n in names:
        said[-1][n] = f"{last}{CONTINUED}"
    return str(last)


def _until(text: str, last: str) -> str:
    """Return the text before the sign; with the template's spaces, if it keeps them."""
    place = text.rfind(CONTINUED.strip())
    if place < 0 or last.strip() not in text:
        raise ValueError(
            f"{OPERATION}: the template must write the last message as it is, or it cannot be continued; it does not"
        )
    before = text[:place]
    return before if text.startswith(CONTINUED, place) else before.rstrip()
