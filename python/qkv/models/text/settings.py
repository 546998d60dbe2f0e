"""What tokenizer_config.json says beside a tokenizer: its class, tokens, lower case, which side is cut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files.folders import optional_json
from .entries import TOKENIZER_CONFIG, one_of
from .library import OPTIONS, errors_as, library

SIDES = ("right", "left")

# Hugging Face's class of the tokenizer of a model type, where a folder names none.
CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "bart": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "gpt2": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
    "gemma2": "GemmaTokenizer",
    "t5": "T5Tokenizer",
    "marian": "MarianTokenizer",
}
# Model types whose folders name other classes, which Hugging Face's library does not believe: the file alone counts.
OF_THE_FILE = ("modernbert", "mistral", "phi3")
OF_THE_TYPE = ("qwen2",)  # and of these the type's class counts
OF_BERT = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer")
WITH_TYPES = ("BertTokenizer", "ElectraTokenizer", "DebertaV2Tokenizer", "DebertaTokenizer")


def checked_settings(folder: Path) -> dict[str, Any]:
    """Read tokenizer_config.json, with special_tokens_map.json of older folders."""
    path = folder / "tokenizer_config.json"
    settings = optional_json(path)
    TOKENIZER_CONFIG.check(path, settings)
    if "truncation_side" in settings:
        one_of(path, "truncation_side", settings["truncation_side"], SIDES)
    numbered = settings.get("added_tokens_decoder")
    if not isinstance(numbered, dict):  # which tells all tokens
        settings |= optional_json(folder / "special_tokens_map.json")
    old = optional_json(folder / "added_tokens.json")
    if old and not (folder / "tokenizer.json").is_file():
        special = {*special_tokens(settings).values(), *map(content, extra_tokens(settings))}
        given = {
            str(number): {"content": word, "special": word in special, "normalized": word not in special}
            for word, number in old.items()
        }
        settings["added_tokens_decoder"] = {**given, **(numbered if isinstance(numbered, dict) else {})}
    return settings


def class_named(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the name of Hugging Face's class that reads a folder's tokenizer; "" where the file alone counts."""
    config = optional_json(folder / "config.json")
    kind = config.get("model_type")
    kind = kind if isinstance(kind, str) else ""
    named = settings.get("tokenizer_class") or config.get("tokenizer_class") or CLASSES.get(kind, "")
    named = CLASSES[kind] if kind in OF_THE_TYPE else named
    return "" if kind in OF_THE_FILE else class_of({"tokenizer_class": named})


def class_of(settings: Mapping[str, Any]) -> str:
    """Return the name of the class in the settings; "" if the file alone counts."""
    named = settings.get("tokenizer_class")
    name = named.removesuffix("Fast") if isinstance(named, str) else ""
    return "" if name in ("PreTrainedTokenizer", "TokenizersBackend") else name


def reads_types(settings: Mapping[str, Any], name: str) -> bool:
    """Return whether a model with this tokenizer is told which text of a pair each token is of."""
    inputs = settings.get("model_input_names")
    return "token_type_ids" in inputs if isinstance(inputs, list) else name in WITH_TYPES


def content(token: Any) -> str | None:
    """Return the text of a token, which files hold alone or with its options."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of special tokens that templates may name."""
    texts = {name: content(settings.get(name)) for name in settings if name.endswith("_token")}
    for entry in ("model_specific_special_tokens", "extra_special_tokens"):
        if isinstance(own := settings.get(entry), dict):
            texts |= {name: content(token) for name, token in own.items()}
    return {name: text for name, text in texts.items() if text is not None}


def extra_tokens(settings: Mapping[str, Any]) -> list[Any]:
    """Return the further special tokens that a folder lists."""
    listed = settings.get("extra_special_tokens") or settings.get("additional_special_tokens")
    return listed if isinstance(listed, list) else []


def added_token(token: Any, **defaults: bool) -> Any:
    """Return a token with the options that a file gives it."""
    options = {
        **defaults,
        **({k: token[k] for k in OPTIONS if k in token} if isinstance(token, dict) else {}),
    }
    return library().AddedToken(content(token), **options)


def add_tokens(made: Any, path: Path, settings: Mapping[str, Any]) -> None:
    """Add the tokens that a folder names beside its tokenizer, those with numbers first."""
    listed = settings.get("added_tokens_decoder")
    numbered = listed if isinstance(listed, dict) else {}
    for number, token in numbered.items():
        if not number.isdecimal() or content(token) is None:
            raise ValueError(
                f"{path}: must be beside added tokens with ids and contents; got {number[:100]!r}"
            )
    for number, token in sorted(numbered.items(), key=lambda item: int(item[0])):
        with errors_as(f"{path}: must have added tokens beside it that the words allow"):
            made.add_tokens([added_token(token)])
        word = str(content(token))
        if made.token_to_id(word) != int(number):
            raise ValueError(
                f"{path}: must hold the words before the added token {word[:100]!r} = {number}; "
                f"it would be {made.token_to_id(word)}"
            )
    with errors_as(f"{path}: must have special tokens beside it that the words allow"):
        known = {token.content for token in made.get_added_tokens_decoder().values()}
        named = [settings[k] for k in settings if k.endswith("_token") and content(settings[k])]
        for entry in ("model_specific_special_tokens", "extra_special_tokens"):
            if isinstance(own := settings.get(entry), dict):
                named += own.values()
        for token in [*named, *extra_tokens(settings)]:
            if content(token) not in known:
                made.add_special_tokens([added_token(token, special=True, normalized=False)])
                known.add(content(token))


def apply_class(made: Any, name: str, settings: Mapping[str, Any]) -> None:
    """Set the parts of a tokenizer that its class makes of tokenizer_config.json, not of tokenizer.json."""
    parts = library()
    if name in OF_BERT and isinstance(made.model, parts.models.WordPiece):
        made.normalizer = bert_normalizer(settings)
        made.pre_tokenizer = parts.pre_tokenizers.BertPreTokenizer()
    elif name == "LlamaTokenizer" and not _has(made.pre_tokenizer, "ByteLevel"):
        made.normalizer = None
        made.pre_tokenizer = parts.pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme=prepend_scheme(settings), split=False
        )
    elif name == "DebertaV2Tokenizer":
        _lower_and_split(made, settings)
    elif isinstance(prefixed := settings.get("add_prefix_space"), bool) and name in PREFIXED:
        made.pre_tokenizer = _changed(made.pre_tokenizer, prefixed)
    if name in AROUND:
        kind, *usual = AROUND[name]
        given = special_tokens(settings)
        ends = [given.get(f"{end}_token", word) for end, word in zip(("cls", "sep"), usual, strict=True)]
        cls, sep = ((word, made.token_to_id(word)) for word in ends)
        if cls[1] is not None and sep[1] is not None:
            made.post_processor = getattr(parts.processors, kind)(sep, cls)


# What a class writes around texts and pairs: by which rule, and its usual first and last tokens.
AROUND = {
    **dict.fromkeys(
        ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "DebertaV2Tokenizer"),
        ("BertProcessing", "[CLS]", "[SEP]"),
    ),
    **dict.fromkeys(
        ("MPNetTokenizer", "RobertaTokenizer", "BartTokenizer", "XLMRobertaTokenizer", "CamembertTokenizer"),
        ("RobertaProcessing", "<s>", "</s>"),
    ),
}
PREFIXED = (
    *("RobertaTokenizer", "BartTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer"),
    *("XLMRobertaTokenizer", "CamembertTokenizer"),
)


def bert_normalizer(settings: Mapping[str, Any]) -> Any:
    """Return what BERT's tokenizer does to texts before it divides them."""
    accents = settings.get("strip_accents")
    return library().normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=accents if isinstance(accents, bool) else None,
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )


def prepend_scheme(settings: Mapping[str, Any], old: bool = False) -> str:
    """Return where Llama's tokenizer writes a space: before each part, before the text, or nowhere."""
    if settings.get("add_prefix_space") is False:
        return "never"
    return "always" if settings.get("legacy", old) else "first"


def _lower_and_split(made: Any, settings: Mapping[str, Any]) -> None:
    parts = library()
    lower, split = (settings.get(name) for name in ("do_lower_case", "split_by_punct"))
    if isinstance(lower, bool):
        kept = [part for part in _sequence(made.normalizer) if type(part).__name__ != "Lowercase"]
        made.normalizer = parts.normalizers.Sequence([parts.normalizers.Lowercase()] * lower + kept)
    if isinstance(split, bool):
        kept = [part for part in _sequence(made.pre_tokenizer) if type(part).__name__ != "Punctuation"]
        first = [parts.pre_tokenizers.Punctuation(behavior="isolated")] * split
        made.pre_tokenizer = parts.pre_tokenizers.Sequence(first + kept)


def _sequence(part: Any) -> list[Any]:
    if part is None:
        return []
    return list(part) if type(part).__name__ == "Sequence" else [part]


def _has(part: Any, name: str) -> bool:
    return any(type(inner).__name__ == name for inner in _sequence(part))


def _changed(part: Any, prefixed: bool) -> Any:
    """Return a pre-tokenizer that writes a space before texts, or none."""
    for inner in _sequence(part):
        if type(inner).__name__ == "ByteLevel":
            inner.add_prefix_space = prefixed
        elif type(inner).__name__ == "Metaspace":
            inner.prepend_scheme = "always" if prefixed else "never"
    return part


def is_cut_left(settings: Mapping[str, Any], made: Any) -> bool:
    """Return whether long texts lose their beginning: as tokenizer_config.json says, else tokenizer.json."""
    given = made.truncation or {}
    side = settings.get("truncation_side", given.get("direction", "right"))
    return bool(one_of(Path("tokenizer_config.json"), "truncation_side", side, SIDES) == "left")


def with_ends(made: Any, settings: Mapping[str, Any]) -> None:
    """Write the first and last tokens of texts that tokenizer_config.json asks for."""
    words = special_tokens(settings)
    first, last = (
        [words[f"{end}_token"]]
        if settings.get(f"add_{end}_token") and made.token_to_id(words.get(f"{end}_token", "")) is not None
        else []
        for end in ("bos", "eos")
    )
    made.post_processor = ends_processor(made, first, last)


def ends_processor(made: Any, first: list[str], last: list[str]) -> Any:
    """Return what writes some tokens around each text."""
    # Under names of our own: "$A" as the name of a token would mean the text itself.
    names = {word: f"t{i}" for i, word in enumerate(dict.fromkeys([*first, *last]))}
    before, after = ([names[word] for word in words] for words in (first, last))
    return library().processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *(f"{x}:1" for x in before), "$B:1", *(f"{x}:1" for x in after)],
        special_tokens=[
            {"id": name, "ids": [made.token_to_id(word)], "tokens": [word]} for word, name in names.items()
        ],
    )
