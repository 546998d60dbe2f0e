"""What people type who come from elsewhere works, or is refused in one line of qkv's words."""

from __future__ import annotations

import array
import copy
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import data, losses, masks, models, nn, optim

IDIOMS = (Path(__file__).parent / "idioms.txt").read_text(encoding="utf-8").splitlines()
ERRORS = (ValueError, TypeError, IndexError, KeyError, AttributeError, RuntimeError)
FOREIGN = re.compile(r"pybind|Invoked with|incompatible|0x[0-9a-f]{6}|std::|\n")


def scope():
    qkv.manual_seed(0)
    names = {
        "t": qkv.tensor(qkv.randn(3, 4)),
        "r": qkv.tensor(qkv.randn(3, 4), requires_grad=True),
        "x3": qkv.tensor(qkv.randn(2, 3, 3)),
        "lin": nn.Linear(4, 3),
        "mha": nn.MultiHeadAttention(8, 2),
        "x": qkv.randn(2, 5, 8),
        "q": qkv.randn(2, 3, 5, 8),
    }
    modules = {"qkv": qkv, "np": np, "nn": nn, "optim": optim, "losses": losses, "masks": masks, "data": data}
    return names | modules | {"models": models, "array": array, "copy": copy, "pickle": pickle}


@sweep("line", IDIOMS)
def test_it_works_or_is_refused_in_words(line):
    names = scope()
    if "pd." in line:
        names["pd"] = pytest.importorskip("pandas")
    if "plot." in line:
        pytest.importorskip("matplotlib")
        names["plot"] = qkv.plot
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                code = compile(line, "idiom", "eval")
            except SyntaxError:
                code = compile(line, "idiom", "exec")
            eval(code, names)
        except ERRORS as error:
            message = str(error)
    assert not FOREIGN.search(message), message
    assert len(message) < 600


# The line, the error, what it says.
HINTS = [
    ("qkv.randn(size=(2, 3))", TypeError, r"sizes are given one by one, as in randn\(2, 3\)"),
    ("qkv.rand(2, requires_grad=True)", TypeError, r"write qkv.tensor\(numbers, requires_grad=True\)"),
    ("t.var(unbiased=False)", TypeError, r"give ddof=1, or 0"),
    ("(r * 2).sum().backward(create_graph=True)", TypeError, r"write qkv.grad\(output, inputs, create_graph=True\)"),
    ("qkv.concatenate(t, t)", TypeError, r"^concatenate: axis must be an integer of 64 bits; got Tensor$"),
    ("qkv.gelu(t, True)", TypeError, r"^gelu: approximate must be a string; got bool$"),
    ("nn.KVCache(max_len=4)", TypeError, r"did you mean capacity"),
    ("nn.Sequential([nn.ReLU()])", TypeError, r"modules must be Modules; got list; write \*modules for those in it$"),
    ("nn.Sequential(qkv.relu)", TypeError, r"modules must be Modules; got function$"),
    ("optim.Adam(lin)", TypeError, r"got Linear; write layer.parameters\(\)$"),
    ("lin.to('cpu')", TypeError, r"got 'cpu', a device; everything is computed on the CPU, leave it out$"),
    ("qkv.zeros(2)", AttributeError, r"; write np.zeros\(...\), or qkv.tensor\(np.zeros\(...\)\) for a Tensor$"),
    ("qkv.tril(t)", AttributeError, r"; NumPy has it, and takes Tensors: np.tril$"),
    ("qkv.tensor(2, dtype='cuda:0')", TypeError, r"tensor: .* got 'cuda:0', a device; everything"),
    ("t.astype('torch.float32')", TypeError, r"got 'torch.float32'; write \"float32\"$"),
    ("bool(t)", ValueError, r"^bool: .* got a Tensor \(3, 4\); write t.any\(\) or t.all\(\), and & | ~"),
    ("t.__delitem__(0)", TypeError, r"items cannot be deleted"),
    ("mha.weights", AttributeError, r"did you mean attention_weights\?$"),
    ("nn.Module()(t)", AttributeError, r"define forward\(self, \.\.\.\) in your class$"),
    ("lin.register_forward_hook(len)", AttributeError, r"there are no hooks"),
    ("t.isnan()", AttributeError, r"write np.isnan\(t\)$"),
    ("qkv.seed(0)", AttributeError, r"did you mean manual_seed \(called seed in NumPy\)\?$"),
    ("qkv.isnan(t)", AttributeError, r"NumPy has it, and takes Tensors: np.isnan$"),
    ("qkv.save(1, 'x')", AttributeError, r"write qkv.training.save_arrays\(path, layer.state_dict\(\)\); a model"),
    ("qkv.load('x')", AttributeError, r"write layer.load_state_dict\(qkv.training.load_arrays\(path\)\[0\]\)"),
    ("qkv.info", AttributeError, r"write qkv.show_config\(\)$"),
    ("qkv.attention(q, q, q)", AttributeError, r"write qkv.scaled_dot_product_attention\(query, key, value\); layers"),
    ("nn.attention(q, q, q)", AttributeError, r"write qkv.scaled_dot_product_attention"),
    ("qkv.plot.show_heatmaps(np.eye(4))", ValueError, r"one matrix is drawn by qkv.plot.heatmap\(matrix\)$"),
    ("mha(x, attn_mask=np.ones((2, 5), bool))", ValueError, r"for keys that are real, \(B, Lk\), give attn_mask\[:"),
    ("qkv.float32", AttributeError, r'dtypes are NumPy\'s, or names: "float32"$'),
    ("qkv.inference_mode()", AttributeError, r"write with qkv.no_grad\(\):$"),
    ("qkv.autograd.grad", AttributeError, r"qkv.grad and qkv.jacobian$"),
    ("nn.init.zeros_(lin.bias)", AttributeError, r"write t.copy_\(numbers\) under qkv.no_grad\(\)$"),
    ("masks.subsequent_mask(3)", AttributeError, r"did you mean causal"),
    ("models.load('folder')", AttributeError, r"write from_pretrained\(folder\)$"),
    ("models.AutoModelForCausalLM", AttributeError, r"write qkv.models.from_pretrained\(folder\); the type"),
    ("models.AutoTokenizer", AttributeError, r"write qkv.models.Tokenizer.from_pretrained\(folder\)$"),
    ("models.AutoModelForTokenClassification", AttributeError, r"write qkv.models.from_pretrained\(folder\); the"),
    ("models.PreTrainedTokenizerFast", AttributeError, r"write qkv.models.Tokenizer.from_pretrained\(folder\)$"),
    ("models.pipeline('fill-mask')", AttributeError, r"write qkv.models.from_pretrained\(folder\) for a model, and"),
    ("qkv.pipeline", AttributeError, r"write qkv.models.from_pretrained\(folder\) for a model, and"),
    ("qkv.AutoTokenizer", AttributeError, r"write qkv.models.Tokenizer.from_pretrained\(folder\)$"),
    ("models.TextStreamer", AttributeError, r"write on_token=tokenizer.stream\(print\) in generate$"),
    ("models.SentenceTransformer('folder')", AttributeError, r"SentenceEncoder.from_pretrained\(folder\)$"),
    ("models.SentenceEncoder('folder')", TypeError, r"write SentenceEncoder.from_pretrained\('folder'\) for"),
    ("qkv.flex_attention", AttributeError, r"give scaled_dot_product_attention score_mod= and mask_mod="),
    ("qkv.scaled_dot_product_attention(q, q, q, block_mask=None)", TypeError, r"give mask_mod\(b, h, q_idx, kv_idx\)"),
    ("optim.RMSprop(lin.parameters())", AttributeError, r"the optimizers are SGD, Adam and AdamW$"),
]  # fmt: skip


@sweep("line, error, text", HINTS)
def test_it_says_what_to_write(line, error, text):
    with pytest.raises(error, match=text):
        eval(line, scope())


def test_pytorchs_dtypes_and_devices():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"got 'torch.float16'; write \"float16\"$"):
        qkv.tensor([1.0]).astype(torch.float16)
    with pytest.raises(TypeError, match=r"got 'cpu', a device"):
        nn.ReLU().to(torch.device("cpu"))


def test_slices_of_containers():
    layers = [nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)]
    whole = nn.Sequential(*layers)
    x = qkv.randn(7, 3)
    first = whole[:2]
    assert type(first) is nn.Sequential
    assert len(first) == 2
    assert first[0] is whole[0]
    assert (whole[2:](first(x)).numpy() == whole(x).numpy()).all()
    assert list(first.state_dict()) == ["0.weight", "0.bias"]
    backwards = nn.ModuleList(layers)[::-2]
    assert type(backwards) is nn.ModuleList
    assert [part is layer for part, layer in zip(backwards, layers[::-2], strict=True)] == [True, True]
    assert len(whole[5:]) == 0
