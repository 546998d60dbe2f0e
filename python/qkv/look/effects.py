"""What heads change in a loss, tokens in each other through all layers, and layers in the prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._core import Module, Tensor
from .._public import explained
from .._words.errors import integer_of, shown
from ..functions.gradients import grad, no_grad
from .changing import change, without_heads
from .names import Names, joined, layer_of
from .recording import Recording, by_heads, record


@explained
def importance(
    model: Module,
    loss: Callable[[Any], Any],
    *inputs: Any,
    method: str = "gradient",
    **keywords: Any,
) -> NDArray[np.float64]:
    """By how much a loss grows without each head: the loss without it minus the loss.

    Parameters
    ----------
    model : Module
    loss : callable
        Of the model's output, to a Tensor of one number.
    *inputs, **keywords
        Those of the model's call.
    method : {"gradient", "ablation"}
        The first order of the difference, ``-sum(heads * dloss/dheads)``, from one backward pass; or the difference
        itself, with one call per head.

    Returns
    -------
    ndarray
        ``(layers, H)``, NaN where a layer has fewer heads. No ``.grad`` is changed.

    Raises
    ------
    ValueError
        If the model has no attention, the method is unknown or the loss is not a number.

    References
    ----------
    Michel, Levy, Neubig, Are Sixteen Heads Really Better than One?, 2019.

    Examples
    --------
    >>> layer = qkv.nn.MultiHeadAttention(8, 2)
    >>> qkv.look.importance(layer, lambda y: (y * y).mean(), np.ones((3, 8))).shape
    (1, 2)
    """
    if method not in ("gradient", "ablation"):
        raise ValueError(f'importance: method must be "gradient" or "ablation"; got {shown(method)}')
    if not callable(loss):
        raise TypeError(f"importance: loss must be a function of the output; got {shown(loss)}")
    names = Names("importance", model)
    if not names.matching("weights"):
        raise ValueError(f"importance: model must have an attention; got {type(model).__name__}")
    recording = record(model, *inputs, keep=("heads",), keep_graph=method == "gradient", **keywords)
    layers = [  # with what their calls computed: modules of one's own are attentions if they called one
        (path, part, recording._kept.get(joined(path, "heads"), [])) for path, part in names.having("weights")
    ]
    layers = [(path, part, values) for path, part, values in layers if part.attention or values]
    counts = [by_heads(values[0], part).shape[1] if values else part.num_heads for _, part, values in layers]
    result = np.full((len(layers), max(counts)), np.nan)
    if method == "ablation":
        with no_grad():
            whole = _number(loss(recording.output)).item()
            for row, (path, _, _) in enumerate(layers):
                for head in range(counts[row]):
                    with without_heads(model, {path: [head]}):
                        result[row, head] = _number(loss(model(*inputs, **keywords))).item() - whole
        return result
    calls = [(row, part, value) for row, (_, part, values) in enumerate(layers) for value in values]
    gradients = grad(_number(loss(recording.output)), [value for _, _, value in calls])
    for (row, part, value), gradient in zip(calls, gradients, strict=True):
        product = by_heads(np.asarray(value.detach(), "float64") * np.asarray(gradient), part)
        result[row, : counts[row]] = np.nan_to_num(result[row, : counts[row]]) - product.sum((0, 2, 3))
    return result


def _number(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or math.prod(loss.shape) != 1:
        got = f"a Tensor {loss.shape}" if isinstance(loss, Tensor) else shown(loss)
        raise ValueError(f"importance: loss must give a Tensor of one number; got {got}")
    return loss


@explained
def rollout(
    recording: Recording,
    token: int,
    *,
    item: int = 0,
    fusion: str = "mean",
    discard: float = 0.0,
    gradient: Tensor | None = None,
) -> NDArray[np.float64]:
    """What a token takes from each token of the input, through all layers of self-attention.

    Row `token` of the product over layers of ``A = 0.5 * mean over heads + 0.5 * I``. With another `fusion` or
    `discard`, as in vit-explain: the largest or the least of the heads; their least numbers become 0, and column
    j of ``A`` is divided by the sum of row j. With a `gradient`: ``R = I``, then for each layer
    ``R = R + mean_h(max(W * dW, 0)) R``, where ``dW`` is the gradient to the weights.

    Parameters
    ----------
    recording : Recording
        Of ``weights``.
    token : int
        Its place; negative ones count from the end.
    item : int
        Which sentence of the batch.
    fusion : {"mean", "max", "min"}
        What becomes of the heads of a layer.
    discard : float
        Which share of a layer's numbers become 0, the least first, from 0 to 1; the first token's to itself stays.
    gradient : Tensor, optional
        A number computed from the output of a recording with ``keep_graph=True``.

    Returns
    -------
    ndarray
        ``(L,)``. As it is by default it sums to 1.

    Raises
    ------
    ValueError
        If the recording has no self-attention of one length, or no graph where a gradient is asked for, or `fusion` or
        `discard` are none of these or given beside a gradient.
    IndexError
        If there is no such token or item.

    References
    ----------
    Abnar and Zuidema, Quantifying Attention Flow in Transformers, 2020; Chefer, Gur, Wolf, Generic Attention-model
    Explainability, 2021.

    Examples
    --------
    >>> layer = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(8, 2, 16), 2).eval()
    >>> qkv.look.rollout(qkv.look.record(layer, np.ones((1, 3, 8))), -1).shape
    (3,)
    """
    if not isinstance(recording, Recording):
        raise TypeError(f"rollout: recording must be a Recording; got {shown(recording)}")
    if fusion not in ("mean", "max", "min"):
        raise ValueError(f'rollout: fusion must be "mean", "max" or "min"; got {shown(fusion)}')
    if isinstance(discard, bool) or not isinstance(discard, (int, float)) or not 0 <= discard <= 1:
        raise ValueError(f"rollout: discard must be a share from 0 to 1; got {shown(discard)}")
    if gradient is not None and (fusion != "mean" or discard):
        raise ValueError(
            "rollout: fusion and discard must be left out beside gradient because it has a formula of its own; got "
            f"fusion {shown(fusion)}, discard {discard}"
        )
    layers = []
    for path, part, calls in recording._attentions():
        if len(calls) > 1:
            raise ValueError(
                f"rollout: {path} must have been called once because its weights are one matrix; got {len(calls)}"
            )
        if not part.crosses and calls[0].shape[2] == calls[0].shape[3]:
            layers.append((joined(path, "weights"), part, calls[0]))
    lengths = {weights.shape[-1] for _, _, weights in layers}
    if len(lengths) != 1:
        raise ValueError(
            f"rollout: recording must hold self-attention over one length; got {sorted(lengths) or 'none'}; record "
            "some of the layers"
        )
    length = lengths.pop()
    token = integer_of("rollout", "token", token)
    if not -length <= token < length:
        raise IndexError(f"rollout: token must be from {-length} to {length - 1}; got {token}")
    item, batch = integer_of("rollout", "item", item), layers[0][2].shape[0]
    if not 0 <= item < batch:
        raise IndexError(f"rollout: item must be from 0 to {batch - 1}; got {item}")
    slopes: list[Any] = [None] * len(layers)
    if gradient is not None:
        values = [recording[name] for name, _, _ in layers]
        if not all(isinstance(value, Tensor) for value in values):
            raise ValueError("rollout: gradient must be of a recording with keep_graph=True; got one without")
        slopes = list(grad(gradient, values, retain_graph=True))
    row: NDArray[np.float64] = np.eye(length)[token]
    for (_, part, lazy), slope in zip(reversed(layers), reversed(slopes), strict=True):
        weights = np.asarray(lazy)[item].astype("float64")
        if slope is None:
            row = row @ _mixed(weights, fusion, discard)
        else:
            row = row + row @ np.maximum(weights * by_heads(np.asarray(slope), part)[item], 0).mean(0)
    return row


def _mixed(weights: NDArray[np.float64], fusion: str, discard: float) -> NDArray[np.float64]:
    """What a layer mixes: its heads ``(H, L, L)`` as one, and the residual connection."""
    fused: NDArray[np.float64] = getattr(weights, fusion)(0)
    least = np.argsort(fused, axis=None, kind="stable")[: int(fused.size * discard)]
    fused.flat[least[least != 0]] = 0.0
    mixed = 0.5 * (fused + np.eye(len(fused)))
    return mixed if fusion == "mean" and not discard else mixed / mixed.sum(-1)


@explained
def logit_lens(model: Module, recording: Recording) -> NDArray[Any]:
    """What the model would predict if its last layers did nothing: the logits of each layer's output.

    Parameters
    ----------
    model : Module
        A model whose output are logits over a vocabulary, or has them as ``.logits``.
    recording : Recording
        Of a call of it with ``keep=("output",)``.

    Returns
    -------
    ndarray
        ``(layers, B, L, V)``; the last are the model's own.

    Raises
    ------
    ValueError
        If the model has no vocabulary, or the recording does not hold its layers' outputs.

    Notes
    -----
    The model is called once more for each layer, with that layer's output in the place of the last one's, so what
    follows the last layer is what the model itself does.

    References
    ----------
    nostalgebraist, interpreting GPT: the logit lens, 2020.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=3)
    >>> recording = qkv.look.record(model, np.array([[1, 2, 3, 4]]), keep=("output",))
    >>> qkv.look.logit_lens(model, recording).shape
    (3, 1, 4, 11)
    """
    if not isinstance(recording, Recording):
        raise TypeError(f"logit_lens: recording must be a Recording; got {shown(recording)}")
    if recording._model is not model:
        raise ValueError("logit_lens: recording must be of a call of the model; got one of another")
    names = Names("logit_lens", model)
    final = _logits(recording.output)
    sizes = {part.module.num_embeddings for part in names.parts if isinstance(part.module, _core.Embedding)}
    if final is None or len(final.shape) != 3 or final.shape[-1] not in sizes:
        raise ValueError(
            f"logit_lens: model must give logits over its vocabulary; got {type(model).__name__}"
        )
    layers = outputs_of_blocks(names)
    missing = [name for name in layers if name not in recording]
    if missing or not layers:
        raise ValueError(
            f'logit_lens: recording must hold {missing[0]}, as by record(model, ..., keep=("output",))'
            if missing
            else f"logit_lens: model must have layers with attention; got {type(model).__name__}"
        )
    results = []
    with no_grad():
        for name in layers[:-1]:

            def given(_: Tensor, value: Any = recording[name]) -> Any:
                return value

            with change(model, {layers[-1]: given}):
                results.append(np.asarray(_logits(model(*recording._inputs, **recording._keywords))))
    return np.stack([*results, np.asarray(final)])


def _logits(output: Any) -> Any:
    found = getattr(output, "logits", output)
    return found if isinstance(found, Tensor) else None


def outputs_of_blocks(names: Names) -> list[str]:
    """Names of the outputs of the blocks of the last stack."""
    found: dict[str, list[str]] = {}
    for path, _ in names.attentions:
        number = layer_of(f"{path}.")
        if number is not None:
            stack = path[: f".{path}".index(f".{number}.")]
            block = f"{stack}{number}.output"
            blocks = found.setdefault(stack, [])
            if block not in blocks:
                blocks.append(block)
    return list(found.values())[-1] if found else []
