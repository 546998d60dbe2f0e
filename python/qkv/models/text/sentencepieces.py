"""Vocabularies of SentencePiece, by the package sentencepiece, with what surrounds texts and is never divided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from ..._words.errors import needs
from ..files.folders import optional_json
from .library import errors_as, library
from .settings import prepend_scheme, special_tokens

MODELS = ("tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model", "source.spm")
SPACE = "▁"
SPACES = r"\s*"
CODE = re.compile(r">>.*?<<", re.DOTALL)  # of the language of a translation
NORMAL, UNKNOWN, CONTROL, OWN, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # types of pieces
BYTES = re.compile("<0x([0-9A-F]{2})>")
MOST_EXTRA = 10_000  # of T5's <extra_id_N>
TRANSLATED = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
NO_PREFIX = (
    b"\x1a\x02\x18\x00"  # of a model: normalizer_spec { add_dummy_prefix: false }, which is merged into it
)


def processor(model: bytes) -> Any:
    """Open a model of the package sentencepiece."""
    with needs(
        "qkv.models: vocabularies of SentencePiece need the package sentencepiece; install it: "
        "pip install 'qkv[sentencepiece]'"
    ):
        import sentencepiece
    made = sentencepiece.SentencePieceProcessor()
    made.LoadFromSerializedProto(model)
    return made


@dataclass
class Pieces:
    """The tokens of a text, as the package tokenizers returns them."""

    ids: list[int]
    tokens: list[str]
    type_ids: list[int]
    word_ids: list[int | None]

    def truncate(self, length: int, direction: str = "right") -> None:
        """Keep so many, of the beginning or of the end."""
        kept = slice(length) if direction == "right" else slice(max(0, len(self.ids) - length), None)
        for name in vars(self):
            setattr(self, name, getattr(self, name)[kept])


class SentencePieces:
    """A SentencePiece model with the methods of a tokenizer of the package tokenizers that qkv calls.

    Parameters
    ----------
    model : bytes
    scheme : {"always", "first", "never"}
        Where a space is written before a text, if the model says that there is one: before each part between special
        tokens, before the first part, nowhere.
    numbers : mapping, optional
        From pieces to the ids of the neural model, where they are others than SentencePiece's; it may lack some.
    written : mapping, optional
        The same of texts that are generated, where they are others.
    """

    decoder = None

    def __init__(
        self,
        model: bytes,
        scheme: str = "always",
        numbers: Mapping[str, int] | None = None,
        written: Mapping[str, int] | None = None,
    ) -> None:
        self.files = {"tokenizer.model": model}
        self.reader = processor(model if scheme != "never" else model + NO_PREFIX)
        self.bare = processor(model + NO_PREFIX)
        self.inner = self.bare if scheme == "first" else self.reader
        own = [self.reader.id_to_piece(i) for i in range(self.reader.get_piece_size())]
        self.numbers = dict(numbers) if numbers is not None else {piece: i for i, piece in enumerate(own)}
        self.unknown = own[self.reader.unk_id()]
        self.written = {i: piece for piece, i in (written or self.numbers).items()}
        self.prefixed = self.reader.encode("a", out_type=str)[0].startswith(SPACE)
        self.falls_back = any(self.reader.is_byte(i) for i in range(len(own)))
        self.begins_with_code = False  # >>de<<, say
        self.lowers = False
        self.keeps_space = False  # no second one is written before a text that begins with it
        self.added: dict[int, Any] = {}
        self.ends: tuple[list[str], list[str]] = ([], [])
        self.between: list[str] | None = None  # the texts of a pair, where it is not the ends again
        self.second_type = 1
        self.encode_special_tokens = False
        self.truncation: Any = None

    def no_padding(self) -> None:
        """Nothing is padded."""

    no_truncation = no_padding

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Return the ids of the pieces."""
        added = {token.content: i for i, token in self.added.items()} if with_added_tokens else {}
        return {**self.numbers, **added}

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Return how many there are."""
        return len(self.get_vocab(with_added_tokens))

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token."""
        found = [i for i, added in self.added.items() if added.content == token]
        return found[0] if found else self.numbers.get(token)

    def id_to_token(self, number: int) -> str | None:
        """Return the token of an id."""
        return self.added[number].content if number in self.added else self.written.get(number)

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        """Return the tokens that are never divided, by their ids."""
        return dict(self.added)

    def add_tokens(self, tokens: Iterable[Any]) -> None:
        """Add tokens that are never divided; those that are no piece get the next ids."""
        for token in tokens:
            found = self.token_to_id(token.content)
            number = (
                found if found is not None else max([*self.numbers.values(), *self.added], default=-1) + 1
            )
            self.added[number] = token
        self.__dict__.pop("_parts", None)

    def add_special_tokens(self, tokens: Iterable[Any]) -> None:
        """Add tokens that texts of ids are without."""
        for token in tokens:
            token.special = True
            self.add_tokens([token])

    @cached_property
    def _parts(self) -> dict[bool, re.Pattern[str]]:
        patterns = {}
        for divided in (False, True):  # special tokens of a text are divided as its words are
            tokens = [t for t in self.added.values() if not (divided and t.special)]
            tokens.sort(key=lambda token: -len(token.content))
            options = [SPACES * t.lstrip + f"({re.escape(t.content)})" + SPACES * t.rstrip for t in tokens]
            patterns[divided] = re.compile("|".join(options) or "(?!)")
        return patterns

    def encode_batch(self, texts: Iterable[str], add_special_tokens: bool = True) -> list[Pieces]:
        """Return the tokens of each text."""
        return [self.encode(text, add_special_tokens) for text in texts]

    encode_batch_fast = encode_batch

    def encode(self, text: str, add_special_tokens: bool = True, divided: bool | None = None) -> Pieces:
        """Return the tokens of a text."""
        divided = self.encode_special_tokens if divided is None else divided
        tokens: list[str] = []
        place = 0
        if self.begins_with_code and (code := CODE.match(text)):
            tokens.append(code[0])
            place = code.end()
        for found in self._parts[divided].finditer(text, place):
            self._read(text[place : found.start()], place == 0, tokens)
            tokens.append(next(group for group in found.groups() if group is not None))
            place = found.end()
        self._read(text[place:], place == 0, tokens)
        made = self._pieces(tokens, 0, True)
        return self.post_process(made) if add_special_tokens else made

    def _read(self, text: str, first: bool, tokens: list[str]) -> None:
        if text:
            text = text.lower() if self.lowers else text
            spaced = self.keeps_space and text[0] in (" ", SPACE)
            tokens += (self.bare if spaced else self.reader if first else self.inner).encode(
                text, out_type=str
            )

    def plain(self, text: str) -> list[int]:
        """Return the ids of a text in which nothing is a token by itself, as it is inside a longer one."""
        return self._pieces(self.bare.encode(text, out_type=str), 0, False).ids

    def _pieces(self, tokens: Sequence[str], kind: int, words: bool) -> Pieces:
        unknown = self.numbers[self.unknown]
        own = {token.content: i for i, token in self.added.items()}
        ids = [own.get(token, self.numbers.get(token, unknown)) for token in tokens]
        word, numbers = -1, []
        for token in tokens:
            word += token.startswith(SPACE) or token in own or word < 0
            numbers.append(word)
        return Pieces(ids, list(tokens), [kind] * len(ids), [*numbers] if words else [None] * len(ids))

    def post_process(self, encoding: Pieces, pair: Pieces | None = None) -> Pieces:
        """Write what is around a text, or around a pair of texts."""
        first, last = self.ends
        parts = [self._pieces(first, 0, False), encoding]
        if pair is not None:
            pair.type_ids = [self.second_type] * len(pair.ids)
            parts += [self._pieces(self._middle, 0, False), pair]
        parts.append(self._pieces(last, 0 if pair is None else self.second_type, False))
        return Pieces(*([x for part in parts for x in getattr(part, name)] for name in vars(encoding)))

    @property
    def _middle(self) -> list[str]:
        first, last = self.ends
        return [*last, *first] if self.between is None else self.between

    def num_special_tokens_to_add(self, is_pair: bool = False) -> int:
        """Return how many tokens are around a text or a pair."""
        return sum(map(len, self.ends)) + (len(self._middle) if is_pair else 0)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids."""
        pieces = []
        for number in ids:
            token = self.added.get(number)
            if token is None:
                pieces.append(self.written.get(number, ""))
            elif not (skip_special_tokens and token.special):
                pieces.append(token.content)
        parts = []
        for of_bytes, run in groupby(
            pieces, lambda piece: self.falls_back and BYTES.fullmatch(piece) is not None
        ):
            text = "".join(run)
            parts.append(_from_bytes(text) if of_bytes else text.replace(SPACE, " "))
        text = "".join(parts)
        return text.strip() if self.begins_with_code else text[self.prefixed and text.startswith(" ") :]


def _from_bytes(pieces: str) -> str:
    found = bytes(int(byte, 16) for byte in BYTES.findall(pieces))
    try:
        return found.decode()
    except UnicodeDecodeError:  # as in the package tokenizers
        return "\ufffd" * len(found)


def from_sentencepieces(path: Path, settings: dict[str, Any], name: str) -> SentencePieces:
    """Make the tokenizer of a model of SentencePiece, as its class does."""
    with errors_as(f"{path}: must hold a model of SentencePiece"):
        model = path.read_bytes()
        processor(model)
    words, of_gemma = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}, name == "GemmaTokenizer"
    if path.name == "source.spm":
        made = _of_marian(path, model, settings)
        words = {end: word for end, word in TRANSLATED.items() if made.token_to_id(word) is not None}
    elif path.name == "spiece.model":
        if name not in ("T5Tokenizer", ""):
            raise ValueError(f"{path}: must be beside tokenizer.json or of a T5Tokenizer; got {name}")
        made = SentencePieces(model)
        words = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
        count = settings.get("extra_ids", 100)
        if not isinstance(count, int) or not 0 <= count <= MOST_EXTRA:
            raise ValueError(
                f"{path}: extra_ids beside it must be from 0 to {MOST_EXTRA}; got {str(count)[:100]}"
            )
        for i in reversed(range(count)):
            made.numbers.setdefault(f"<extra_id_{i}>", len(made.numbers))
        made.written = {i: piece for piece, i in made.numbers.items()}
        words |= {f"<extra_id_{i}>": f"<extra_id_{i}>" for i in range(count)}
    elif path.name == "spm.model":
        if name not in ("DebertaV2Tokenizer", "") or settings.get("split_by_punct"):
            raise ValueError(
                f"{path}: must be beside tokenizer.json or of a DebertaV2Tokenizer without split_by_punct; got {name}"
            )
        made = SentencePieces(model)
        made.lowers = bool(settings.get("do_lower_case", False))
        words = {"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "pad": "[PAD]"}
        made.numbers.setdefault("[MASK]", len(made.numbers))
        made.written[made.numbers["[MASK]"]] = "[MASK]"
        words["mask"] = "[MASK]"
        made.between = ["[SEP]"]
    elif path.name == "sentencepiece.bpe.model":
        if name != "XLMRobertaTokenizer":
            raise ValueError(
                f"{path}: must be beside tokenizer.json or of an XLMRobertaTokenizer; got {name}"
            )
        made = SentencePieces(model, numbers=_of_fairseq(model))
        words |= {"pad": "<pad>", "mask": "<mask>"}
        made.between, made.second_type = ["</s>", "</s>"], 0
    else:
        made = SentencePieces(model, "always" if of_gemma else prepend_scheme(settings, not name))
        made.keeps_space = name == "LlamaTokenizer"
        words = {"bos": "<bos>", "eos": "<eos>", "unk": "<unk>", "pad": "<pad>"} if of_gemma else words
    beside = ("vocab.json", "target_vocab.json", "target.spm") if path.name == "source.spm" else ()
    files = {name: path.with_name(name) for name in (path.name, *beside)}
    made.files = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    given = special_tokens(settings)
    words = {end: given.get(f"{end}_token", word) for end, word in words.items()}
    if of_gemma and made.token_to_id("<mask>") is not None:
        words["mask"] = "<mask>"
    for end, word in words.items():
        if made.token_to_id(word) is None:
            raise ValueError(f"{path}: must hold the {end} token {word[:100]!r}; there is none")
    made.add_special_tokens([never_divided(word) for word in words.values()])
    bos, eos = ([words[end]] if end in words else [] for end in ("bos", "eos"))
    if path.name == "tokenizer.model":
        first, last = settings.get("add_bos_token", False), settings.get("add_eos_token", False)
        made.ends = (bos if first else [], eos if last else [])
    else:
        made.ends = (bos, eos)
    return made


def never_divided(word: str, **options: bool) -> Any:
    """Return a token that is found in texts before they are divided."""
    return library().AddedToken(word, **{"special": True, "normalized": False, **options})


def _of_fairseq(model: bytes) -> dict[str, int]:
    """Return XLM-RoBERTa's ids: four tokens are first, and each piece has the next id."""
    own = processor(model)
    pieces = [own.id_to_piece(i) for i in range(own.get_piece_size())]
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    return {word: i for i, word in enumerate([*first, *pieces[3:], "<mask>"])}


def _of_marian(path: Path, model: bytes, settings: Mapping[str, Any]) -> SentencePieces:
    """Make a translator's tokenizer: source.spm divides, vocab.json says the ids."""
    numbers = optional_json(path.with_name("vocab.json"))
    written = optional_json(path.with_name("target_vocab.json")) if settings.get("separate_vocabs") else None
    for file, table in (("vocab.json", numbers), ("target_vocab.json", written)):
        if table is not None and not (table and all(isinstance(i, int) and i >= 0 for i in table.values())):
            raise ValueError(
                f"{path.with_name(file)}: must hold the ids of words beside source.spm; got others"
            )
    if "<unk>" not in numbers:
        raise ValueError(f"{path.with_name('vocab.json')}: must hold the unk token '<unk>'; there is none")
    made = SentencePieces(model, numbers=numbers, written=written)
    made.between, made.second_type, made.begins_with_code = [], 0, True
    return made
