"""Models that write: bodies that decode, alone or after an encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Embedding, Tensor, as_numpy
from ..._words.errors import shown
from ..generation.rules import numbers
from ..generation.steps import Generation, continued, decoded, first_id
from .outputs import output
from .pretrained import PretrainedModel, split_states


class PretrainedCausalLM(Generation, PretrainedModel):
    """A language model that only decodes, of any architecture; :func:`from_pretrained` makes it.

    Called ``(input_ids, *, attention_mask=None, valid_lens=None, cache=None, output_hidden_states=False)``, it returns
    logits ``(B, L, V)``; if hidden states are asked for, a named tuple ``(logits, hidden_states)``; without a head
    ``last_hidden_state``. ``attention_mask`` may leave out padding on either side: positions count what is kept.
    ``cache`` is a list of one :class:`qkv.nn.KVCache` per layer.

    Examples
    --------
    >>> sizes = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, vocab_size=30)
    >>> entries = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_key_value_heads": 2, **sizes}
    >>> model = qkv.models.from_config(entries).eval()
    >>> model([[1, 5, 6]]).shape
    (1, 3, 30)
    """

    def forward(
        self,
        input_ids: Any,
        *,
        attention_mask: Any = None,
        valid_lens: Any = None,
        cache: Any = None,
        skip_padding: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        """Compute the scores of the next word at each position."""
        hidden = self.body(
            input_ids,
            attention_mask=attention_mask,
            valid_lens=valid_lens,
            cache=cache,
            skip_padding=skip_padding,
            output_hidden_states=output_hidden_states,
        )
        last, states = split_states(hidden, True)
        if self.head is None:
            return output("ModelOutput", last_hidden_state=last, hidden_states=states)
        if not self.writes:
            return self._finished(last, states, last_rows(self, input_ids))
        logits = self._logits(last)
        return logits if states is None else output("LogitsOutput", logits=logits, hidden_states=states)

    _begin = continued


class PretrainedEncoderDecoder(Generation, PretrainedModel):
    """An encoder and a decoder that attends to it, of any architecture; :func:`from_pretrained` makes it.

    Called ``(input_ids, decoder_input_ids, *, attention_mask=None, decoder_attention_mask=None,
    output_hidden_states=False)``, it returns logits ``(B, L, V)``; a named tuple if hidden states are asked for.

    Examples
    --------
    >>> entries = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 24, "d_kv": 5}
    >>> entries |= {"d_ff": 40, "num_layers": 1, "num_heads": 3, "vocab_size": 30}
    >>> qkv.models.from_config(entries).eval()([[5, 6, 1]], [[0, 7]]).shape
    (1, 2, 30)
    """

    def _make_bodies(self, options: dict[str, Any], values: bool) -> None:
        shared = options.pop("shared", True)
        super()._make_bodies(options, values)
        if shared and "decoder" in options:
            self.decoder.embedding = self.encoder.embedding

    def forward(
        self,
        input_ids: Any,
        decoder_input_ids: Any = None,
        *,
        attention_mask: Any = None,
        decoder_attention_mask: Any = None,
        valid_lens: Any = None,
        skip_padding: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        """Compute the scores of the next word at each position of the decoder."""
        options = {"output_hidden_states": output_hidden_states, "skip_padding": skip_padding}
        memory, encoded = split_states(
            self.encoder(input_ids, attention_mask=attention_mask, valid_lens=valid_lens, **options), True
        )
        if not hasattr(self, "decoder"):
            return self._finished(memory, encoded)
        if decoder_input_ids is None and self.head is not None and not self.writes:
            decoder_input_ids = self._shifted(input_ids)
        if decoder_input_ids is None:
            raise TypeError(
                "PretrainedEncoderDecoder: decoder_input_ids must be given because the decoder reads them; got None"
            )
        hidden, decoded = split_states(
            self.decoder(
                decoder_input_ids,
                attention_mask=decoder_attention_mask,
                memory=memory,
                memory_mask=attention_mask,
                memory_valid_lens=valid_lens,
                **options,
            ),
            True,
        )
        states = {
            "hidden_states": decoded,
            "encoder_hidden_states": encoded,
            "decoder_hidden_states": decoded,
        }
        if self.head is None:
            return output("ModelOutput", last_hidden_state=hidden, encoder_last_hidden_state=memory, **states)
        if not self.writes:
            return self._scored(self._logits(hidden, last_rows(self, input_ids)), **states)
        logits = self._logits(hidden)
        return logits if decoded is None else output("LogitsOutput", logits=logits, **states)

    def _shifted(self, input_ids: Any) -> np.ndarray:
        """Return what a decoder reads that reads the text again: ids after the first of all."""
        ids = as_numpy(input_ids, type(self).__name__, "input_ids")
        return np.concatenate([np.full((len(ids), 1), first_id(self), np.int64), ids[:, :-1]], axis=1)

    def _words(self) -> Embedding:
        words: Embedding = self.decoder.embedding
        return words

    _begin = decoded

    @property
    def encoder_attention_weights(self) -> list[Tensor | None]:
        """``(B, H, Ls, Ls)`` of each layer of the encoder, of the last call."""
        return list(self.encoder.attention_weights)

    @property
    def decoder_attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, L)`` of each layer of the decoder."""
        return list(self.decoder.attention_weights)

    @property
    def cross_attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, Ls)`` of each layer of the decoder, over the encoder's rows."""
        return list(self.decoder.memory_weights)

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """Those of the decoder; of the encoder, where that is alone."""
        return list(getattr(self, "decoder", self.encoder).attention_weights)


def last_rows(model: PretrainedModel, input_ids: Any) -> np.ndarray | None:
    """Return the row of each text that a head on one row reads; None where it reads all.

    As in Hugging Face's libraries the ids tell it, not the mask: the last one other than padding, or the last end.
    """
    head: Any = model.head
    if head.pooling not in ("last", "end"):
        return None
    name = type(model).__name__
    ids = as_numpy(input_ids, name, "input_ids")
    entry = "pad_token_id" if head.pooling == "last" else "eos_token_id"
    marks = numbers(model.config.get(entry))
    if head.pooling == "last" and not marks and len(ids) == 1:
        return np.array([ids.shape[1] - 1])
    if len(marks) != 1:
        raise ValueError(
            f"{name}: {entry} of the configuration must be an id; got {shown(model.config.get(entry))}"
        )
    found = (ids == marks[0]) == (head.pooling == "end")
    if head.pooling == "end" and not found.any(axis=1).all():
        raise ValueError(
            f"{name}: input_ids must hold eos_token_id = {marks[0]} in each row because its row has the classes; "
            f"got none in row {int(found.any(axis=1).argmin())}"
        )
    rows: np.ndarray = (np.arange(ids.shape[1]) * found).argmax(axis=1)
    return rows
