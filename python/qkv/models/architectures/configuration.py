"""The entries of a config.json, checked against what an architecture knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from ..._words.errors import shown

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# What no architecture here computes otherwise, where a configuration has it.
NEVER: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False, None),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
# What architectures call sizes that all have.
OTHER_NAMES = {
    "hidden_size": ("n_embd", "d_model", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "encoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "max_position_embeddings": ("n_positions",),
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
    num_labels: Any
    _standard: Mapping[str, str] = {}

    def __init__(
        self,
        entries: Mapping[str, Any],
        defaults: Mapping[str, Any],
        allowed: Mapping[str, tuple[Any, ...]],
    ) -> None:
        standard = {name: own for name, others in OTHER_NAMES.items() for own in others if own in defaults}
        self._standard = standard
        self.known = {*defaults, *allowed}  # and what is asked for besides
        self._given = {standard.get(name, name): value for name, value in entries.items()}
        self._checked = {
            **defaults,
            **{k: v for k, v in self._given.items() if v is not None or k in defaults},
        }
        for name, default in defaults.items():
            _check(name, self._values[name], default)
        for name, values in {**NEVER, **allowed}.items():
            if name in self._values and self._values[name] not in values:
                named = " or ".join(str(v) for v in values if v is not None)
                raise ValueError(
                    f"{name} must be {named} because qkv has no other for {entries.get('model_type')}; "
                    f"got {str(self._values[name])[:100]}"
                )
        self.num_labels = self._count_labels()

    @property
    def _values(self) -> dict[str, Any]:
        return self._checked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values, name = self._values, self._standard.get(name, name)
        if name not in values:
            raise AttributeError(f"config has no entry {name}; it has {', '.join(sorted(values))}")
        return values[name]

    def __repr__(self) -> str:
        return f"Configuration({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"

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

    def _count_labels(self) -> int:
        labels, count = self._given.get("id2label"), self._given.get("num_labels")
        if isinstance(labels, Mapping) and labels:
            if count is not None and count != len(labels):
                raise ValueError(
                    f"num_labels must be {len(labels)}, the length of id2label; got {shown(count)}"
                )
            return len(labels)
        count = self._values.get("num_labels", 2) if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_LABELS:
            raise ValueError(f"num_labels must be an integer from 1 to {MOST_LABELS}; got {shown(count)}")
        self._given |= {"id2label": {str(i): f"LABEL_{i}" for i in range(count)}} if count != 2 else {}
        self._given.pop("num_labels", None)
        return count


def _check(name: str, value: object, default: object) -> None:
    """Check the type of an entry by its default; numbers other than sizes may be unset, and tokens but the padding."""
    if name.endswith("_token_id") and name != "pad_token_id":
        return  # generation looks at them
    if value is None and (default is None or isinstance(default, float)):
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, bool):
        good, what = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        good, what = number and isinstance(value, int), "an integer"
    elif isinstance(default, float):
        good, what = number, "a number"
    elif isinstance(default, str):
        good, what = isinstance(value, str), "a string"
    else:
        return
    if not good:
        raise TypeError(f"{name} must be {what}; got {shown(value)}")
    if number and isinstance(value, int) and not -LARGEST < value < LARGEST:
        raise ValueError(f"{name} must be below 2 ** 31; got a number of {len(str(value))} digits")
    if name.endswith(("layer", "layers")) and isinstance(value, int) and value > MOST_LAYERS:
        raise ValueError(f"{name} must be at most {MOST_LAYERS}; got {value}")


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
    head = c.get("head_dim") or c.hidden_size // c.num_attention_heads
    if part is not None:
        options["rotary_dim"] = int(head * part)
    if rule != "default":
        if rule == "dynamic":  # Hugging Face scales beyond this entry of the configuration
            rules["original_max_position_embeddings"] = c.max_position_embeddings
        rules.setdefault("original_max_position_embeddings", c.max_position_embeddings)
        if rule == "yarn" and rules.get("factor") is None:
            rules["factor"] = c.max_position_embeddings / rules["original_max_position_embeddings"]
        options["rotary_scaling"] = rules
    return options


def layer_types(c: Configuration, slides: Callable[[int], bool]) -> list[str]:
    """Return each layer's type; where there are no ``layer_types``, that of layers with ``slides(i)`` has a window."""
    known = ("full_attention", "sliding_attention")
    found = c.get("layer_types") or [known[bool(slides(i))] for i in range(c.num_hidden_layers)]
    if len(found) != c.num_hidden_layers or not {*found} <= {*known}:
        raise ValueError(f"layer_types must be {c.num_hidden_layers} of {' and '.join(known)}; got {found}")
    return list(found)


def windows(c: Configuration, slides: Callable[[int], bool] | None = None) -> list[dict[str, Any]]:
    """Return a window for each layer that has one: by ``layer_types``, or those from ``max_window_layers`` on."""
    width, slide = c.get("sliding_window"), c.get("use_sliding_window", True)
    width, first = width if slide else None, c.get("max_window_layers", 0)
    kinds = layer_types(c, slides or (lambda i: i >= first))
    return [
        {"window": (width - 1, 0)} if kind == "sliding_attention" and width is not None else {}
        for kind in kinds
    ]
