"""What a generation_config.json says: entries that are computed, that change nothing, and that are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._words.errors import shown

# Entries that are computed, and what they must be; any may be null.
COMPUTED: dict[str, str] = {
    "bad_words_ids": "lists of ids",
    "begin_suppress_tokens": "ids",
    "bos_token_id": "id",
    "decoder_start_token_id": "id",
    "do_sample": "true or false",
    "early_stopping": "true, false or 'never'",
    "encoder_no_repeat_ngram_size": "a whole number, 0 or more",
    "eos_token_id": "ids",
    "epsilon_cutoff": "a number from 0 to 1",
    "eta_cutoff": "a number from 0 to 1",
    "force_bos_token_to_be_generated": "true or false",
    "forced_bos_token_id": "id",
    "forced_eos_token_id": "ids",
    "length_penalty": "a number",
    "max_length": "a whole number, 0 or more",
    "max_new_tokens": "a whole number, 0 or more",
    "min_length": "a whole number, 0 or more",
    "min_new_tokens": "a whole number, 0 or more",
    "min_p": "a number from 0 to 1",
    "no_repeat_ngram_size": "a whole number, 0 or more",
    "num_beams": "a whole number, 0 or more",
    "pad_token_id": "id",
    "renormalize_logits": "true or false",
    "repetition_penalty": "a number",
    "suppress_tokens": "ids",
    "temperature": "a number",
    "top_h": "a number from 0 to 1",
    "top_k": "a whole number, 0 or more",
    "top_p": "a number from 0 to 1",
    "typical_p": "a number from 0 to 1",
}
# Entries that would change the text and have no rule here, with the values that ask for nothing.
REFUSED: dict[str, tuple[Any, ...]] = {
    "assistant_ensemble_weight": (None,),
    "cache_implementation": (
        None, "dynamic", "static", "hybrid", "sliding_window", "offloaded", "offloaded_static",
    ),
    "constraints": (None,),
    "diversity_penalty": (None, 0, 0.0),
    "dola_layers": (None,),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None,),
    "guidance_scale": (None, 1, 1.0),
    "low_memory": (None, False),
    "max_time": (None,),
    "num_beam_groups": (None, 1),
    "num_return_sequences": (None, 1),
    "penalty_alpha": (None, 0, 0.0),
    "remove_invalid_values": (None, False),
    "sequence_bias": (None, {}, []),
    "stop_strings": (None, [], ""),
    "token_healing": (None, False),
    "watermarking_config": (None,),
}  # fmt: skip
_DRAFTS = "says how words are guessed ahead, which changes the speed alone"
_CACHE = "says how keys and values are kept"
_OUTPUT = "says what Hugging Face's generate returns beside the ids"
SAME: dict[str, str] = {
    "assistant_confidence_threshold": _DRAFTS,
    "assistant_early_exit": _DRAFTS,
    "assistant_lookbehind": _DRAFTS,
    "cache_config": _CACHE,
    "compile_config": _CACHE,
    "continuous_batching_config": "is that of a server",
    "disable_compile": _CACHE,
    "is_assistant": _DRAFTS,
    "max_cache_len": _CACHE,
    "max_matching_ngram_size": _DRAFTS,
    "num_assistant_tokens": _DRAFTS,
    "num_assistant_tokens_schedule": _DRAFTS,
    "output_attentions": _OUTPUT,
    "output_hidden_states": _OUTPUT,
    "output_logits": _OUTPUT,
    "output_scores": _OUTPUT,
    "prefill_chunk_size": _CACHE,
    "prompt_lookup_num_tokens": _DRAFTS,
    "return_dict_in_generate": _OUTPUT,
    "speculation_type": _DRAFTS,
    "target_lookbehind": _DRAFTS,
    "transformers_version": "says what wrote the file",
    "use_cache": _CACHE,
    "use_mtp": _DRAFTS,
}
ENTRIES = (*COMPUTED, *REFUSED)


def check_entries(entries: Mapping[str, Any]) -> None:
    """Refuse the entries of a generation_config that have no rule here, and values that are none."""
    for name, without in REFUSED.items():
        if entries.get(name) not in without:
            raise ValueError(
                f"generate: {name} must be unset because qkv has no rule for it; got {shown(entries[name])}"
            )
    for name, what in COMPUTED.items():
        value = entries.get(name)
        if value is not None and not _fits(value, what):
            kind = ValueError if _is_number(value) and what[:1] != "t" else TypeError
            raise kind(f"generate: {name} must be {what}; got {shown(value)}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _fits(value: Any, what: str) -> bool:
    """Return whether a value is what an entry must be; ids are looked at where they are used."""
    if what == "id":
        return True
    if what == "ids":
        return all(type(v) is int for v in (value if isinstance(value, (list, tuple)) else [value]))
    if what == "lists of ids":
        return isinstance(value, (list, tuple)) and all(
            isinstance(v, (list, tuple)) and v and _fits(v, "ids") for v in value
        )
    if what.startswith("true"):
        return isinstance(value, bool) or (what.endswith("'never'") and value == "never")
    if what.startswith("a whole"):
        return type(value) is int and 0 <= value < 2**31
    return _is_number(value) and (what == "a number" or 0 <= value <= 1)


@dataclass(frozen=True)
class Search:
    """How words are chosen in one call: what the caller says, else the file, else Hugging Face's defaults."""

    method: str
    beam_size: int | None
    length_penalty: float
    early_stopping: bool | str
    temperature: float
    top_k: int | None
    top_p: float | None
    filters: Mapping[str, float]  # of what is drawn from, beside the last two
    renormalize: bool  # after the rules


BEAMS = 4  # without a number
# Filters of what is drawn from, and the values that leave out nothing.
FILTERS = {"top_h": 1, "min_p": 0, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0}


def search_of(entries: Mapping[str, Any], given: Mapping[str, Any]) -> Search:
    """Join what a caller says (None where nothing) with the entries of a generation_config.

    A caller that names no method has the file's; Hugging Face's defaults of what the file leaves out go with it.
    """
    own = {name: value for name, value in entries.items() if value is not None}
    said = {name: value for name, value in given.items() if value is not None}
    method, whole = said.get("method"), False
    if method is None:
        beams, draws = own.get("num_beams", 1) > 1, own.get("do_sample", False)
        if beams and draws:
            raise ValueError(
                "generate: method must be given because generation_config asks for beams that are drawn, which qkv "
                f"does not have; got num_beams = {own['num_beams']}, do_sample = True"
            )
        method, whole = ("beam" if beams else "sample" if draws else "greedy"), beams or draws
    drawn, searched = method == "sample", method == "beam"
    if "early_stopping" in said and not searched:
        raise ValueError(
            f'generate: early_stopping must be given with method="beam" because "{method}" does not use it; got '
            f'early_stopping = {shown(said["early_stopping"])}, method = "{method}"'
        )
    top_k = own.get("top_k", 50 if whole else None) if drawn else None
    top_p = own.get("top_p") if drawn else None
    filters = {name: own[name] for name in FILTERS if name in own} if drawn else {}
    filters |= {"min_p": said["min_p"]} if "min_p" in said else {}
    return Search(
        method=method,
        beam_size=said.get(
            "beam_size", own.get("num_beams") if searched and own.get("num_beams", 1) > 1 else None
        ),
        length_penalty=said.get(
            "length_penalty", own.get("length_penalty", float(whole)) if searched else 0.0
        ),
        early_stopping=said.get("early_stopping", own.get("early_stopping", False)),
        temperature=said.get("temperature", own.get("temperature", 1.0) if drawn else 1.0),
        top_k=said.get("top_k", top_k or None),
        top_p=said.get("top_p", None if top_p in (0, 1) else top_p),
        filters={name: value for name, value in filters.items() if value != FILTERS[name]},
        renormalize=own.get("renormalize_logits", False),
    )


def check_search(how: Search) -> None:
    """Refuse what the core does not know of: early_stopping without beams, filters without draws."""
    if how.early_stopping not in (True, False, "never"):
        raise ValueError(
            f"generate: early_stopping must be True, False or 'never'; got {shown(how.early_stopping)}"
        )
    if "min_p" in how.filters and (not _fits(how.filters["min_p"], "a number from 0 to 1")):
        raise ValueError(f"generate: min_p must be a number from 0 to 1; got {shown(how.filters['min_p'])}")
    if how.filters and how.method != "sample":
        raise ValueError(
            f'generate: min_p must be given with method="sample" because "{how.method}" does not use it; got min_p = '
            f'{shown(how.filters["min_p"])}, method = "{how.method}"'
        )
