"""BERT and its heads: models of the table of architectures whose parts have Hugging Face's names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..._core import (
    Embedding,
    Linear,
    Module,
    Tensor,
    TransformerBody,
)
from ..._public import explained
from ...nn import init
from ..architectures.bert import halves
from ..architectures.bert_config import BertConfig
from ..architectures.table import Architecture, Names, architecture_of
from ..files.folders import Weights, checked_folder
from ..files.loading import folder_entries, load_model, read_generation
from .pretrained import PretrainedEncoder

# What files hold beside the parameters.
BUFFERS = re.compile(r"^(bert\.)?embeddings\.(position_ids|token_type_ids)$")


class BertEmbeddings(TransformerBody):
    """``LayerNorm(word + position + segment)``: a body without layers."""


class BertEncoder(TransformerBody):
    """The layers: a body without embeddings, called ``(hidden_states, **options)``."""


class BertPretrained(PretrainedEncoder):
    """A model whose parameters have the names of its file."""

    config: BertConfig
    key: ClassVar[str | None] = None  # of the head in the table

    def __init__(self, config: BertConfig, *, values: bool = True, pooler: bool = True) -> None:
        if not isinstance(config, BertConfig):
            raise TypeError(f"BertModel: config must be a BertConfig; got {type(config).__name__}")
        super().__init__(config, self.key, values=False, pooler=pooler)
        if values:
            draw(self, config.initializer_range)

    __repr__ = Module.__repr__

    @classmethod
    def _made(cls, config: Any, head: str | None = None, *, values: bool = True, pooler: bool = True) -> Any:
        without: dict[str, Any] = {} if pooler or cls.key else {"add_pooling_layer": False}
        return cls(config, values=values, **without)

    def _names(self) -> Names | None:
        return None

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, new_head: bool = False, dtype: Any = None, **changes: Any
    ) -> Any:
        """Load config.json and model.safetensors of a folder.

        Parameters
        ----------
        folder : path
            As Hugging Face's libraries write it. Names may have the prefix ``bert.`` or not; the parameters of a
            LayerNorm may be called gamma and beta; buffers and the heads of other models are ignored. A
            :class:`BertModel` has a pooler if the file has one.
        new_head : bool
            Draw the parameters that are on top of the encoder afresh where the file has none, to be trained.
        dtype : str or numpy.dtype, optional
            As of :func:`from_pretrained`.
        **changes
            Entries of the configuration to be replaced, such as ``num_labels=3``.

        Returns
        -------
        model
            In evaluation mode; gradients are recorded.

        Raises
        ------
        OSError
            If the folder or one of its files is missing.
        TypeError
            If a change is not an entry of :class:`BertConfig`, or dtype is another.
        ValueError
            If a file is damaged, or its numbers do not fit the configuration; the message names the file.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        >>> qkv.models.BertModel.from_pretrained("tiny").config.hidden_size  # doctest: +SKIP
        8
        """
        path = checked_folder("from_pretrained", folder)
        entries = folder_entries(path, changes)

        def chosen(_: Mapping[str, Any]) -> tuple[Architecture, str | None]:
            return architecture_of("bert"), cls.key

        return load_model(
            path / "config.json",
            entries,
            changes,
            lambda: Weights(path),
            chosen,
            lambda *_: cls,
            operation=f"{cls.__name__}.from_pretrained",
            dtype=dtype,
            new_head=new_head,
            generation=read_generation(path),
        )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load parameters, which may have old names; the numbers of positions that old files hold are ignored."""
        state = {modern(name): x for name, x in state_dict.items() if not BUFFERS.match(name)}
        super().load_state_dict(state, strict)


class BertModel(BertPretrained):
    """BERT's encoder: word, position and segment embeddings, then layers of self-attention.

    ``x = LayerNorm(word + position + segment)``; each layer is ``y = LayerNorm(x + dense(attention(x)))``,
    ``LayerNorm(y + dense(act(dense(y))))``; ``pooler_output = tanh(dense(x[:, 0]))``.

    Called ``(input_ids, *, valid_lens=None, attention_mask=None, token_type_ids=None, skip_padding=False,
    output_hidden_states=False)``, it returns a named tuple ``(last_hidden_state, pooler_output)``, and the
    ``hidden_states`` of all layers, the embeddings first, if they are asked for.

    Parameters
    ----------
    config : BertConfig
    add_pooling_layer : bool
        Without it ``pooler_output`` is None.
    values : bool
        False leaves the parameters undefined and their memory untouched, for callers that load or count them.

    Attributes
    ----------
    config : BertConfig
    attention_weights : list of Tensor
        ``(B, H, L, L)`` of each layer, of the last call, before dropout.

    Notes
    -----
    ``input_ids`` and ``token_type_ids`` are ``(B, L)``; ``valid_lens`` is ``(B,)`` or ``(B, L)`` and counts keys;
    ``attention_mask`` is ``(B, L)``, ``(B, L, L)`` or ``(B, H, L, L)``, of booleans or of ones and zeros; one means
    that a key counts. If both are given both must allow a key. Rows of padding are computed like all others unless
    ``skip_padding=True``: then they take part in no product and are zeros in the result.

    References
    ----------
    Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018.

    Examples
    --------
    >>> config = qkv.models.BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> y = qkv.models.BertModel(config).eval()([[2, 5, 6, 3], [2, 7, 3, 0]], valid_lens=[4, 3])
    >>> y.last_hidden_state.shape, y.pooler_output.shape
    ((2, 4, 8), (2, 8))
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True, *, values: bool = True) -> None:
        super().__init__(config, values=values, pooler=add_pooling_layer)

    def _make_bodies(self, options: dict[str, Any], values: bool) -> None:
        embeddings, layers = halves(options["body"])
        self.embeddings = BertEmbeddings(**embeddings, values=values)
        self.encoder = BertEncoder(**layers, values=values)

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, L)`` of each layer, of the last call, before dropout; None before the first."""
        return list(self.encoder.attention_weights)

    def _rows(self, input_ids: Any, *, token_type_ids: Any = None, **options: Any) -> Any:
        # Defaults are not passed on, so that a user's part without these arguments can be called.
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        options = {name: value for name, value in options.items() if value is not None and value is not False}
        try:
            x = self.embeddings(input_ids, **types)
        except ValueError:
            shape, most = np.shape(input_ids), self.config.max_position_embeddings
            if len(shape) != 2 or shape[1] <= most:
                raise
            raise ValueError(
                f"BertModel: input_ids must have at most max_position_embeddings = {most} positions; "
                f"got input_ids {shape}"
            ) from None
        rows = self.encoder(x, **options)
        if "output_hidden_states" in options and isinstance(rows, Tensor):
            raise TypeError(
                f"{type(self.encoder).__name__}: forward gives the last hidden state alone; hidden_states must be "
                "those of a BertEncoder without a forward of its own"
            )
        return rows

    def hidden_states(self, input_ids: Any, **options: Any) -> list[Tensor]:
        """Return the hidden states of all layers, the embeddings first."""
        return list(self(input_ids, output_hidden_states=True, **options)[-1])


def modern(name: str) -> str:
    """Return the model's name of a parameter that old files call otherwise."""
    return re.sub(
        r"LayerNorm\.beta$", "LayerNorm.bias", re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    )


def draw(module: Module, spread: float) -> None:
    """Draw the weights of linear layers and tables; biases and the row of padding become zeros."""
    for part in module.modules():
        if not isinstance(part, (Linear, Embedding)):
            continue
        init.normal(part.weight, 0, spread)
        if isinstance(part, Linear) and part.bias is not None:
            part.bias.copy_(np.zeros(part.out_features, np.float32))
        elif isinstance(part, Embedding) and part.padding_idx is not None:
            table = part.weight.numpy().copy()
            table[part.padding_idx] = 0
            part.weight.copy_(table)


@explained
def count_parameters(config: BertConfig, model: type[BertPretrained] | None = None) -> int:
    """Count the parameters of a model of these sizes, without drawing them or touching their memory.

    Parameters
    ----------
    config : BertConfig
    model : type, optional
        :class:`BertModel` or one of its heads; by default :class:`BertModel`.

    Returns
    -------
    int

    Examples
    --------
    >>> qkv.models.count_parameters(qkv.models.BertConfig.base())
    109482240
    """
    kind: Any = model or BertModel
    return int(kind(config, values=False).num_parameters())
