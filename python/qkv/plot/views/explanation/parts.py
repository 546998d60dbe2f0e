"""Which modules of a model are its layers, and the part that each module of a layer has in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .... import _core
from ...._words.errors import shown
from ....look.names import Names, Part, joined
from ....nn import LayerNorm, RMSNorm

_NAME = "explain"
SIDES = "encoder", "decoder"
_ROLES = "norm1", "norm2", "norm3", "post_norm1", "post_norm2", "post_norm3", "linear2", "self_attn.out_proj"
Attention = tuple[str, Part]


@dataclass
class Block:
    """A layer of a model: its attentions and what is around them; a bare attention has nothing there."""

    path: str | None
    config: dict[str, Any]
    modules: dict[str, Any]  # of the model, by path
    attentions: list[Attention] = field(default_factory=list)

    def role(self, name: str) -> str | None:
        """Return the path of the module that has a part in the layer, such as "norm1"."""
        if self.path is None:
            return None
        path = joined(self.path, (self.config.get("names") or {}).get(name, name))
        return path if path in self.modules else None

    def named(self, word: str) -> str:
        """Return the name of a value of the layer."""
        return joined(self.path or "", word)

    @property
    def placement(self) -> str:
        """Where norms are: "pre", "post", "sandwich" or "parallel"."""
        first = self.config.get("norm_first", getattr(self.modules[self.path or ""], "norm_first", None))
        if first is not None:
            return "pre" if first else "post"
        return str(self.config.get("placement", "pre"))

    def needed(self) -> list[str]:
        """Return the names of the values that its steps show."""
        found = [joined(path, word) for path, part in self.attentions for word in (*part.words, "output")]
        for path, part in self.attentions:
            of_queries = (part.module._config().get("names") or {}).get("q_proj", "q_proj")
            found += [joined(joined(path, name), "output") for name in ("out_proj", "q_norm", of_queries)]
        if self.path is not None:
            found += [self.named("input"), self.named("output")]
            for role in filter(None, map(self.role, _ROLES)):
                found += [f"{role}.input", f"{role}.output"]
        return found

    @property
    def label(self) -> str:
        """What the layer is called."""
        return self.path or self.attentions[0][0] or type(self.attentions[0][1].module).__name__


@dataclass
class Stack:
    """The layers that one text goes through, and the modules before and after them."""

    blocks: list[Block]
    before: list[str]
    norm: str | None
    side: str | None
    modules: dict[str, Any]


def stack_of(model: Any, names: Names, side: Any) -> Stack:
    """Return the layers of a model, or of one side of an encoder and decoder."""
    modules = dict(_core.Module.named_modules(model))
    blocks: list[Block] = []
    for path, part in names.having("weights"):
        owner, config = _owner(path, modules)
        if owner is None or not blocks or blocks[-1].path != owner:
            blocks.append(Block(owner, config, modules))
        blocks[-1].attentions.append((path, part))
    if not blocks:
        raise ValueError(
            f"{_NAME}: model must have an attention whose weights can be seen; got {type(model).__name__}"
        )
    found = {_side_of(block) for block in blocks}
    if not found.issuperset(SIDES):
        if side is not None:
            raise ValueError(
                f"{_NAME}: side must be left out because the model is no encoder with a decoder; got {shown(side)}"
            )
    elif side not in (None, *SIDES):
        raise ValueError(f'{_NAME}: side must be "encoder" or "decoder"; got {shown(side)}')
    else:
        side = side or "encoder"
        blocks = [block for block in blocks if _side_of(block) == side]
    return Stack(blocks, _before(blocks[0], modules, side), _norm(blocks[0], modules), side, modules)


def _side_of(block: Block) -> str:
    return block.attentions[0][0].partition(".")[0]


def _owner(path: str, modules: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the path and the options of the layer that an attention is in: the nearest module with linear1."""
    while path:
        path = path.rpartition(".")[0]
        config = modules[path]._config()
        if (
            type(modules[path]).__module__.startswith("qkv")
            and joined(path, (config.get("names") or {}).get("linear1", "linear1")) in modules
        ):
            return path, config
    return None, {}


def _before(block: Block, modules: dict[str, Any], side: str | None) -> list[str]:
    """Return the modules that make the rows that the first layer gets, in their order."""
    if block.path is None:
        return []
    kinds = "Embedding", "PositionalEncoding", "LayerNorm", "RMSNorm", "Linear"
    found = []
    for path, module in modules.items():
        if path == block.path:
            break
        other = side is not None and path.partition(".")[0] in {*SIDES} - {side}
        other = other or path.partition("_")[0] == {"encoder": "tgt", "decoder": "src"}.get(side or "")
        in_block = block.path and path.startswith(block.path.rpartition(".")[0] + ".")
        if type(module).__name__ in kinds and "relative" not in path and not other and not in_block:
            found.append(path)
    return found


def _norm(block: Block, modules: dict[str, Any]) -> str | None:
    """Return the norm after the last layer."""
    stack = (block.path or "").rpartition(".")[0].rpartition(".")[0]
    path = joined(stack, "norm")
    is_norm = isinstance(modules.get(path), (LayerNorm, RMSNorm)) and block.path not in (None, "")
    return path if is_norm else None
