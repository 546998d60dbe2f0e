"""What the fuzzer passes to `qkv.torch`: Tensors of every dtype, layout and history, and other things by name."""

from __future__ import annotations

from .values import NESTED, NUMBERS, ODD, SIZES, STRANGE, each

VIEWS = [
    "torch.ones(3, 4).t()",
    "torch.ones(2, 3, 4).transpose(0, 2)",
    "torch.arange(24.0).view(2, 3, 4)[:, 1:, ::2]",
    "torch.arange(24.0).view(4, 6).t()[1:, 2]",
    "torch.arange(12.0).view(3, 4)[1:].t()[:2].unsqueeze(0)",
    "torch.ones(3, 1).expand(3, 4)",
    "torch.ones(1, 3, 1).expand(2, 3, 4)",
    "torch.tensor(2.0).expand(2, 3)",
    "torch.ones(4).expand(3, 4).t()",
    "torch.ones(4, 4).diagonal()",
    "torch.arange(6).view(2, 3).T",
    "torch.ones(3, 4, dtype=torch.float64).t()",
    "viewed(torch.arange(12.0).view(3, 4))",
    "viewed(torch.ones(2, 3, 4).transpose(1, 2))",
    "viewed(torch.arange(6).view(2, 3))",
    "torch.ones(3, 4).t().detach()",
    "torch.ones(3, 4, requires_grad=True).t()",
    "(torch.ones(3, 4, requires_grad=True) * 2).t()[1:]",
    "(torch.ones(3, 1, requires_grad=True) * 2).expand(3, 4)",
    "viewed(torch.ones(3, 4, requires_grad=True) * 2)",
    "torch.ones(3, 4, requires_grad=True).detach()",
]
PLAIN = [
    "torch.ones(4)",
    "torch.arange(12.0).view(3, 4) - 5",
    "torch.ones(2, 3, 4)",
    "torch.ones(2, 3, 4, requires_grad=True)",
    "torch.arange(12.0).view(3, 4).requires_grad_()",
    "torch.ones(3, 4, dtype=torch.float64)",
    "torch.tensor(3.0)",
    "torch.tensor(2)",
    "torch.tensor(3.0, requires_grad=True)",
    "torch.tensor(True)",
    "torch.arange(6).view(2, 3)",
    "torch.tensor([[0, 2, 1], [1, 0, 2]])",
    "torch.tensor([0, 1, 1])",
    "torch.tensor([True, False, True, True])",
    "torch.ones(3, 4) > 0",
    "torch.arange(-3, 3, dtype=torch.int32)",
    "torch.arange(-128, 128, dtype=torch.int8)",
    "torch.arange(256, dtype=torch.uint8).view(4, 64)",
    "torch.ones(2, 3, dtype=torch.int16)",
]
EXTREME = [
    "torch.zeros(0)",
    "torch.zeros(0, 4)",
    "torch.zeros(2, 0, 4).transpose(0, 2)",
    "torch.zeros(3, 0, requires_grad=True)",
    "torch.zeros(0, dtype=torch.int64)",
    "torch.zeros(0, dtype=torch.bool)",
    "torch.zeros(0, 2**40)",
    "torch.zeros(1).expand(2**10, 0)",
    "torch.ones((1,) * 12)",
    "torch.full((2, 3), float('nan'))",
    "torch.tensor([float('nan'), 1.0, -float('inf'), float('inf')])",
    "torch.tensor([-1, 5, 2**62])",
    "torch.tensor([2**63 - 1, -2**63])",
    "torch.tensor([-1, -3])",
    "torch.tensor([1e38, -1e38, 1e-45])",
    "torch.zeros(300, 4000).t()",
]
TENSORS = VIEWS + PLAIN + EXTREME
DTYPES = [
    f"torch.{name}"
    for name in ("float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16")
]
OTHERS = [
    *DTYPES,
    "float",
    "torch",
    "torch.device('cuda')",
    "torch.Size([2, 3])",
    "torch.Generator()",
    "torch.nn.Linear(4, 4)",
    "torch.nn.Module()",
    "torch.nn.Parameter(torch.ones(3, 4))",
    "[torch.ones(3), torch.ones(4)]",
    "[torch.ones(2, 3), torch.arange(6).view(2, 3)]",
    "[torch.tensor(1.0), 2]",
    "qkv.tensor(np.ones((3, 4)), requires_grad=True)",
    "qkv.nn.Linear(4, 4)",
    "np.ones((3, 4))",
    "np.ones((3, 4), np.float32)",
    "np.float32(3)",
    "np.int64(2)",
    "np.zeros(0)",
    "np.ones((2, 3), np.int8)",
    "np.ones((2, 3), np.float16)",
    "np.ones((2, 3), '>f4')",
    "np.ones((2, 3), complex)",
    "np.array(['a', 'b'])",
    "np.array([None, 1], object)",
    "np.full(2, 2**64 - 1, np.uint64)",
    "np.ones((4, 3, 2)).T[::-1, ::-1]",
    *STRANGE,
]
HOSTILE = SIZES + NUMBERS + ODD + NESTED + OTHERS + TENSORS

FLOATS = [t for t in VIEWS + PLAIN[:7] if "arange(6)" not in t]
INTEGERS = [
    "torch.tensor([[0, 2, 1], [1, 0, 2]])",
    "torch.tensor([0, 1, 1])",
    "torch.tensor([-1])",
    "torch.tensor(1)",
]
DIMS = ["0", "-1", "1", "2", "-2", "(0, 1)", "None"]
FEW = ["1", "2", "4"]
FLAG = ["True", "False"]
NUMBER = ["2", "0.5", "-1", "True", "torch.tensor(2.0)"]
OPTIMIZER = [
    "torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1)",
    "torch.optim.Adam(torch.nn.Linear(4, 4).parameters())",
]
DATA = ["torch.utils.data.TensorDataset(torch.arange(7), torch.ones(7, 2))", "[1, 2, 3]", "range(7)"]
PLAUSIBLE: dict[str, list[str]] = {
    **each("x t input tensor a b A data obj gradient", FLOATS + PLAIN),
    **each(
        "other o value src source tensor1 tensor2 x1 x2 input1 input2 end weights vec vec2 v",
        FLOATS + PLAIN + NUMBER,
    ),
    **each(
        "query key values tgt memory hidden hx",
        ["torch.ones(2, 3, 4)", "torch.ones(3, 4)", "torch.ones(2, 4, 3).transpose(1, 2)"],
    ),
    **each("target", FLOATS + INTEGERS),
    **each(
        "index indices ids item arg0",
        [
            *INTEGERS,
            "0",
            "-1",
            "(0, slice(None))",
            "(..., None)",
            "slice(1, None, 2)",
            "torch.ones(3, 4) > 0",
        ],
    ),
    **each(
        "mask condition",
        [
            "torch.ones(3, 4) > 0",
            "torch.ones(2, 3, 4) > 2",
            "torch.tensor(False)",
            "None",
            "torch.ones(3, 3) > 0",
        ],
    ),
    **each(
        "tensors operand inputs outputs operands sequences arrays",
        [
            "[torch.ones(2, 3), torch.ones(2, 3)]",
            "torch.ones(3, 4).t()",
            "[torch.ones(3, requires_grad=True)]",
            "(torch.arange(3), torch.ones(3))",
        ],
    ),
    **each(
        "dim axis dims dimension dim0 dim1 dim2 axis0 axis1 start_dim end_dim destination offset diagonal",
        DIMS,
    ),
    **each(
        "size shape sizes repeats repeat normalized_shape unflattened_size output_size fill_size",
        ["4", "(3, 4)", "-1", "(2, 6)", "(4, -1)", "(1, 3, 4)", "0", "(2, 2, 3)"],
    ),
    **each(
        "start length step n k m steps chunks num_samples row col low high minlength decimals width",
        ["0", "1", "2", "3", "-1", "7"],
    ),
    **each("split_size_or_sections lengths shifts milestones", ["1", "2", "[1, 2]", "[3, 0]", "(1, 2)"]),
    **each("num_heads nhead num_layers num_encoder_layers num_decoder_layers groups count", FEW),
    **each(
        "features embed_dim d_model embedding_dim num_embeddings hidden_size input_size dim_feedforward kdim vdim",
        ["4", "4", "8", "0"],
    ),
    **each(
        "keepdim keepdims requires_grad descending stable largest sorted unbiased as_tuple return_counts",
        FLAG,
    ),
    **each(
        "bias is_causal inplace training train batch_first retain_graph create_graph need_weights nesterov",
        FLAG,
    ),
    **each(
        "replacement strict shuffle drop_last norm_first bidirectional log_target equal_nan allow_unused",
        FLAG,
    ),
    "weight": ["torch.ones(4, 4)", "torch.ones(4)", "torch.ones(4, 3).t()", "None"],
    "dtype": DTYPES,
    "device": ["'cpu'", "None", "torch.device('cpu')"],
    "generator": ["None", "torch.Generator()"],
    **each(
        "alpha beta min max fill_value exponent p ord eps lr gamma factor gain mean std nan posinf neginf correction",
        NUMBER,
    ),
    **each("momentum weight_decay rtol atol val min_val max_val threshold delta scale", NUMBER),
    "dropout": ["0.0", "0.5"],
    "betas": ["(0.9, 0.999)"],
    "rounding_mode": ["'floor'", "'trunc'", "None"],
    "reduction": ["'mean'", "'sum'", "'none'"],
    "nonlinearity": ["'relu'", "'tanh'"],
    "activation": ["'relu'", "'gelu'"],
    "mode": ["'fan_in'", "'min'", "'constant'"],
    "indexing": ["'ij'", "'xy'"],
    "equation": ["'ij,jk->ik'", "'ij->ji'", "'ii'", "'...i,...j'", "'ij,ij'"],
    "params": ["[torch.nn.Parameter(torch.ones(3))]", "torch.nn.Linear(4, 4).parameters()"],
    "parameters": [
        "[torch.nn.Parameter(torch.ones(3))]",
        "torch.nn.Linear(4, 4).parameters()",
        "torch.ones(3)",
    ],
    "module": ["torch.nn.Linear(4, 4)", "None"],
    "modules": ["[torch.nn.Linear(4, 4)]", "{'a': torch.nn.ReLU()}"],
    "layer": ["torch.nn.TransformerEncoderLayer(4, 2, 8)"],
    "state_dict": ["torch.nn.Linear(4, 4).state_dict()", "{}"],
    "name": ["'a'", "'weight'"],
    "optimizer": OPTIMIZER,
    "schedulers": ["[]"],
    "lr_lambda": ["lambda epoch: 0.5"],
    "closure": ["None", "lambda: torch.tensor(1.0)"],
    **each("dataset data_source datasets sampler iterable batch", DATA),
    "memory_format": ["None"],
    "f": ["lambda t: t"],
    "fn": ["lambda t: t"],
    "hook": ["lambda *a: None"],
    "func": ["lambda t: (t * t).sum()", "lambda t: t * 2"],
    "pad": ["(1, 1)", "(1, -1, 0, 2)", "[0, 1]"],
    "memo": ["{}"],
    "seed": ["3"],
}
# Receivers, and arguments of constructors whose plausible values do not fit each other.
LAYER = "torch.nn.TransformerEncoderLayer(4, 2, 8)"
MADE = {
    "Tensor": TENSORS,
    "Parameter": ["torch.nn.Parameter(torch.ones(3, 4))"],
    "Module": ["torch.nn.Linear(4, 4)", "torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())", LAYER],
    "Sequential": ["torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())"],
    "ModuleList": ["torch.nn.ModuleList([torch.nn.Linear(4, 4)])"],
    "ModuleDict": ["torch.nn.ModuleDict({'a': torch.nn.Linear(4, 4)})"],
    "ParameterList": ["torch.nn.ParameterList([torch.ones(3)])"],
    "Embedding": ["torch.nn.Embedding(7, 4)"],
    "Linear": ["torch.nn.Linear(4, 4)"],
    "LayerNorm": ["torch.nn.LayerNorm(4)"],
    "RMSNorm": ["torch.nn.RMSNorm(4)"],
    "Softmax": ["torch.nn.Softmax(-1)", "torch.nn.Softmax()"],
    "GRU": ["torch.nn.GRU(4, 3, 2, batch_first=True)"],
    "LSTM": ["torch.nn.LSTM(4, 3, bidirectional=True)"],
    "RNN": ["torch.nn.RNN(4, 3)"],
    "MultiheadAttention": [
        "torch.nn.MultiheadAttention(4, 2)",
        "torch.nn.MultiheadAttention(4, 2, batch_first=True)",
    ],
    "Transformer": ["torch.nn.Transformer(4, 2, 1, 1, 8, batch_first=True)"],
    "TransformerEncoderLayer": [LAYER],
    "TransformerDecoderLayer": ["torch.nn.TransformerDecoderLayer(4, 2, 8)"],
    "TransformerEncoder": [f"torch.nn.TransformerEncoder({LAYER}, 1)"],
    "TransformerDecoder": ["torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(4, 2, 8), 1)"],
    "Optimizer": OPTIMIZER,
    "LRScheduler": [f"torch.optim.lr_scheduler.StepLR({OPTIMIZER[0]}, 1)"],
    **{
        name: [f"torch.optim.{name}([torch.nn.Parameter(torch.ones(3))], 0.1)"]
        for name in ("SGD", "Adam", "AdamW")
    },
    "Dataset": ["torch.utils.data.Dataset()"],
    "TensorDataset": [DATA[0]],
    "Subset": [f"torch.utils.data.Subset({DATA[0]}, [0, 3])"],
    "DataLoader": [f"torch.utils.data.DataLoader({DATA[0]}, batch_size=3)"],
    "Sampler": ["torch.utils.data.Sampler()"],
    "BatchSampler": ["torch.utils.data.BatchSampler(range(7), 3, False)"],
    "Size": ["torch.Size([2, 3])"],
    "device": ["torch.device('cpu')"],
}
