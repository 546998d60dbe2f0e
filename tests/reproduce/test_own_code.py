"""The documents' own code: all of it, word for word except for the import lines, and with the digits that are told."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.reproduce.display import MIME

from . import documents

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "notebooks" / "the_documents_own_code.ipynb"  # with its outputs, which packages leave out
DOCS = CHECKOUT / "docs" / "torch.md"
CELLS = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
IMPORTS = {
    "import qkv.torch as torch": "import torch",
    "import qkv.torch.nn as nn": "import torch.nn as nn",
    "import qkv.torch.nn.functional as F": "import torch.nn.functional as F",
    "from qkv.torch import nn": "from torch import nn",
    "from qkv.torch import d2l as utils": "import utils",
}
PROGRAMS = {  # the first lines, or the last, of the pieces of the documents' programs
    "000": """
        import torch import utils
        def f(val):
        def nadaraya_watson(
        def plot(
        names, attention=True)
        def gaussian_with_width(
        kernels = [gaussian_with_width(sigma)
        masked_softmax(torch.rand(2, 2, 4), torch.tensor([2, 3]))
        torch.tensor([[1, 3], [2, 4]]))
        assert torch.bmm(Q, K).shape
        class DotProductAttention(nn.Module):
        attention = DotProductAttention(dropout=0.5)
        class AdditiveAttention(nn.Module):
        attention = AdditiveAttention(num_hiddens=8, dropout=0.1)
        class Encoder(nn.Module):
        class Seq2SeqEncoder(Encoder):
        class Decoder(nn.Module):
        class AttentionDecoder(Decoder):
        class Seq2seqAttentionDecoder(AttentionDecoder):
        assert state[1][0].shape
        class MultiHeadAttention(utils.Module):
        assert attention(X, Y, Y, valid_lens).shape
        assert attention(X, X, X, valid_lens).shape
        class PositionalEncoding(nn.Module):
        utils.plot(
    """,
    "001": """
        W_query = nn.Parameter(
        values = torch.matmul(inputs, W_value)
        class SelfAttention_v2(nn.Module):
        print(sa_v2(inputs))
        mask = torch.triu(torch.ones(seq_len, seq_len)
        attention_weights = torch.softmax(masked_scores, dim=-1)
        dropout = nn.Dropout(p=0.5)
        batch = torch.stack((inputs, inputs), dim=0)
        class CausalAttention(nn.Module):
        class MultiHeadAttention(nn.Module):
        context_vecs = mha(batch)
    """,
    "002": """
        import torch import numpy as np
        batch_size = 2
        print(src_seq) print(tgt_seq)
        print(src_embedding)
        print(src_pe_embedding)
        print(prob1) print(prob2)
        print(jaco_mat1)
        print(mask_encoder_self_attention)
        print(masked_score) print(prob)
        print(mask_cross_attention)
        print(invalid_decoder_tri_matrix)
        masked_score = score.masked_fill(invalid_decoder_tri_matrix, -1e9)
        def scaled_dot_product_attention(Q, K, V, attn_mask):
    """,
    "003": """
        class AttentionLayer(nn.Module):
    """,
    "004": """
        def attention(query, key, value, mask=None, dropout=None):
        class MultiHeadedAttention(nn.Module):
        def clones(module, N):
        class SelfAttention(nn.Module):
        # 最后将多头排列好,就是multi-head attention的结果了
    """,
}


def theirs():
    """Return each piece of code of the documents with its document: cells and parts of cells between lines of ours."""
    number = ""
    for cell in CELLS:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = re.match(r"## Document (\d)", source)
            number = f"00{heading[1]}" if heading else number
        elif not source.startswith("# ours\n"):
            for piece in re.split(r"^.*  # ours$", source, flags=re.M):
                lines = [IMPORTS.get(line, line) for line in piece.splitlines()]
                if "".join(lines).strip():
                    yield number, "\n".join(lines)


def test_what_is_not_ours_is_the_documents_with_its_comments():
    stored = documents.read()
    foreign = [piece for number, piece in theirs() if documents.digest(piece) not in stored[number]]
    assert foreign == []


@pytest.mark.parametrize("number", PROGRAMS)
def test_all_programs_run(number):
    run = b" ".join(documents.digest(piece) for of, piece in theirs() if of == number)
    for line in PROGRAMS[number].strip().splitlines():
        assert documents.digest(line) in documents.read()[number], line
        assert documents.digest(line) in run, line


def test_a_changed_line_is_noticed():
    number, piece = next((of, text) for of, text in theirs() if "class CausalAttention" in text)
    for line in ("attn_scores = queries @ keys.transpose(1, 2)", "# b is the num of batches"):
        assert line in piece
        assert documents.digest(piece.replace(line, "")) not in documents.read()[number]


def told():
    """Return the three counts that the notebook and the page of `qkv.torch` tell."""
    text, page = "".join(CELLS[0]["source"]), DOCS.read_text(encoding="utf-8")
    found = re.search(r"of (\d+) numbers (\d+)\s+differ[^;]*;\s+of PyTorch's own float32 (\d+)", text)
    same = re.search(
        r"the (\d+) numbers[^;]*?\n(\d+)\s+differ[^;]*;\s+of PyTorch's own float32 results (\d+)", page
    )
    assert found.groups() == same.groups()
    return [int(number) for number in found.groups()]


def test_the_digits_that_are_told_are_those_that_were_found():
    outputs = [output.get("data", {}) for cell in CELLS for output in cell.get("outputs", ())]
    got = [data[MIME]["got"] for data in outputs if "last digits" in data.get(MIME, {}).get("what", "")]
    counts = [re.search(r"the same (\d+) printed values(?: but (\d+) last)?", text) for text in got]
    assert [sum(int(found[i] or 0) for found in counts) for i in (1, 2)] == told()[:2]


def test_pytorch_itself_differs_as_is_told():
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    run = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "with_pytorch.py"), str(PAGE)]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300).stdout
    numbers, different = json.loads(shown.splitlines()[-1])
    assert numbers == told()[0]
    assert told()[2] / 2 <= different <= told()[2] * 2  # the order of sums is that of this machine's kernels
