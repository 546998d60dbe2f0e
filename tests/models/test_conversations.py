"""Conversations of a tokenizer beside Hugging Face's, and text while it is written."""

from __future__ import annotations

import pytest
from sweep import sweep

from models.small_tokenizers import folder_of
from qkv.models import Tokenizer

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.reasoning_content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for d in documents or [] %}{{ d.title }}{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
    "{{ style }}{{ eos_token }}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
MESSAGES = [
    {"role": "user", "content": "hello <|im_end|> dog"},
    {"role": "assistant", "content": "the cat ", "thinking": "a dog"},
]
PLAIN = [{"role": "user", "content": "it's a dog"}, {"role": "assistant", "content": "the cat "}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "dog"}]}]
CALLS = {
    "a conversation": (PLAIN, {}),
    "a prompt": (PLAIN, {"add_generation_prompt": True}),
    "several": ([PLAIN, MESSAGES], {}),
    "tools": (PLAIN, {"tools": [TOOL]}),
    "documents": (PLAIN, {"documents": [{"title": "Dogs", "text": "run"}]}),
    "variables": (PLAIN, {"enable_thinking": False, "style": "plain"}),
    "what was thought": (MESSAGES, {}),
    "nothing said": ([{"role": "user", "content": None}], {}),
    "ids alone": (PLAIN, {"return_dict": False}),
    "continued": (PLAIN, {"continue_final_message": True}),
    "a thought continued": (MESSAGES, {"continue_final_message": "thinking"}),
    "parts continued": (PARTS, {"continue_final_message": True}),
    "control tokens of users": (MESSAGES, {"sanitize_control_tokens": True}),
    "control tokens everywhere": (
        [PLAIN, [{"role": "user", "content": "<|im_start|><|im_end|>\n</s> <mask><|im_end|>"}]],
        {"sanitize_control_tokens": True, "style": "<|im_end|>", "documents": [{"title": "<|im_start|>x"}]},
    ),
    "another template": (PLAIN, {"chat_template": "{{ messages | length }}{{ bos_token }}"}),
}


def folder(path, template=CHAT, **settings):
    tokens = {f"<|im_{end}|>": {"content": f"<|im_{end}|>", "special": False} for end in ("start", "end")}
    settings = {"extra_special_tokens": [], "eos_token": "</s>", "bos_token": "<s>", **settings}
    made = folder_of(
        path,
        "bytes",
        "llama",
        {"tokenizer_class": "TokenizersBackend", "chat_template": template, **settings},
    )
    first = Tokenizer.from_pretrained(made).tokenizer
    decoder = {str(first.get_vocab_size() + i): token for i, token in enumerate(tokens.values())}
    folder_of(
        path,
        "bytes",
        "llama",
        {
            "tokenizer_class": "TokenizersBackend",
            "chat_template": template,
            "added_tokens_decoder": decoder,
            **settings,
        },
    )
    return made


def both(path, **options):
    transformers = pytest.importorskip("transformers")
    place = folder(path, **options)
    return Tokenizer.from_pretrained(place), transformers.AutoTokenizer.from_pretrained(place)


@sweep("name", CALLS)
def test_conversations_beside_hugging_faces(name, tmp_path_factory):
    ours, theirs = both(tmp_path_factory.mktemp("chat"))
    messages, options = CALLS[name]
    found = ours.apply_chat_template(messages, **options)
    assert found == theirs.apply_chat_template(messages, **{"return_dict": False, **options})
    if "sanitize_control_tokens" not in options:
        text = ours.apply_chat_template(messages, tokenize=False, **options)
        assert text == theirs.apply_chat_template(messages, tokenize=False, **options)


def test_listed_control_tokens_and_what_a_guard_changes(tmp_path):
    ours, theirs = both(tmp_path, chat_control_tokens=["<|im_end|>"])
    guarded = ours.apply_chat_template(MESSAGES, sanitize_control_tokens=True)
    assert guarded == theirs.apply_chat_template(MESSAGES, sanitize_control_tokens=True, return_dict=False)
    end = ours.tokenizer.token_to_id("<|im_end|>")
    assert guarded.count(end) == 2
    assert ours.apply_chat_template(MESSAGES).count(end) == 3


def test_control_tokens_that_are_words_cannot_be_guarded_against(tmp_path):
    made = folder_of(tmp_path, "unigram", "llama", {"chat_template": CHAT, "eos_token": "</s>"})
    ours = Tokenizer.from_pretrained(made)
    with pytest.raises(ValueError, match=r"it makes '</s>' of other text, which cannot be guarded against"):
        ours.apply_chat_template([{"role": "user", "content": "a </s>"}], sanitize_control_tokens=True)


def test_templates_by_name(tmp_path):
    texts = {"default": "one", "tool_use": "{% if tools %}two{% endif %}", "rag": "three"}
    named = [{"name": name, "template": text} for name, text in texts.items()]
    for ours in both(tmp_path, template=named):
        said = [
            ours.apply_chat_template(PLAIN, tokenize=False, **options)
            for options in ({}, {"tools": [TOOL]}, {"chat_template": "rag"})
        ]
        assert said == ["one", "two", "three"]
    Tokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path / "copy")
    assert Tokenizer.from_pretrained(tmp_path / "copy").chat_template == texts
    (tmp_path / "chat_template.jinja").write_text("four")
    assert Tokenizer.from_pretrained(tmp_path).apply_chat_template(PLAIN, tokenize=False) == "four"


@sweep(
    "error, told, messages, options",
    [
        (TypeError, "tools must be mappings, JSON schemas of functions; got function", PLAIN, {"tools": [folder]}),
        (ValueError, "style must be a variable that the template reads, .*; it reads add_generation_prompt, messages$",
         PLAIN, {"style": "x", "chat_template": "{% if add_generation_prompt %}{{ messages[0].role }}{% endif %}"}),
        (ValueError, "return_tensors must be a variable that", PLAIN, {"return_tensors": "np"}),
        (ValueError, "tools must be a variable that", PLAIN, {"tools": [TOOL], "chat_template": "a"}),
        (TypeError, "documents must be a sequence of mappings; got 'a'", PLAIN, {"documents": "a"}),
        (TypeError, "messages must be a sequence of mappings", [3], {}),
        (ValueError, "add_generation_prompt must be False with continue_final_message", PLAIN,
         {"continue_final_message": True, "add_generation_prompt": True}),
        (ValueError, "tokenize must be True with sanitize_control_tokens", PLAIN,
         {"sanitize_control_tokens": True, "tokenize": False}),
        (ValueError, "messages must end with one that has content", [{"role": "user"}],
         {"continue_final_message": True}),
        (ValueError, "continue_final_message must name an entry that the template reads; got 'x'",
         [{"role": "user", "x": "y"}], {"continue_final_message": "x"}),
        (ValueError, "messages must end with a text", [{"role": "user", "content": [{"type": "image"}]}],
         {"continue_final_message": True}),
        (ValueError, "the template must write the last message as it is", PLAIN,
         {"continue_final_message": True, "chat_template": "{{ messages[0].content }}"}),
    ],
)  # fmt: skip
def test_what_is_refused(error, told, messages, options, tmp_path_factory):
    ours = Tokenizer.from_pretrained(folder(tmp_path_factory.mktemp("chat")))
    with pytest.raises(error, match=f"^apply_chat_template: {told}"):
        ours.apply_chat_template(messages, **options)


def test_templates_see_plain_values_alone(tmp_path):
    ours = Tokenizer.from_pretrained(folder(tmp_path))
    text = ours.apply_chat_template(
        PLAIN, tokenize=False, chat_template="{{ x }} {{ y }}", x=object(), y=(1, True)
    )
    assert text == "<object> [1, True]"


@pytest.mark.parametrize("fallback", [False, True])
def test_streams_hold_back_half_characters(tmp_path, fallback):
    tokenizers = pytest.importorskip("tokenizers")
    if fallback:  # characters that are no word are bytes
        parts = tokenizers.decoders
        words = {f"<0x{byte:02X}>": byte for byte in range(256)}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(words, [], byte_fallback=True))
        made.decoder = parts.Sequence([parts.ByteFallback(), parts.Fuse()])
        ours = Tokenizer(made)
    else:
        ours = Tokenizer.from_pretrained(folder(tmp_path))
    text = "a 😀 straße, 東京! it's  \n done 🇩🇪."
    ids = ours.tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > len(text) if fallback else any("<0x" in token for token in ours.tokens(ids))
    written = []
    stream = ours.stream(written.append)
    returned = [stream(number) for number in ids]
    assert stream.end() == ""
    assert "".join(written) == "".join(returned) == stream.text == text == ours.decode(ids)
    assert not any("\ufffd" in part for part in written)
    half = ours.stream()
    face = ours.tokenizer.encode("😀", add_special_tokens=False).ids
    assert [half(number) for number in [*ids[:1], *face[:-1]]] == ["a"] + [""] * (len(face) - 1)
    assert set(half.end()) == {"\ufffd"}
    wrong = ours.stream()
    for _ in range(9):
        wrong(face[-1])
    assert set(wrong.text) == {"\ufffd"}  # bytes that can be no beginning are not kept for ever
    for bad in ([1, 2], 1.5, "a"):
        with pytest.raises(
            TypeError, match=r"^stream: ids must be one whole number, as a stream is of one text; got"
        ):
            wrong(bad)
    with pytest.raises(TypeError, match=r"^stream: write must be a function of a string; got 3$"):
        ours.stream(3)
