"""Conversations as numbers: what users have written can be kept from being control tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .chat import (
    BEGIN,
    END,
    OPERATION,
    check_read,
    checked_mappings,
    chosen_template,
    is_conversation,
    literal_text,
    marked,
    plain,
    rendered,
)
from .library import errors_as
from .pairs import checked_texts


class Conversations:
    """What tokenizers with a chat template can do."""

    tokenizer: Any
    chat_template: str | Mapping[str, str] | None
    special_tokens: dict[str, str]
    settings: dict[str, Any]

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]] | Sequence[Sequence[Mapping[str, Any]]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        continue_final_message: bool | str = False,
        sanitize_control_tokens: bool = False,
        **variables: Any,
    ) -> Any:
        """Return a conversation as the model was trained on it (needs the package jinja2).

        Parameters
        ----------
        messages : sequence of mapping
            With ``role`` ("system", "user", "assistant") and ``content``; or a list of such conversations.
        add_generation_prompt : bool
            End with what is before an answer.
        tokenize : bool
            Return numbers; else the text.
        tools : sequence of mapping, optional
            JSON schemas of functions that the model may call.
        documents : sequence of mapping, optional
            With ``title`` and ``text``, for templates that read them.
        chat_template : str, optional
            Another template, or the name of one of several.
        continue_final_message : bool or str
            End inside the last message, which the model continues; a str names its entry, "content" by default.
        sanitize_control_tokens : bool
            Encode control tokens that are written in messages, tools, documents or variables as other text: only the
            template's are tokens.
        **variables
            What else the template reads, such as ``enable_thinking=False``; others are refused.

        Returns
        -------
        list of int, or str
            A list of them for several conversations.

        Raises
        ------
        TypeError
            If `messages` is anything but a sequence of mappings, or tools or documents are.
        ValueError
            If there is no template, or it does not take the messages.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("SmolLM2-135M-Instruct.gguf")  # doctest: +SKIP
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)  # doctest: +SKIP
        """
        if not is_conversation(messages):
            several: Any = messages
            options = {"tools": tools, "documents": documents, "chat_template": chat_template, **variables}
            return [
                self.apply_chat_template(
                    one,
                    add_generation_prompt=add_generation_prompt,
                    tokenize=tokenize,
                    continue_final_message=continue_final_message,
                    sanitize_control_tokens=sanitize_control_tokens,
                    **options,
                )
                for one in several
            ]
        template = chosen_template(self.chat_template, chat_template, tools)
        if continue_final_message and add_generation_prompt:
            raise ValueError(
                f"{OPERATION}: add_generation_prompt must be False with continue_final_message, which ends inside a "
                "message; got both"
            )
        if sanitize_control_tokens and not tokenize:
            raise ValueError(
                f"{OPERATION}: tokenize must be True with sanitize_control_tokens because a text holds no numbers; "
                "got False"
            )
        if variables.get("return_dict", True) is False:  # ids alone are what is returned
            variables.pop("return_dict")
        check_read(template, {"tools": tools, "documents": documents, **variables})
        own = {
            "tools": checked_mappings("tools", tools),
            "documents": checked_mappings("documents", documents),
        }
        values = {**own, **plain(variables)}
        said: Any = messages
        if sanitize_control_tokens:
            tokens = control_tokens(self.tokenizer, template, self.settings)
            values, said = marked(values, tokens), marked(plain(messages), tokens)
        values = {**self.special_tokens, **values}
        text = rendered(template, said, add_generation_prompt, values, continued=continue_final_message)
        return encoded(self.tokenizer, text) if tokenize else text


def control_tokens(made: Any, template: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the tokens that a template writes: special ones, and those that it holds or that the folder lists."""
    listed, text = settings.get("chat_control_tokens"), ""
    if not isinstance(listed, list):
        listed, text = [], literal_text(template)
    return [
        token.content
        for token in made.get_added_tokens_decoder().values()
        if token.special or token.content in listed or (token.content in text and not token.content.isspace())
    ]


def encoded(made: Any, text: str) -> list[int]:
    """Return the numbers of a conversation, in which signs are around what is not to be a control token."""
    checked_texts(OPERATION, [text])
    with errors_as(f"{OPERATION}: the tokenizer must have a number for every text"):
        if BEGIN not in text and END not in text:
            return list(made.encode(text, add_special_tokens=False).ids)
        added = sorted((t.content for t in made.get_added_tokens_decoder().values()), key=len, reverse=True)
        pattern = f"{BEGIN}({'|'.join(map(re.escape, added))}){END}|[{BEGIN}{END}]"
        pieces = re.split(pattern, text)
        ids = _with_tokens(made, pieces[0])
        for i, piece in enumerate(pieces[1:], 1):
            if not piece:
                continue
            found = _inside(made, piece, _plain if i % 2 else _with_tokens)
            if (
                i % 2 and made.token_to_id(piece) in found
            ):  # some vocabularies have their control tokens as words
                raise ValueError(f"it makes {piece!r} of other text, which cannot be guarded against")
            ids += found
        return ids


def _with_tokens(made: Any, text: str) -> list[int]:
    return list(made.encode(text, add_special_tokens=False).ids)


def _plain(made: Any, text: str) -> list[int]:
    """Return the numbers of a text in which nothing is a token by itself."""
    if hasattr(made, "plain"):
        return list(made.plain(text))
    text = text if made.normalizer is None else made.normalizer.normalize_str(text)
    parts = (
        [text] if made.pre_tokenizer is None else [x for x, _ in made.pre_tokenizer.pre_tokenize_str(text)]
    )
    return [token.id for part in parts for token in made.model.tokenize(part)]


def _inside(made: Any, piece: str, encode: Callable[[Any, str], list[int]]) -> list[int]:
    """Return the numbers of a piece that is not the beginning: after a new line no space is written before it."""
    line = _with_tokens(made, "\n")
    ids = encode(made, "\n" + piece)
    return ids[len(line) :] if ids[: len(line)] == line else encode(made, piece)
