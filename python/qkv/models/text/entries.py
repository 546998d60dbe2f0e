"""What files beside a model may say: entries that are computed, that change nothing, and that are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entries:
    """The table of a file.

    Parameters
    ----------
    computed : collection of str
    without_effect : mapping
        From entries to why they change nothing here.
    refused : mapping
        From entries to the values that they may have; others ask for what qkv does not compute.
    """

    computed: frozenset[str]
    without_effect: Mapping[str, str]
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def known(self) -> set[str]:
        """The entries of all three kinds."""
        return {*self.computed, *self.without_effect, *self.refused}

    def check(self, path: Path, entries: Mapping[str, Any], among: str = "") -> None:
        """Refuse values that ask for more than is computed."""
        for name, allowed in self.refused.items():
            value = entries.get(name, allowed[0])
            if not any(value == other and type(value) is type(other) for other in allowed):
                shown = " or ".join(
                    str(v).lower() if v is False else str(v) for v in allowed if v is not None
                )
                raise ValueError(
                    f"{path}: {among}{name} must be {shown or 'null'} because qkv computes nothing else; "
                    f"got {str(value)[:100]}"
                )


def one_of(path: Path, name: str, value: Any, allowed: Iterable[Any], among: str = "") -> Any:
    """Return the value of an entry that has few."""
    if value not in (allowed := tuple(allowed)):
        raise ValueError(
            f"{path}: {among}{name} must be {' or '.join(map(str, allowed))}; got {str(value)[:100]}"
        )
    return value


_PARTS = "is a part of the tokenizer, which its own file holds"
_PLACE = "names the place of a file, which is found by its own name"
_PADDING = "says how texts are padded, which qkv leaves out of every product"
_ANSWERS = "says how answers are divided into parts, which qkv leaves to its callers"
_LOADED = "says how the folder was written or loaded"

_TOKENS = """
bos_token eos_token unk_token sep_token pad_token cls_token mask_token additional_special_tokens extra_special_tokens
"""
_CONFIG = """
tokenizer_class chat_template added_tokens_decoder model_specific_special_tokens
model_max_length max_len truncation_side model_input_names clean_up_tokenization_spaces
clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output split_special_tokens
chat_control_tokens do_lower_case strip_accents tokenize_chinese_chars add_prefix_space split_by_punct
add_bos_token add_eos_token legacy extra_ids separate_vocabs auto_map
"""
_FILE = "version added_tokens normalizer pre_tokenizer post_processor decoder model truncation"

TOKENIZER_CONFIG = Entries(
    frozenset((_TOKENS + _CONFIG).split()),
    {
        "name_or_path": _LOADED,
        "processor_class": "names a class for images and sounds",
        "verbose": "says how much is printed",
        "files_loaded": _LOADED,
        "is_local": _LOADED,
        "local_files_only": _LOADED,
        "backend": "names a library; qkv chooses by the files that there are",
        "padding_side": _PADDING,
        "pad_token_type_id": _PADDING,
        "pad_to_multiple_of": _PADDING,
        "tokenizer_padding": _PADDING,
        "max_length": "is a length of one call; model_max_length is the model's",
        "stride": "is for the rest of long texts, which is not returned",
        "truncation_strategy": "is a strategy of one call; pairs are cut at the longer text",
        "tokenizer_truncation": "is a length of one call",
        "response_template": _ANSWERS,
        "response_schema": _ANSWERS,
        "tokenizer": _PARTS,
        "tokenizer_object": _PARTS,
        "post_processor": _PARTS,
        "vocab": _PARTS,
        "merges": _PARTS,
        "unk_id": _PARTS,
        "_spm_precompiled_charsmap": _PARTS,
        "_json_truncation": _PARTS,
        "_json_padding": _PARTS,
        "tokenizer_file": _PLACE,
        "vocab_file": _PLACE,
        "merges_file": _PLACE,
        "gguf_file": _PLACE,
        "target_vocab_file": _PLACE,
        "source_spm": _PLACE,
        "target_spm": _PLACE,
        "errors": "is for bytes that are no text, which become replacement marks, as in the package tokenizers",
        "trim_offsets": "changes places in the text, which are not returned",
        "use_default_system_prompt": "is for templates that no folder has any more",
        "source_lang": "chooses rules for punctuation of another package, which is left as it is",
        "target_lang": "is for texts that are to be learned",
        "trust_remote_code": "allows programs of the folder to run, which qkv never does",
    },
    {"init_inputs": ((), [], None), "sp_model_kwargs": ({}, None), "fix_mistral_regex": (False, None)},
)

TOKENIZER_JSON = Entries(
    frozenset(_FILE.split()),
    {"padding": _PADDING},
)
TRUNCATION = Entries(
    frozenset({"direction"}),
    {
        "max_length": "is a length of one call; model_max_length is the model's",
        "stride": "is for the rest of long texts, which is not returned",
        "strategy": "is a strategy of one call; pairs are cut at the longer text",
    },
)
