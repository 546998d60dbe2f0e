"""What the fuzzer passes: for each argument something plausible by its name, and for any argument something hostile.

Values are text, so that a statement that fails can be read, repeated and kept as a test.
"""

from __future__ import annotations


def each(names: str, options: list[str]) -> dict[str, list[str]]:
    """Return the same options for several names."""
    return {name: options for name in names.split()}


SIZES = [
    "0",
    "-1",
    "1",
    "2",
    "7",
    "2**31 - 1",
    "2**31",
    "2**32",
    "2**40",
    "2**62",
    "2**63 - 1",
    "-2**63",
    "2**63",
    "10**40",
]
NUMBERS = [
    "0.0",
    "-0.0",
    "1.5",
    "-3.0",
    "1e39",
    "1e308",
    "5e-324",
    "float('nan')",
    "float('inf')",
    "-float('inf')",
    "1j",
]
ODD = [
    "None",
    "True",
    "False",
    "''",
    "'float32'",
    "'x' * 300",
    "b'ab'",
    "Ellipsis",
    "slice(None)",
    "object()",
    "int",
    "np",
    "print",
]
NESTED = [
    "[]",
    "()",
    "{}",
    "set()",
    "[[]]",
    "[None]",
    "['a']",
    "[[1, 2], [3]]",
    "[[1.0, 2.0]]",
    "(1, 2)",
    "(2**62, 4)",
    "(-1, -1)",
]
ARRAYS = [
    "np.zeros(0)",
    "np.zeros((0, 4))",
    "np.zeros((2, 0, 4))",
    "np.zeros((2, 3, 0), np.float32)",
    "np.float32(3)",
    "np.ones(())",
    "np.ones(4)",
    "np.ones((3, 4))",
    "np.ones((2, 3, 4), np.float32)",
    "np.ones((2, 2, 3, 4), np.float32)",
    "np.ones((1,) * 30)",
    "np.full((2, 3, 4), np.nan)",
    "np.full((3, 4), np.inf, np.float32)",
    "np.ones((2, 3, 4), np.float16)",
    "np.ones((2, 3, 4), np.longdouble)",
    "np.ones((2, 3, 4), '>f4')",
    "np.ones((2, 3, 4), complex)",
    "np.ones((2, 3), bool)",
    "np.ones((2, 3), np.int8)",
    "np.full((2, 3), 2**64 - 1, np.uint64)",
    "np.full((2, 3), -2**63)",
    "np.full(2, 2**63 - 1)",
    "np.array([0, 1, 1])",
    "np.array([[0, 1], [1, 0]])",
    "np.array(['a', 'b'])",
    "np.array([None, 1], object)",
    "np.array(['2026-01-01'], 'datetime64[D]')",
    "np.zeros(3, [('a', float), ('b', int)])",
    "np.ma.masked_array(np.ones((3, 4)), np.eye(3, 4))",
    "np.ones((4, 3, 2)).T[::-1, ::-1]",
    "np.broadcast_to(np.float32(1), (2, 3, 4))",
    "np.broadcast_to(1.0, (2**20, 2**12))",
    "np.broadcast_to(np.int64(1), (2**21,))",
    "read_only(np.ones((3, 4)))",
    "np.matrix('1 2; 3 4')",
    "memoryview(b'abcdefgh')",
]
# What only looks like a value, as the child defines it.
STRANGE = [
    "LyingArray()",
    "LyingLength()",
    "LyingIndex()",
    "LyingFloat()",
    "LyingEqual()",
    "Endless()",
    "(i for i in range(3))",
    "iter([])",
    "lambda *a, **k: None",
]
OBJECTS = [
    "qkv.tensor([1.0, 2.0], requires_grad=True)",
    "qkv.tensor(np.ones((2, 3, 4)), requires_grad=True)",
    "qkv.tensor(np.ones((2, 3, 4), np.float32))",
    "qkv.tensor([[True, False]])",
    "qkv.tensor(np.zeros((0, 3)))",
    "qkv.tensor(np.zeros((0, 2**40)))",
    "qkv.Tensor.__new__(qkv.Tensor)",
    "nn.Linear.__new__(nn.Linear)",
    "qkv.Generator.__new__(qkv.Generator)",
    "nn.KVCache.__new__(nn.KVCache)",
    "optim.SGD.__new__(optim.SGD)",
    "nn.Linear(4, 4)",
    "nn.Module()",
    "nn.KVCache()",
    "qkv.Generator(1)",
    *STRANGE,
]
HOSTILE = SIZES + NUMBERS + ODD + NESTED + ARRAYS + OBJECTS

X = [
    "np.ones((2, 3, 4), np.float32)",
    "np.ones((2, 3, 4))",
    "qkv.tensor(np.ones((2, 3, 4)), requires_grad=True)",
]
IDS = ["np.array([[1, 2, 3], [2, 1, 0]])", "[[1, 2, 3]]"]
FEW = ["1", "2", "4"]
SIZE = ["4", "4", "8", "0"]
FLAG = ["True", "False"]
LABELS = ["[0, 1]", "np.array([1, 2, 0])"]
# By the argument's name; a name that is here in part ("dropout" in "attention_dropout") counts too, longest first.
PLAUSIBLE: dict[str, list[str]] = {
    **each(
        "x y queries keys values query key value tgt src memory data tensor",
        X,
    ),
    **each(
        "hidden_states enc_outputs encoder_outputs gradient other a b input logits",
        X,
    ),
    **each(
        "ids indices tokens sequences prompts input_ids token_type_ids enc_X dec_X",
        IDS,
    ),
    **each(
        "num_heads nhead num_attention_heads num_kv_heads num_layers num_hidden_layers count",
        FEW,
    ),
    **each(
        "size features dim d_model hiddens max_len num_embeddings Lq Lk n steps",
        SIZE,
    ),
    **each(
        "bias is_causal causal keepdims return_weights requires_grad elementwise_affine",
        FLAG,
    ),
    **each(
        "nesterov norm_first retain_graph create_graph replacement strict heads_axis mode",
        FLAG,
    ),
    **each("target labels targets weight", LABELS),
    **each("tensors arrays", ["[np.ones((2, 3)), np.ones((2, 3))]", "[qkv.tensor([1.0])]"]),
    **each("params parameters", ["nn.Linear(4, 4).parameters()", "[qkv.tensor([1.0], requires_grad=True)]"]),
    **each("layer module", ["nn.Linear(4, 4)", "nn.TransformerEncoderLayer(4, 2, 8)"]),
    "modules": ["[nn.Linear(4, 4)]", "[]"],
    "encoder": ["models.Seq2SeqEncoder(7, 4, 4, 1)"],
    "decoder": ["models.Seq2SeqDecoder(7, 4, 4, 1)"],
    "model": ["models.CausalLM(7, 4, 2, 1)"],
    "valid_lens": ["[1, 3]", "np.array([2, 0])", "[[1, 2, 3], [0, 1, 2]]", "None"],
    "lens": ["[1, 3]"],
    "attn_mask": ["np.ones((3, 3), bool)", "np.zeros((3, 3))", "None"],
    "attention_mask": ["np.ones((2, 3), int)", "None"],
    "mask": ["np.ones((2, 3, 4), bool)"],
    "dropout_keep": ["np.ones((2, 3, 3), bool)", "None"],
    "cache": ["nn.KVCache()", "None"],
    "state": ["None"],
    "dropout": ["0.0", "0.5"],
    "p": ["0.5", "0.0"],
    "dtype": ["'float32'", "'float64'", "np.int64", "None"],
    "axis": ["-1", "0", "None", "(0, 1)"],
    "axes": ["None", "(1, 0, 2)"],
    "shape": ["(4,)", "4", "(2, 12)", "(-1,)"],
    "normalized_shape": ["4", "(3, 4)"],
    "lr": ["0.1"],
    "eps": ["1e-5"],
    "scale": ["None", "0.5"],
    "temperature": ["1.0"],
    "betas": ["(0.9, 0.999)"],
    "window": ["(1, 0)", "(-1, 2)", "None"],
    "q_offset": ["0", "[0, 1]", "None"],
    "base": ["10000.0"],
    "low": ["0"],
    "high": ["5"],
    "mean": ["0.0"],
    "std": ["1.0"],
    "rng": ["qkv.Generator(1)", "None"],
    "generator": ["None"],
    "seed": ["3"],
    "capacity": ["4", "None"],
    "activation": ["'relu'", "'gelu'"],
    "approximate": ["'none'", "'tanh'"],
    "reduction": ["'mean'", "'none'"],
    "kernel": ["'gaussian'", "'epanechnikov'"],
    "alignment": ["'upper_left'", "'lower_right'"],
    "vocab": ["7", "30"],
    "config": ["None"],
    "item": ["0", "(0, slice(None))", "[0, 1]"],
    "index": ["0", "(0, slice(None))", "[0, 1]"],
    "f": ["lambda t: t"],
    "func": ["lambda t: (t * t).sum()"],
}
# Arguments of constructors whose plausible values do not fit each other.
MADE = {
    "Sequential": ["nn.Sequential(nn.Linear(4, 4), nn.ReLU())"],
    "ModuleList": ["nn.ModuleList([nn.Linear(4, 4)])"],
    "TransformerEncoder": ["nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1)"],
    "TransformerDecoder": ["nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1)"],
    "EncoderDecoder": [
        "models.EncoderDecoder(models.Seq2SeqEncoder(7, 4, 4, 1), models.Seq2SeqDecoder(7, 4, 4, 1))"
    ],
    "Tensor": ["qkv.tensor(np.ones((2, 3, 4)), requires_grad=True)"],
    "Parameter": ["nn.Parameter(np.ones((3, 4), np.float32))"],
    "Generator": ["qkv.Generator(1)"],
    "Attention": ["nn.DotProductAttention()"],
    "Optimizer": ["optim.SGD([qkv.tensor([1.0], requires_grad=True)], 0.1)"],
    "ParameterGroup": ["optim.SGD([qkv.tensor([1.0], requires_grad=True)], 0.1).param_groups[0]"],
}


def plausible(name: str, known: dict[str, list[str]]) -> list[str]:
    """Return values that fit an argument of this name; none if the name says nothing."""
    if name in known:
        return known[name]
    parts = [word for word in known if len(word) > 2 and word in name]
    return known[max(parts, key=len)] if parts else []
