"""How each argument of PyTorch's layers, functions, optimizers and loaders is judged: cases by their names.

A case calls the same thing of either module with some arguments set; `changes` are values that change the result,
`without_effect` those that change none in PyTorch either, `refused` those that qkv.torch answers with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Of:
    """A value that is made by the module that the call is of."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make


@dataclass
class Case:
    call: Callable[..., Any]  # of a module and keywords
    changes: dict[str, Any] = field(default_factory=dict)
    without_effect: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)  # set in every call


def given(m: Any, value: Any) -> Any:
    """A value of a table as the module takes it."""
    if isinstance(value, Of):
        return value.make(m)
    return m.tensor(value) if isinstance(value, np.ndarray) else value


def floating(t: Any) -> bool:
    return hasattr(t, "is_floating_point") and t.is_floating_point()


def gradients(m: Any, results: Any, leaves: list[Any]) -> list[Any]:
    """Gradients of the leaves, where the results have any."""
    parts = [
        r for r in (results if isinstance(results, (tuple, list)) else [results]) if hasattr(r, "grad_fn")
    ]
    parts = [r for r in parts if r.requires_grad]
    if parts:
        sum((r * r).sum() for r in parts).backward()
    return [leaf.grad for leaf in leaves]


def run(m: Any, f: Any, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result, the inputs afterwards and their gradients."""
    leaves = [m.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]
    leaves = [t.requires_grad_() if floating(t) else t for t in leaves]
    inputs = [t * 1 if floating(t) else t for t in leaves]
    result = f(*inputs, **options)
    return result, inputs, gradients(m, result, [t for t in leaves if floating(t)])


def layer(name: str, *arguments: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
    """Make a module, then call it; `inputs` are arrays, or a function of the options that gives them."""

    def call(m: Any, **settings: Any) -> Any:
        kept = {k: given(m, v) for k, v in {**options, **settings}.items()}
        made = getattr(m.nn, name)(*[given(m, a) for a in arguments], **kept)
        arrays = inputs(settings) if callable(inputs) else inputs
        parameters = list(made.parameters())
        kind = parameters[0].dtype if parameters else m.float32
        tensors = [m.tensor(a) for a in arrays]
        result = made(*[t.to(kind) if floating(t) else t for t in tensors])
        found = gradients(m, result, list(made.parameters()))
        parameters = list(made.parameters())  # of a lazy one there are others now
        return (
            result,
            [p.detach() for p in parameters],
            [p.requires_grad for p in parameters],
            found,
            list(made.state_dict()),
        )

    return call


def forward(name: str, *arguments: Any, inputs: tuple[Any, ...], **options: Any) -> Callable[..., Any]:
    """Make a module, then call it with the arguments that are judged."""

    def call(m: Any, **settings: Any) -> Any:
        made = getattr(m.nn, name)(*[given(m, a) for a in arguments], **options)
        result = made(*[m.tensor(a) for a in inputs], **{k: given(m, v) for k, v in settings.items()})
        return result, gradients(m, result, list(made.parameters()))

    return call


def function(path: str, *arrays: Any) -> Callable[..., Any]:
    """Call a function of a path such as ``nn.functional.softmax``."""

    def call(m: Any, **settings: Any) -> Any:
        f: Any = m
        for part in path.split("."):
            f = getattr(f, part)
        return run(m, f, arrays, {k: given(m, v) for k, v in settings.items()})

    return call


RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


F64 = Of(lambda m: m.float64)
GENERATOR = Of(lambda m: m.Generator().manual_seed(7))
X, Y, T = normal(2, 3), normal(2, 3), normal(4, 2, 8)  # T: (L, B, E)
SHARES = (abs(X) / (abs(X).sum() + 1)).astype(np.float32)
CLASSES, IDS = np.array([2, 1]), np.array([[0, 2, 2], [1, 0, 3]])
CAUSAL = np.triu(np.ones((4, 4), bool), 1)
PADDING = np.array([[False, False, False, True], [False, True, True, False]])
OLD = {"size_average": False, "reduce": False, "reduction": "sum"}
KIND = {"dtype": F64}
CPU = {"device": "cpu"}

# nn.functional: inputs, then what changes, has no effect, is refused.
_FUNCTIONAL: dict[str, tuple[Any, ...]] = {
    **{name: ((X,), {"dim": 0, "dtype": F64}, {"_stacklevel": 5}) for name in ("softmax", "log_softmax")},
    **{name: ((X,), {"inplace": True}) for name in ("relu", "silu")},
    **{name: ((X,), {}) for name in ("tanh", "sigmoid", "logsigmoid")},
    "gelu": ((X,), {"approximate": "tanh"}),
    "softplus": ((X,), {"beta": 2.0, "threshold": 0.1}),
    "linear": ((X, normal(4, 3)), {"bias": normal(4)}),
    "embedding": (
        (IDS, normal(4, 3)),
        {"padding_idx": 2},
        {"norm_type": 1.0},
        {"max_norm": 0.1, "scale_grad_by_freq": True, "sparse": True},
    ),
    "one_hot": ((IDS,), {"num_classes": 7}),
    "layer_norm": ((X, (3,)), {"weight": Y[0], "bias": Y[1], "eps": 0.5}),
    "rms_norm": ((X, (3,)), {"weight": Y[0], "eps": 0.5}),
    "dropout": ((X,), {"p": 0.7, "training": False, "inplace": True}),
    "normalize": ((X,), {"p": 1.0, "dim": 0, "eps": 9.0}, {}, {"out": Of(lambda m: m.ones(2, 3))}),
    "pad": ((X, (1, 2)), {"value": 3.0}, {}, {"mode": "reflect"}),
    "cross_entropy": ((X, CLASSES), {**OLD, "weight": abs(Y[0]), "ignore_index": 1, "label_smoothing": 0.2}),
    "nll_loss": ((X, CLASSES), {**OLD, "weight": abs(Y[0]), "ignore_index": 1}),
    "mse_loss": ((X, Y), {**OLD, "weight": abs(X)}),
    "l1_loss": ((X, Y), {**OLD, "weight": abs(X)}),
    "binary_cross_entropy": ((SHARES, SHARES[::-1].copy()), {**OLD, "weight": abs(X)}),
    "binary_cross_entropy_with_logits": ((X, SHARES), {**OLD, "weight": abs(X), "pos_weight": abs(Y)}),
    "kl_div": ((X, SHARES), {**OLD, "log_target": True}),
    "scaled_dot_product_attention": (
        (normal(2, 2, 3, 4), normal(2, 2, 3, 4), normal(2, 2, 3, 4)),
        {"attn_mask": ~CAUSAL[:3, :3], "dropout_p": 0.5, "is_causal": True, "scale": 0.1},
        {"enable_gqa": True},  # but with fewer heads of keys, see test_shared_heads
    ),
}
_MODULES = {
    "ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "GELU": "gelu", "SiLU": "silu",
    "Softplus": "softplus", "Dropout": "dropout", "BCELoss": "binary_cross_entropy",
    "LogSigmoid": "logsigmoid", "Softmax": "softmax", "LogSoftmax": "log_softmax",
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div",
}  # fmt: skip


def _as_module(name: str, arrays: tuple[Any, ...]) -> Callable[..., Any]:
    def call(m: Any, **settings: Any) -> Any:
        made = getattr(m.nn, name)(**{k: given(m, v) for k, v in settings.items()})
        return run(m, made, arrays, {}), repr(made)

    return call


CASES: dict[str, Case] = {}
for _name, (_arrays, *_tables) in _FUNCTIONAL.items():
    CASES[f"nn.functional.{_name}"] = Case(function(f"nn.functional.{_name}", *_arrays), *_tables)
for _name, _of in _MODULES.items():
    _arrays, _changes, *_ = _FUNCTIONAL[_of]
    _left_out = {"dtype", "training"} | ({"weight"} if _name in ("MSELoss", "L1Loss") else set())
    CASES[f"nn.{_name}"] = Case(
        _as_module(_name, _arrays), {k: v for k, v in _changes.items() if k not in _left_out}
    )

_BLOCK = {
    "dim_feedforward": 5, "dropout": 0.5, "activation": "gelu", "layer_norm_eps": 0.5, "batch_first": True,
    "norm_first": True, "bias": False, **KIND,
}  # fmt: skip
_REST = {"dim_feedforward": 16, "dropout": 0.0}
_RECURRENT = {"num_layers": 2, "bias": False, "batch_first": True, "bidirectional": True, **KIND}
_CONV = {"kernel_size": 2, "stride": 2}
_DECODER = {
    "tgt_mask": CAUSAL, "memory_mask": CAUSAL.T.copy() & ~np.eye(4, dtype=bool), "tgt_key_padding_mask": PADDING,
    "memory_key_padding_mask": PADDING,
}  # fmt: skip


def _attention_inputs(options: dict[str, Any]) -> tuple[Any, ...]:
    return T, T[..., : options.get("kdim", 8)], T[..., : options.get("vdim", 8)]


def _copied(name: str) -> Of:
    return Of(lambda m: getattr(m.nn, name)(8, 2, 16, 0.0))


def _stack(name: str, count: int) -> Of:
    """An encoder or decoder of one's own."""
    return Of(
        lambda m: getattr(m.nn, f"Transformer{name}")(_copied(f"Transformer{name}Layer").make(m), count)
    )


def _causal(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, True)


CASES |= {
    "nn.Linear": Case(layer("Linear", 3, 4, inputs=(X,)), {"bias": False, **KIND}, CPU),
    "nn.LazyLinear": Case(layer("LazyLinear", 4, inputs=(X,)), {"bias": False, **KIND}, CPU),
    "nn.Embedding": Case(
        layer("Embedding", 4, 3, inputs=(IDS,)),
        {"padding_idx": 2, "_weight": normal(4, 3), "_freeze": True, **KIND},
        {"norm_type": 1.0, **CPU},
        {"max_norm": 0.1, "scale_grad_by_freq": True, "sparse": True},
    ),
    "nn.LayerNorm": Case(
        layer("LayerNorm", 3, inputs=(X,)),
        {"eps": 0.5, "elementwise_affine": False, "bias": False, **KIND},
        CPU,
    ),
    "nn.RMSNorm": Case(
        layer("RMSNorm", 3, inputs=(X,)), {"eps": 0.5, "elementwise_affine": False, **KIND}, CPU
    ),
    "nn.Flatten": Case(layer("Flatten", inputs=(T,)), {"start_dim": 0, "end_dim": 1}),
    "nn.Conv2d": Case(
        layer("Conv2d", 2, 4, inputs=(normal(3, 2, 4, 4),)),
        {"bias": False, **KIND},
        {"padding_mode": "circular", **CPU},
        {"stride": 1, "padding": 1, "dilation": 2, "groups": 2},
        base=_CONV,
    ),
    "nn.LazyConv2d": Case(
        layer("LazyConv2d", 4, inputs=(normal(3, 2, 4, 4),)),
        {"bias": False, **KIND},
        {"padding_mode": "circular", **CPU},
        {"stride": 1, "padding": 1, "dilation": 2, "groups": 2},
        base=_CONV,
    ),
    "nn.MultiheadAttention": Case(
        layer("MultiheadAttention", 8, 2, inputs=_attention_inputs),
        {"dropout": 0.5, "bias": False, "kdim": 5, "vdim": 3, "batch_first": True, **KIND},
        CPU,
        {"add_bias_kv": True, "add_zero_attn": True},
    ),
    "nn.MultiheadAttention.forward": Case(
        forward("MultiheadAttention", 8, 2, inputs=(T, T, T)),
        {
            "key_padding_mask": PADDING,
            "need_weights": False,
            "attn_mask": CAUSAL,
            "average_attn_weights": False,
        },
        refused={"is_causal": True},  # without its mask; with it, see test_causal_hints
    ),
    "nn.TransformerEncoderLayer": Case(
        layer("TransformerEncoderLayer", 8, 2, inputs=(T,)), _BLOCK, CPU, base=_REST
    ),
    "nn.TransformerDecoderLayer": Case(
        layer("TransformerDecoderLayer", 8, 2, inputs=(T, T)), _BLOCK, CPU, base=_REST
    ),
    "nn.Transformer": Case(
        layer("Transformer", inputs=lambda o: (normal_of(o.get("d_model", 8)),) * 2),
        {
            "nhead": 4,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "d_model": 4,
            **_BLOCK,
            "custom_encoder": _stack("Encoder", 3),
            "custom_decoder": _stack("Decoder", 3),
        },
        CPU,
        base={"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, **_REST},
    ),
    "nn.TransformerEncoderLayer.forward": Case(
        forward("TransformerEncoderLayer", 8, 2, 16, 0.0, inputs=(T,)),
        {"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
        refused=_causal("is_causal"),
    ),
    "nn.TransformerDecoderLayer.forward": Case(
        forward("TransformerDecoderLayer", 8, 2, 16, 0.0, inputs=(T, T)),
        _DECODER,
        refused=_causal("tgt_is_causal", "memory_is_causal"),
    ),
    "nn.TransformerEncoder": Case(
        layer("TransformerEncoder", _copied("TransformerEncoderLayer"), 2, inputs=(T,)),
        {"norm": Of(lambda m: m.nn.LayerNorm(8, 0.5))},
        {"enable_nested_tensor": False, "mask_check": False},
    ),
    "nn.TransformerDecoder": Case(
        layer("TransformerDecoder", _copied("TransformerDecoderLayer"), 2, inputs=(T, T)),
        {"norm": Of(lambda m: m.nn.LayerNorm(8, 0.5))},
    ),
    "nn.TransformerEncoder.forward": Case(
        forward("TransformerEncoder", _copied("TransformerEncoderLayer"), 2, inputs=(T,)),
        {"mask": CAUSAL, "src_key_padding_mask": PADDING},
        refused=_causal("is_causal"),
    ),
    "nn.TransformerDecoder.forward": Case(
        forward("TransformerDecoder", _copied("TransformerDecoderLayer"), 2, inputs=(T, T)),
        _DECODER,
        refused=_causal("tgt_is_causal", "memory_is_causal"),
    ),
    "nn.Transformer.forward": Case(
        forward("Transformer", 8, 2, 1, 1, 16, 0.0, inputs=(T, T)),
        {"src_mask": CAUSAL, "src_key_padding_mask": PADDING, **_DECODER},
        refused=_causal("src_is_causal", "tgt_is_causal", "memory_is_causal"),
    ),
    "nn.Transformer.generate_square_subsequent_mask": Case(
        lambda m, **o: m.nn.Transformer.generate_square_subsequent_mask(
            3, **{k: given(m, v) for k, v in o.items()}
        ),
        KIND,
        CPU,
    ),
    **{
        f"nn.{name}": Case(
            layer(name, 8, 5, inputs=(T,)),
            {**_RECURRENT, **({"nonlinearity": "relu"} if name == "RNN" else {})},
            {**CPU},
            {"proj_size": 2} if name == "LSTM" else {},
        )
        for name in ("RNN", "GRU", "LSTM")
    },
    **{
        f"nn.{name}.forward": Case(forward(name, 8, 5, inputs=(T,)), {"hx": normal(1, 2, 5)})
        for name in ("RNN", "GRU")
    },
    "nn.LSTM.forward": Case(
        forward("LSTM", 8, 5, inputs=(T,)), {"hx": Of(lambda m: (m.ones(1, 2, 5), m.zeros(1, 2, 5)))}
    ),
}
# `dropout` of a recurrent layer acts between layers.
for _name in ("RNN", "GRU", "LSTM"):
    CASES[f"nn.{_name}, two layers"] = Case(
        layer(_name, 8, 5, inputs=(T,)), {"dropout": 0.5}, base={"num_layers": 2}
    )


def normal_of(width: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(4, 2, width)).astype(np.float32)


def _pretrained(m: Any, **options: Any) -> Any:
    made = m.nn.Embedding.from_pretrained(m.tensor(Y), **options)
    result = made(m.tensor([0, 1, 1]))
    return result, made.weight.requires_grad, made.padding_idx, gradients(m, result, [made.weight])


CASES["nn.Embedding.from_pretrained"] = Case(
    _pretrained,
    {"freeze": False, "padding_idx": 1},
    {"norm_type": 1.0},
    {"max_norm": 0.1, "scale_grad_by_freq": True, "sparse": True},
)
