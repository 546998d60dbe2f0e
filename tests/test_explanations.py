"""`plot.explain`: every number that its page shows is one of a recording, as Node runs the page's own script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from models.tiny_models import TINY
from test_html import EVIL, Reader

import qkv
from qkv import look, models, nn, plot
from qkv.plot.views import view as views

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node")
IDS = [5, 9, 17, 9, 33, 5, 41]
OWN = [7, 12, 7, 3]  # of a decoder
WORDS = ("queries", "keys", "values", "scores", "weights", "heads", "input", "output")
FOLDER = Path(views.__file__).parent
TYPES = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
}
# What the steps with rows show, in their order: recorded names, {} is the layer; heads are those of all heads.
_PRE = "{}.input {}.norm1.output | {}.self_attn.heads {}.self_attn.out_proj.output"
_FED = "{}.linear2.input {}.linear2.output"
ROWS = {
    "gpt2": "body.embedding.output body.position_embedding.output body.layers.0.input | " + _PRE
    + " | {}.input {}.self_attn.out_proj.output {}.norm2.input | {}.norm2.input {}.norm2.output | " + _FED
    + " | {}.norm2.input {}.linear2.output {}.output | body.norm.output",
    "llama": "body.embedding.output body.layers.0.input | " + _PRE
    + " | {}.input {}.self_attn.out_proj.output {}.norm2.input | {}.norm2.input {}.norm2.output | " + _FED
    + " | {}.norm2.input {}.linear2.output {}.output | body.norm.output",
    "gemma2": "body.embedding.output body.layers.0.input | " + _PRE
    + " | {}.self_attn.out_proj.output {}.post_norm1.output | {}.input {}.post_norm1.output {}.norm2.input"
    + " | {}.norm2.input {}.norm2.output | " + _FED + " | {}.linear2.output {}.post_norm2.output"
    + " | {}.norm2.input {}.post_norm2.output {}.output | body.norm.output",
    "gpt_neox": "body.embedding.output body.layers.0.input | " + _PRE + " | {}.input {}.norm2.output | " + _FED
    + " | {}.input {}.self_attn.out_proj.output {}.linear2.output {}.output | body.norm.output",
    "bert": "bert.embeddings.word_embeddings.output bert.embeddings.position_embeddings.output "
    "bert.embeddings.token_type_embeddings.output bert.embeddings.LayerNorm.output bert.encoder.layer.0.input"
    " | {}.attention.self.heads {}.attention.output.dense.output"
    " | {}.input {}.attention.output.dense.output {}.attention.output.LayerNorm.input"
    " | {}.attention.output.LayerNorm.input {}.attention.output.LayerNorm.output"
    " | {}.output.dense.input {}.output.dense.output"
    " | {}.attention.output.LayerNorm.output {}.output.dense.output {}.output.LayerNorm.input"
    " | {}.output.LayerNorm.input {}.output.LayerNorm.output",
    "t5": "decoder.embedding.output decoder.layers.0.input | " + _PRE
    + " | {}.input {}.self_attn.out_proj.output {}.norm2.input | {}.norm2.input {}.norm2.output"
    + " | {}.multihead_attn.heads {}.multihead_attn.out_proj.output"
    + " | {}.norm2.input {}.multihead_attn.out_proj.output {}.norm3.input | {}.norm3.input {}.norm3.output | " + _FED
    + " | {}.norm3.input {}.linear2.output {}.output | decoder.norm.output",
    "bart": "decoder.embedding.output decoder.position_embedding.output decoder.embedding_norm.output "
    "decoder.layers.0.input | {}.self_attn.heads {}.self_attn.out_proj.output"
    " | {}.input {}.self_attn.out_proj.output {}.norm1.input | {}.norm1.input {}.norm1.output"
    " | {}.multihead_attn.heads {}.multihead_attn.out_proj.output"
    " | {}.norm1.output {}.multihead_attn.out_proj.output {}.norm2.input | {}.norm2.input {}.norm2.output | " + _FED
    + " | {}.norm2.output {}.linear2.output {}.norm3.input | {}.norm3.input {}.norm3.output",
}  # fmt: skip
ROWS["qwen3"] = ROWS["llama"]


def made(kind):
    """Make a small model whose parameters all differ, and what is read."""
    common, variants = TINY[kind]
    qkv.manual_seed(0)
    model = models.from_config(
        {"model_type": kind, "architectures": [TYPES[kind]], **common, **next(iter(variants.values()))}
    ).eval()
    for i, (_, p) in enumerate(model.named_parameters()):
        p.copy_(p.numpy() + 0.3 * np.random.default_rng(i).standard_normal(p.shape))
    return model, (IDS, OWN) if hasattr(model, "decoder") else IDS


READ = """
const script = {{ textContent: {text} }};
const root = {{ closest: () => null, querySelector: (name) => (name.startsWith("script") ? script : null) }};
{code}
const plain = (x) => (Array.isArray(x) ? x.map(plain) : typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
console.log(JSON.stringify({choices}.map(([layer, head, token]) => {{
  const choice = {{ layer, head, token }};
  const shown = (step) => [step.kind, step.attention, plain(numbersOf(step, choice)), toldOf(step, choice)];
  return {{ steps: stepsOf(layer).map(shown), questions: questionsOf(choice) }};
}})));
"""


def shown(view, *choices, mutate=lambda code: code):
    """Return the steps that the page shows of each choice, as its script computes them."""
    code = "".join(
        (FOLDER / name).read_text(encoding="utf8")
        for name in ("view.js", "explanation/numbers.js", "explanation/told.js")
    )
    script = READ.format(
        text=json.dumps(json.dumps(view._data())), code=mutate(code), choices=json.dumps(choices)
    )
    return json.loads(
        subprocess.run([NODE, "-"], input=script, capture_output=True, text=True, check=True).stdout
    )


class Recorded:
    """What a page must show of one choice, out of a recording of everything."""

    def __init__(self, kind, model, given, layer, head, token):
        inputs = given if isinstance(given, tuple) else (given,)
        self.model, self.recording = model, look.record(model, *([row] for row in inputs), keep=WORDS)
        self.side = (
            "decoder." if isinstance(given, tuple) else "bert.encoder.layer." if kind == "bert" else "body."
        )
        self.block = f"{self.side}{layer}" if kind == "bert" else f"{self.side}layers.{layer}"
        self.kind, self.layer, self.head, self.token = kind, layer, head, token
        self.ids = inputs[-1]

    def rows(self, name):
        value = self.recording[name]
        value = np.asarray(value[-1] if isinstance(value, list) else value)
        if name.endswith(".heads"):
            value = value.swapaxes(1, 2).reshape(1, value.shape[2], -1)
        value = value.reshape(-1, value.shape[-1])
        return value[self.token if len(value) > 1 else 0]

    def of_head(self, word, number):
        own = "attention.self" if self.kind == "bert" else ("self_attn", "multihead_attn")[number]
        table = np.asarray(self.recording[f"{self.block}.{own}.{word}"])[0]
        heads = np.asarray(self.recording[f"{self.block}.{own}.queries"]).shape[1]
        return table[self.head * len(table) // heads].astype("float64")

    def excluded(self, number):
        length = len(self.ids)
        places = np.arange(length)[None] - np.arange(length)[:, None]
        if number or self.kind == "bert":
            return np.zeros(self.of_head("scores", number).shape, bool)[self.token]
        out = places > 0
        if self.kind == "gemma2" and self.layer % 2 == 0:
            out = out | (places <= -5)
        return out[self.token]

    def steps(self):
        """Yield kind and numbers of each step but those of rows, in their order."""
        for number in range(1 + (self.side == "decoder.")):
            query, keys, values = (self.of_head(word, number) for word in ("queries", "keys", "values"))
            own = self.token if len(keys) == len(query) else 0
            yield "projections", [query[self.token], keys[own], values[own]]
            if self.kind in ("llama", "gemma2", "gpt_neox", "qwen3"):
                yield "rotary", self.turned(query)
            scores, weights = (
                self.of_head("scores", number)[self.token],
                self.of_head("weights", number)[self.token],
            )
            yield "scores", [keys @ query[self.token], scores]
            masked = np.where(self.excluded(number), -np.inf, scores)
            yield "mask", [masked]
            yield "softmax", [np.exp(masked - masked.max()), weights]
            yield "sum", [*(weights[:, None] * values), self.of_head("heads", number)[self.token]]

    def turned(self, query):
        path = f"{self.block}.self_attn"
        name = f"{path}.q_norm.output" if self.kind == "qwen3" else f"{path}.q_proj.output"
        before = np.asarray(self.recording[name]).reshape(len(self.ids), -1, query.shape[-1])[
            self.token, self.head
        ]
        count = query.shape[-1] if self.kind != "gpt_neox" else query.shape[-1] // 4
        return [
            np.stack([row[: count // 2], row[count // 2 : count]], -1).ravel()
            for row in (before, query[self.token])
        ]

    def ends(self):
        """Yield kind and numbers of the steps after the layer."""
        yield "tokens", [self.ids]
        blocks = [self.block[: -len(str(self.layer))] + f"{i}.output" for i in range(50)]
        yield "layers", [[np.linalg.norm(self.rows(name)) for name in blocks if name in self.recording]]
        output = np.asarray(getattr(self.recording.output, "logits", self.recording.output))[
            0, self.token
        ].astype("float64")
        best = np.sort(output)[::-1][:8]
        yield "logits", [best]
        yield "probabilities", [np.exp(best) / np.exp(output).sum()]


def compare(found, expected):
    kinds = {}
    for kind, _, numbers, _ in found:
        kinds.setdefault(kind, []).append([row for _, row in numbers])
    rows = [text.split() for text in ROWS[expected.kind].format(*[expected.block] * 99).split(" | ")]
    wanted = {"vectors": [[expected.rows(name) for name in names] for names in rows]}
    for kind, numbers in (*expected.steps(), *expected.ends()):
        wanted.setdefault(kind, []).append(numbers)
    assert kinds.keys() == wanted.keys()
    for kind, steps in wanted.items():
        assert [len(step) for step in kinds[kind]] == [len(step) for step in steps], kind
        for step, its in zip(kinds[kind], steps, strict=True):
            for place, (got, row) in enumerate(zip(step, its, strict=True)):
                finite = np.asarray(row, float)[np.isfinite(row)]
                top = max(1.0, float(np.abs(finite).max(initial=0)))
                is_product = (
                    kind == "scores" and place == 0
                )  # of rows that are rounded, where scores have more in them
                np.testing.assert_allclose(
                    np.array(got, float),
                    row,
                    rtol=1e-4,
                    atol=(1e-3 if is_product else 1e-4) * top,
                    err_msg=kind,
                )


CHOICES = [(1, 0, 3), (1, 2, 1), (0, 1, 2)]


@needs_node
@pytest.mark.parametrize("kind", TYPES)
def test_every_number_is_one_of_the_recording(kind):
    model, given = made(kind)
    side = {"side": "decoder"} if isinstance(given, tuple) else {}
    view = plot.explain(model, given, layer=1, head=2, layers=[0, 1], **side)
    for choice, found in zip(CHOICES, shown(view, *CHOICES), strict=True):
        expected = Recorded(kind, model, given, *choice)
        compare(found["steps"], expected)
        questions = dict(found["questions"])
        assert len(questions) == 6
        weights = expected.of_head("weights", 0)[expected.token]
        answer = re.sub("[\u2068\u2069]", "", questions["Which token does this head look at, and why?"])
        name, share = re.search(r"At “(\d+)”: it gets (\S+) of the weight", answer).groups()
        assert name == str(expected.ids[weights.argmax()])
        assert float(share) == pytest.approx(weights.max(), rel=1e-3)


MUTATIONS = {
    "a wrong head": (
        "arrayOf(layer, `values${number}`).at(k, head,",
        "arrayOf(layer, `values${number}`).at(k, 0,",
    ),
    "weights of a wrong head": ("rowOf(weights[number], head,", "rowOf(weights[number], 0,"),
    "scores unscaled": (
        "`scores${number}`).at(token, head, about.heads)",
        "`scores${number}`).at(token, head, about.heads).map((score) => score / about.scale)",
    ),
    "a mask left out": ("excluded[k] ? -Infinity : score", "score"),
    "a wrong token": ("arrayOf(layer, key).joined(token)", "arrayOf(layer, key).joined(0)"),
    "pairs of neighbours": ("[row[i], row[i + half]]", "[row[2 * i], row[2 * i + 1]]"),
}


@needs_node
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_page_that_shows_something_else_is_noticed(name):
    model, given = made("llama")
    old, new = MUTATIONS[name]

    def mutate(code):
        assert code.count(old) == 1
        return code.replace(old, new)

    found = shown(plot.explain(model, given, layer=1), (1, 2, 1), mutate=mutate)
    with pytest.raises(AssertionError):
        compare(found[0]["steps"], Recorded("llama", model, given, 1, 2, 1))


X = np.random.default_rng(4).normal(size=(5, 12)).astype("float32")
MODULES = {
    "self-attention": (lambda: nn.SelfAttention(12, 7), X),
    "multi-head": (lambda: nn.MultiHeadAttention(12, 3), X),
    "dot product": (nn.DotProductAttention, (X, X[:3])),
    "additive": (lambda: nn.AdditiveAttention(7), (X, X[:3])),
    "bilinear": (lambda: nn.BilinearAttention(12, 12), X),
    "layer": (lambda: nn.TransformerEncoderLayer(12, 3, 20), X),
    "decoder layer": (lambda: nn.TransformerDecoderLayer(12, 3, 20), (X, X[:3])),
    "stack": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20), 2), X),
    "language model": (lambda: models.CausalLM(vocab_size=61, d_model=12, nhead=3, num_layers=2), IDS),
    "transformer": (lambda: models.Transformer(61, 61, d_model=12, nhead=3, num_encoder_layers=2,
                                               num_decoder_layers=2, dim_feedforward=20), (IDS, OWN)),
}  # fmt: skip


@needs_node
@pytest.mark.parametrize("name", MODULES)
def test_modules_of_qkv(name):
    make, given = MODULES[name]
    model = make().eval()
    view = plot.explain(model, given, query=1)
    (found,) = shown(view, (0, 0, 1))
    inputs = given if isinstance(given, tuple) else (given,)
    inputs = [np.asarray(x)[None] for x in inputs]
    if isinstance(model, nn.Attention):
        inputs = [inputs[0], inputs[-1], inputs[-1]]
    recording = look.record(model, *inputs, keep=("weights", "heads"))
    (first, *_), (heads, *_) = (recording.all(f"*{word}") for word in ("weights", "heads"))
    rows = {kind: dict(numbers) for kind, _, numbers, _ in reversed(found["steps"])}
    np.testing.assert_allclose(
        rows["softmax"]["weight"], first.reshape(-1, *first.shape[-2:])[0, 1], atol=2e-5
    )
    np.testing.assert_allclose(rows["sum"]["z"], heads.reshape(-1, *heads.shape[-2:])[0, 1], atol=1e-4)
    assert len(found["questions"]) == 6
    assert view.figure().axes


def test_every_type_of_text_model():
    for kind in set(models.supported()) - {"vit", "deit"}:
        common, variants = TINY[kind]
        model = models.from_config({"model_type": kind, **common, **next(iter(variants.values()))}).eval()
        for side in ("encoder", "decoder") if hasattr(model, "decoder") else (None,):
            view = plot.explain(model, (IDS, OWN) if side else IDS, side=side)
            says = view.about["says"][0][0][0]
            assert re.search(r"looks at .* of its weight|spreads its weight", says), says
            kinds = [step["kind"] for step in view.about["layers"][0]["steps"]]
            assert {"projections", "scores", "mask", "softmax", "sum", "vectors"} <= {*kinds}


def test_what_a_head_is_said_to_do_are_its_measures():
    model, given = made("gpt2")
    view = plot.explain(model, given)
    found = look.measures(model, [given], tokens=[str(number) for number in given])
    for layer, head in np.ndindex(3, 3):
        says = view.about["says"][0][layer][head]
        assert f"entropy {found.entropy[layer, head]:.2f} of at most {np.log(7):.2f}" in says
        if share := re.search(r"looks at the (token before|first token): (\S+) of its", says):
            table = found.previous if share[1] == "token before" else found.first
            assert float(share[2]) == pytest.approx(table[layer, head], abs=0.006)


def test_layers_that_are_not_stored_keep_their_weights():
    model, given = made("llama")
    view = plot.explain(model, given, layer=-1)
    assert [bool(layer["steps"]) for layer in view.about["layers"]] == [False, False, True]
    assert all(layer["weights"] for layer in view.about["layers"])
    both = plot.explain(model, given, layer=2, layers=[0, -2])
    assert all(layer["steps"] for layer in both.about["layers"])


def test_hostile_tokens_are_text():
    view = plot.explain(nn.SelfAttention(12, 7), EVIL, inputs=np.resize(X, (1, 6, 12)), title=EVIL[0])
    page = Reader(view._repr_html_())
    assert len(page.all("script")) == 2
    assert json.loads(page.text["script"][0])["tokens"][:2] == EVIL[:2]
    assert repr(view) == "ExplainView(layer 0 of 1, head 0 of 1, token 5 of 6)"
    scripts = plot.explain(nn.SelfAttention(12, 7), ["你好", "नमस्ते", "مرحبا", "👩‍🚀"], inputs=X[None, :4])
    assert "नमस्ते" in scripts._repr_html_() or "\\u0928" in scripts._repr_html_()


def test_readers_without_scripts_get_the_steps_in_words():
    model, given = made("gpt2")
    page = Reader(plot.explain(model, given)._repr_html_())
    assert len(page.all("li")) == 17
    assert any("q · k / √8" in text for text in page.text["code"])
    assert "all others to 1/65528 of" in " ".join(page.text["p"])


def test_keywords_of_the_call_are_passed_on():
    attention = nn.MultiHeadAttention(12, 3)
    view = plot.explain(attention, X, is_causal=True)
    assert "never what comes after" in view.about["layers"][0]["steps"][3]["says"]
    assert "15 of 25 pairs" in view.about["layers"][0]["steps"][3]["shapes"]
    both = plot.explain(attention, X)
    assert "looks in both directions" in both.about["layers"][0]["steps"][3]["says"]


@needs_node
@pytest.mark.parametrize(
    ("options", "keywords", "pairs"),
    [
        ({"normalizer": "sparsemax"}, {}, 25),  # whose zeros are no mask
        ({"normalizer": "entmax15", "is_causal": True, "window": (1, 0)}, {}, 9),
        ({"sinks": True}, {}, 25),
        ({"scale": 90.0}, {}, 25),  # weights become 0 by their scores
        ({}, {"attn_mask": np.eye(5, dtype=bool)}, 5),
        ({}, {"attn_mask": np.zeros((5, 5), bool)}, 0),
    ],
)
def test_what_a_mask_leaves_out_and_what_a_score_does(options, keywords, pairs):
    view = plot.explain(nn.MultiHeadAttention(12, 3, **options), 3 * X, **keywords)
    steps = {step["kind"]: step for step in view.about["layers"][0]["steps"]}
    assert steps["mask"]["shapes"] == f"{pairs} of 25 pairs count"
    (found,) = shown(view, (0, 1, 2))
    assert len(found["questions"]) == 6
    view.figure().draw_without_rendering()
