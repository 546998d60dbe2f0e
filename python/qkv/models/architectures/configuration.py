"""The entries of a config.json, checked against what an architecture knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from ... import _core
from ..._words.errors import shown
from .entries import NEVER, OTHER_NAMES

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
MOST_LABELS = 1_000_000
LARGEST = 2**31  # of sizes
MOST_LAYERS = 10_000  # their options are listed before a file is opened


class Configuration:
    """The entries of a Hugging Face config.json; those that it lacks have the architecture's defaults.

    Entries are attributes. ``hidden_size``, ``num_hidden_layers``, ``num_attention_heads``, ``max_position_embeddings``
    and ``vocab_size`` are understood under any name that an architecture has for them.

    Parameters
    ----------
    entries : mapping
        With ``model_type``.
    defaults : mapping
        The entries that the architecture has.
    allowed : mapping
        Entries that must be one of a few values.
    nulls : mapping
        Entries that may be null although their default is none, and what that means.
    aliases : mapping
        Other names of entries, which hold where both are there.

    Raises
    ------
    ValueError, TypeError
        If an entry does not fit, or has a value that qkv does not compute.

    Examples
    --------
    >>> entries = {"model_type": "gpt2", "n_embd": 24, "n_layer": 1, "n_head": 3, "vocab_size": 30}
    >>> model = qkv.models.from_config(entries)
    >>> model.config.n_embd, model.config.hidden_size, model.config.n_positions
    (24, 24, 1024)
    """

    known: Set[str]
    num_labels: int
    id2label: dict[int, str]

    def __init__(
        self,
        entries: Mapping[str, Any],
        defaults: Mapping[str, Any],
        allowed: Mapping[str, tuple[Any, ...]],
        nulls: Mapping[str, Any] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        nulls, aliases = nulls or {}, dict(aliases or {})
        standard = {name: own for name, others in OTHER_NAMES.items() for own in others if own in defaults}
        self._standard: Mapping[str, str] = standard
        self.known = {*defaults, *allowed, *aliases}  # and what is asked for besides
        self._given = {
            standard.get(name, name): value for name, value in entries.items() if name not in aliases
        }
        self._given |= {own: entries[name] for name, own in aliases.items() if entries.get(name) is not None}
        values = {name: value for name, value in self._given.items() if value is not None or name in defaults}
        values |= {name: nulls[name] for name in nulls if name in values and values[name] is None}
        self._values = {**defaults, **values}
        for name, default in defaults.items():
            if not (name in nulls and self._given.get(name, 0) is None):
                _check(name, self._values[name], default)
        for name, those in {**NEVER, **allowed}.items():
            if name in self._values and self._values[name] not in those:
                named = " or ".join(str(v) for v in those if v not in (None, {}, [])) or "unset"
                raise ValueError(
                    f"{name} must be {named} because qkv has no other for {entries.get('model_type')}; "
                    f"got {shown(self._values[name])}"
                )
        self._check_ranges()
        self._count_labels()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values, name = self._values, self._standard.get(name, name)
        if name not in values:
            raise AttributeError(f"config has no entry {name}; it has {', '.join(sorted(values))}")
        return values[name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((type(self), *sorted(self._given)))

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return an entry, or `otherwise` where there is none."""
        self.known |= {name}
        value = self._values.get(self._standard.get(name, name))
        return otherwise if value is None else value

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a config.json that Hugging Face's libraries read."""
        return dict(self._given)

    def activation(self, name: str) -> str:
        """Return qkv's name of the activation that an entry names."""
        found = self.get(name)
        if found not in ACTIVATIONS:
            raise ValueError(f"{name} must be one of {', '.join(ACTIVATIONS)}; got {str(found)[:100]!r}")
        return ACTIVATIONS[found]

    def gated_activation(self, name: str) -> tuple[str, bool]:
        """Return qkv's name of the activation that an entry names after ``gated-`` or without it, and which it is."""
        gate, _, found = self.get(name).rpartition("-")
        if gate not in ("", "gated") or found not in ACTIVATIONS:
            raise ValueError(f"{name} must be an activation or gated- and one; got {self.get(name)[:100]!r}")
        found = "gelu_new" if gate and found == "gelu" else found  # files with gated-gelu mean this form
        return ACTIVATIONS[found], gate == "gated"

    def _check_ranges(self) -> None:
        """Check numbers by what their names say."""
        values = self._values
        for name, value in values.items():
            if name not in self.known or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if name.endswith(("layer", "layers")) and value < 0:
                raise ValueError(f"{name} must be at least 0; got {value}")
            if name in _SIZES and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
            if name.endswith(("dropout", "dropout_prob", "pdrop", "dropout_rate")) and not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1; got {value}")
            if name.endswith(("_eps", "_epsilon", "initializer_range")):
                if not 0 <= value < math.inf:
                    raise ValueError(f"{name} must be a number from 0; got {value}")
                _core.check_float32("config", name, value)
        pad, words = values.get("pad_token_id"), values.get("vocab_size")
        if "pad_token_id" in self.known and pad is not None and words is not None and not 0 <= pad < words:
            raise ValueError(f"pad_token_id must be from 0 to vocab_size - 1 = {words - 1}; got {pad}")
        sizes: list[Any] = [
            values.get(self._standard.get(name, name))
            for name in ("hidden_size", "num_attention_heads", "head_dim")
        ]
        width, heads, own = sizes
        if own is None and width % heads != 0:
            raise ValueError(
                f"hidden_size must be divisible by num_attention_heads; got hidden_size = {width}, "
                f"num_attention_heads = {heads}"
            )

    def _count_labels(self) -> None:
        labels, count = self._given.get("id2label"), self._given.get("num_labels")
        if labels is None:
            count = self._values.get("num_labels", 2) if count is None else count
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"num_labels must be an integer from 1 to {MOST_LABELS}; got {shown(count)}")
            if not 1 <= count <= MOST_LABELS:
                raise ValueError(f"num_labels must be from 1 to {MOST_LABELS}; got {shown(count)}")
            labels = {i: f"LABEL_{i}" for i in range(count)}
            self._given |= {} if count == 2 else {"id2label": {str(i): name for i, name in labels.items()}}
        if not isinstance(labels, Mapping) or not labels:
            raise TypeError(f"id2label must be a dict from numbers to names; got {shown(labels)}")
        try:
            found = {int(number): str(name) for number, name in labels.items()}
        except (TypeError, ValueError):
            raise ValueError(f"id2label must have numbers for keys; got {str([*labels][:5])[:100]}") from None
        if sorted(found) != list(range(len(labels))):
            raise ValueError(f"id2label must number its labels 0, 1, 2, ...; got {sorted(found)[:5]}")
        self._given.pop("num_labels", None)
        self._values["id2label"] = self.id2label = {i: found[i] for i in range(len(found))}
        self._values["num_labels"] = self.num_labels = len(found)

    @property
    def label2id(self) -> dict[str, int]:
        """The numbers of the classes by name."""
        return {name: number for number, name in self.id2label.items()}


_SIZES = (
    "d_ff", "d_kv", "d_model", "decoder_attention_heads", "decoder_ffn_dim", "dim", "embedding_size",
    "encoder_attention_heads", "encoder_ffn_dim", "head_dim", "hidden_dim", "hidden_size", "intermediate_size",
    "max_position_embeddings", "n_embd", "n_head", "n_heads", "n_inner", "n_positions", "num_attention_heads",
    "num_channels", "num_heads", "num_key_value_heads", "vocab_size",
)  # fmt: skip


def _check(name: str, value: object, default: object) -> None:
    """Check the type of an entry by its default."""
    if value is None and default is None:
        return
    if name.endswith("_token_id") and name != "pad_token_id":
        return  # generation looks at them
    if name in ("image_size", "patch_size"):
        return  # one number or two, which images look at
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, bool):
        good, what = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        good, what = number and isinstance(value, int), "an integer"
    elif isinstance(default, float):
        good, what = number, "a number"
    elif isinstance(default, str):
        good, what = isinstance(value, str), "a string"
    elif name in _SIZES:
        good, what = number and isinstance(value, int), "an integer"
    else:
        return
    if not good:
        raise TypeError(f"{name} must be {what}; got {shown(value)}")
    if number and name.endswith(("layer", "layers")) and value > MOST_LAYERS:  # type: ignore[operator]
        raise ValueError(f"{name} must be at most {MOST_LAYERS}; got {value}")
    if number and isinstance(value, int) and not -LARGEST < value < LARGEST:
        raise ValueError(f"{name} must be below 2 ** 31; got a number of {len(str(value))} digits")


def sizes(c: Configuration, activation: str = "hidden_act") -> dict[str, Any]:
    """Return a block's heads, its inner width and the activation that an entry names."""
    inner = {"dim_feedforward": c.intermediate_size, "activation": c.activation(activation)}
    return {"nhead": c.num_attention_heads, **inner}


def rotary(
    c: Configuration, kind: str | None = None, base: float | None = None, part: float | None = None
) -> dict[str, Any]:
    """Return a block's rotary options, of a layer type where those differ; `part` of the features of a head is rotated.

    Hugging Face's architectures without such a part rotate all features, with any ``partial_rotary_factor``.
    """
    given = c.get("rope_parameters") or {}
    if kind is not None and isinstance(given, dict) and kind in given:
        given = given[kind] or {}
    scaling = c.get("rope_scaling") or {}
    if not isinstance(given, dict) or not isinstance(scaling, dict):
        raise TypeError("rope_parameters and rope_scaling must be objects; got something else")
    rules = dict(scaling or given)
    own = c.get("rope_theta", 10000.0)
    theta = rules.pop("rope_theta", None) or base or own
    factor = rules.pop("partial_rotary_factor", None) or c.get("partial_rotary_factor") or 1.0
    rule = rules.get("rope_type", rules.get("type", "default"))
    known = ("default", "linear", "dynamic", "yarn", "llama3")
    if rule not in known:
        raise ValueError(f"rope_type must be one of {', '.join(known)}; got {str(rule)[:100]!r}")
    if rule != "default" and part is None and factor != 1:
        raise ValueError(
            f"partial_rotary_factor must be 1 with rope_type {rule!r} because all features turn; got {shown(factor)}"
        )
    options: dict[str, Any] = {"rotary_base": theta}
    width = head_width(c)
    if part is not None:
        options["rotary_dim"] = int(width * part)
    if rule != "default":
        if rule == "dynamic":  # Hugging Face scales beyond this entry of the configuration
            rules["original_max_position_embeddings"] = c.max_position_embeddings
        rules.setdefault("original_max_position_embeddings", c.max_position_embeddings)
        if rule == "yarn" and rules.get("factor") is None:
            rules["factor"] = c.max_position_embeddings / rules["original_max_position_embeddings"]
        options["rotary_scaling"] = rules
    return options


def head_width(c: Configuration) -> int:
    """Return how many features a head has."""
    width: int = c.get("head_dim") or c.hidden_size // c.num_attention_heads
    return width


def layer_types(c: Configuration, slides: Callable[[int], bool]) -> list[str]:
    """Return each layer's type; where there are no ``layer_types``, that of layers with ``slides(i)`` has a window."""
    known = ("full_attention", "sliding_attention")
    found = c.get("layer_types") or [known[bool(slides(i))] for i in range(c.num_hidden_layers)]
    if len(found) != c.num_hidden_layers or not {*found} <= {*known}:
        raise ValueError(f"layer_types must be {c.num_hidden_layers} of {' and '.join(known)}; got {found}")
    return list(found)


def windows(c: Configuration, kinds: Sequence[str], used: bool = True) -> list[dict[str, Any]]:
    """Return a window for each layer of a type that has one; where rows see what follows, it is on both sides."""
    width = c.sliding_window if used else None
    one = {} if width is None else {"window": (width - 1, 0) if c.is_causal else (width, width)}
    return [one if kind == "sliding_attention" else {} for kind in kinds]
