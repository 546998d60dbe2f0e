"""The result of an item is the same bits alone and in any batch, if that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from batch_cases import CASES, differences
from levels import FUSED, LEVELS, each_level, run_at
from seq2seq_checks import DECODERS
from sweep import sweep

import qkv
from qkv import models, nn

LENS = np.array([7, 3, 5, 1, 6])
IDS = np.random.default_rng(0).integers(1, 13, (5, 7))


@pytest.fixture(autouse=True)
def _invariant():
    before = qkv.get_reproducible()
    qkv.set_reproducible(True)
    yield
    qkv.set_reproducible(before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@sweep("name", CASES)
def test_items_do_not_depend_on_their_batch(name, dtype):
    assert differences(CASES[name], dtype) == []


@each_level(*FUSED)
def test_nor_at_any_level_of_this_machine(level):
    done = run_at(level, "import batch_cases; batch_cases.main()", QKV_REPRODUCIBLE="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{level} reproducible\n"


def test_the_cases_find_a_difference():
    qkv.set_reproducible(False)
    found = [name for name, case in CASES.items() if differences(case, "float32")]
    assert any("matri" in name for name in found)
    assert any("Attention" in name for name in found)


def same(a, b):
    assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"window": (3, 2)}, {"softcap": 2.0}, {"bias": True}], ids=str
)
@pytest.mark.parametrize("keys", [11, 307])
def test_one_query_alone_and_among_others(options, keys):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 3, n, 17)).astype("float32") for n in (keys, keys, keys))
    options = dict(options)
    mask = rng.standard_normal((keys, keys)).astype("float32") if options.pop("bias", False) else None
    many = qkv.scaled_dot_product_attention(q, k, v, mask, **options)
    for i in (0, 1, keys // 2, keys - 1):
        row = None if mask is None else mask[i : i + 1]
        one = qkv.scaled_dot_product_attention(q[:, :, i : i + 1], k, v, row, q_offset=i, **options)
        assert one.tobytes() == many[:, :, i : i + 1].tobytes()


def test_one_query_of_additive_attention():
    rng = np.random.default_rng(1)
    q, k, v, w = (rng.standard_normal(s).astype("float32") for s in ((2, 7, 17), (2, 53, 17), (2, 53, 5), 17))
    many = qkv.additive_attention(q, k, v, w)
    for i in range(7):
        assert qkv.additive_attention(q[:, i : i + 1], k, v, w).tobytes() == many[:, i : i + 1].tobytes()


def test_padding_to_another_length_changes_nothing():
    layer = nn.MultiHeadAttention(24, 4)
    x = np.random.default_rng(2).standard_normal((2, 307, 24)).astype("float32")
    for n in (1, 53, 130, 200):
        alone = layer(x[:1, :n])
        padded = layer(x, valid_lens=[n, 307])
        same(alone, padded[:1, :n])


def test_a_token_decoded_with_a_cache_and_in_the_whole_text():
    qkv.manual_seed(0)
    model = models.CausalLM(13, 24, 6, 2, num_kv_heads=3, dim_feedforward=40)
    whole = model(IDS)
    cache = [nn.KVCache() for _ in model.layers]
    for t in range(7):
        same(model(IDS[:, t : t + 1], cache=cache), whole[:, t : t + 1])
    for b in range(5):
        same(model(IDS[b : b + 1]), whole[b : b + 1])


@pytest.mark.parametrize("skip_padding", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bert(skip_padding, dtype):
    qkv.manual_seed(0)
    config = models.BertConfig(
        vocab_size=13,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=11,
    )
    model = models.BertModel(config).to(dtype).eval()
    with qkv.no_grad():
        many = model(IDS, valid_lens=LENS, skip_padding=skip_padding)
        for b, n in enumerate(LENS):
            one = model(IDS[b : b + 1, :n], skip_padding=skip_padding)
            same(one.last_hidden_state, many.last_hidden_state[b : b + 1, :n])
            same(one.pooler_output, many.pooler_output[b : b + 1])
    if dtype == "float32":  # recorded
        same(model(IDS, valid_lens=LENS, skip_padding=skip_padding).last_hidden_state, many.last_hidden_state)


@pytest.mark.parametrize("decoder", DECODERS)
def test_sequence_to_sequence(decoder):
    model = models.EncoderDecoder(models.Seq2SeqEncoder(13, 5, 11, 2), decoder(17, 5, 11, 2)).eval()
    many = model(IDS, IDS, LENS)
    many = many[0] if isinstance(many, tuple) else many
    for b in range(5):
        one = model(IDS[b : b + 1], IDS[b : b + 1], LENS[b : b + 1])
        same(one[0] if isinstance(one, tuple) else one, many[b : b + 1])


def test_transformer():
    model = models.Transformer(13, 17, 24, 4, 2, 2, 40, dropout=0.0)
    many = model(IDS, IDS, src_valid_lens=LENS)
    for b in range(5):
        same(model(IDS[b : b + 1], IDS[b : b + 1], src_valid_lens=LENS[b : b + 1]), many[b : b + 1])


def test_sentences(tmp_path):
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    from models.folders import TEXTS, make_folder

    encoder = qkv.models.SentenceEncoder.from_pretrained(make_folder(tmp_path))
    many = encoder.encode(TEXTS)
    for text, row in zip(TEXTS, many, strict=True):
        assert encoder.encode([text])[0].tobytes() == row.tobytes()


def test_the_switch():
    assert qkv.get_reproducible() is True
    assert qkv.config()["reproducible"] is True
    qkv.set_reproducible(False)
    assert qkv.get_reproducible() is False
    with pytest.raises(TypeError, match=r"^set_reproducible: on must be True or False; got int$"):
        qkv.set_reproducible(1)


@pytest.mark.parametrize(("value", "printed"), [("1", "True"), ("0", "False"), ("", "False"), ("yes", None)])
def test_the_environment_turns_it_on(value, printed):
    program = "import qkv; qkv.show_config(); print(qkv.get_reproducible())"
    done = run_at(None, program, QKV_REPRODUCIBLE=value)
    if printed is None:
        assert done.returncode == 1
        assert "QKV_REPRODUCIBLE: must be 0 or 1; got yes" in done.stderr
    else:
        assert done.stdout.splitlines()[-1] == printed, done.stderr
        assert ("results   the same bits on every CPU" in done.stdout) == (printed == "True")


@each_level(*(level for level in LEVELS if level not in FUSED))
def test_a_level_without_fused_products_refuses_it(level):
    program = "import qkv; print(qkv.config()['fused_multiply_add']); qkv.set_reproducible(True)"
    done = run_at(level, program)
    assert done.stdout == "False\n"
    why = "needs a CPU with fused multiply-add (AVX2 and FMA, or ARM) because one rounding cannot be made of two"
    assert done.stderr.endswith(f"RuntimeError: set_reproducible: {why}; got the level {level}\n")
    assert (
        f"QKV_REPRODUCIBLE: {why}; got the level {level}"
        in run_at(level, "import qkv", QKV_REPRODUCIBLE="1").stderr
    )
