"""BERT and its heads: the documents' numbers, masks, packed rows, gradients, copies and errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from golden import golden
from helpers import close, same_bits_for_any_threads

import qkv
from models.bert_golden import PARTS, SIZES, own_name, parameters, tiny, train
from qkv import losses, models

RNG = np.random.default_rng(70)
IDS = RNG.integers(1, 30, (3, 7))
LENS = [7, 3, 5]


def pre_training_loss(model, g):
    words, follows = model(
        g["input_ids"], attention_mask=g["attention_mask"], token_type_ids=g["token_type_ids"]
    )
    return losses.cross_entropy(words, g["mlm_labels"]), losses.cross_entropy(follows, g["nsp_labels"])


def test_documents_forward():
    g = golden("D3-23")
    model = tiny(models.BertForPreTraining)
    call = {"attention_mask": g["attention_mask"], "token_type_ids": g["token_type_ids"]}
    for i, states in enumerate(model.bert.hidden_states(g["input_ids"], **call)):
        g.close(f"hidden.{i}", states)
    hidden, pooled = model.bert(g["input_ids"], **call)
    g.close("hidden.2", hidden)
    g.close("pooled", pooled)
    words, follows = model(g["input_ids"], **call)
    g.close("mlm_logits", words)
    g.close("nsp_logits", follows)
    for i, weights in enumerate(model.attention_weights):
        g.close(f"attention.{i}", weights)
    for name, loss in zip(("mlm_loss", "nsp_loss"), pre_training_loss(model, g), strict=True):
        g.close(name, loss)
    close(tiny(models.BertForMaskedLM)(g["input_ids"], **call).logits, words)


def test_documents_gradients():
    g = golden("D3-23")
    model = tiny(models.BertForPreTraining, pad_token_id=None)
    sum(pre_training_loss(model, g)[1:], pre_training_loss(model, g)[0]).backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    names = [k.removeprefix("grad.") for k in g.names("grad")]
    assert {own_name(k) for k in names} == set(found)
    for short in names:
        g.close("grad." + short, found[own_name(short)])


def test_documents_training():
    g = golden("D3-23")
    model = tiny(models.BertForPreTraining)
    g.close(
        "pretrain_losses",
        train(model, lambda: sum(pre_training_loss(model, g)[1:], pre_training_loss(model, g)[0]), 20),
    )
    words = model(g["input_ids"], attention_mask=g["attention_mask"], token_type_ids=g["token_type_ids"])[
        0
    ].numpy()
    np.testing.assert_array_equal([words[0, 2].argmax(), words[1, 7].argmax()], g["filled_after_training"])


def test_a_word_depends_on_its_context():
    g = golden("D3-24")
    states = tiny(models.BertModel).hidden_states(g["input_ids"])
    g.close("static", states[0].numpy()[:, 0])
    g.close("contextual", states[-1].numpy()[:, 0])
    assert np.abs(np.diff(states[-1].numpy()[:, 0], axis=0)).max() > 1e-3


@pytest.mark.parametrize(
    ("case", "head", "kind", "labels"),
    [
        ("D3-26a", "cls", models.BertForSequenceClassification, 3),
        ("D3-26b", "tag", models.BertForTokenClassification, 5),
        ("D3-26c", "pair", models.BertForSequenceClassification, 2),
    ],
)
def test_documents_fine_tuning(case, head, kind, labels):
    g = golden(case)
    model = tiny(kind, head, num_labels=labels)

    def logits():
        return model(
            g["input_ids"], attention_mask=g["attention_mask"], token_type_ids=g["token_type_ids"]
        ).logits

    loss = losses.cross_entropy(logits(), g["labels"])
    g.close("logits", logits())
    g.close("loss", loss)
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    for key in g.names("grad"):
        g.close(key, found[own_name(key.removeprefix("grad."), head)])
    g.close("losses", train(model, lambda: losses.cross_entropy(logits(), g["labels"]), 15))
    np.testing.assert_array_equal(logits().numpy().argmax(-1), g["predicted_after"])


def test_parameter_counts():
    counts = golden("D3-25")["counts"]
    for row, config in zip(
        counts,
        [models.BertConfig.base(), models.BertConfig.large(), models.BertConfig.base(vocab_size=28996),
         models.BertConfig.large(vocab_size=28996)],
        strict=True,
    ):  # fmt: skip
        assert models.count_parameters(config) == row[4]
        assert models.count_parameters(config, models.BertForPreTraining) == row[7]
        assert models.count_parameters(config, models.BertForMaskedLM) == row[8] + row[5]
    assert models.BertModel(models.BertConfig(**SIZES)).num_parameters() == golden("D3-25")["tiny_bert"]


def test_names():
    names = {name for name, _ in models.BertForPreTraining(models.BertConfig(**SIZES)).named_parameters()}
    assert names == {own_name(k) for k in PARTS}
    model = models.BertModel(models.BertConfig(**SIZES))
    assert [n for n, _ in model.named_parameters()][:2] == [PARTS["emb.word"], PARTS["emb.position"]]
    assert model.encoder.layer[1].attention.self.query.weight.shape == (32, 32)


def prefix(lens, length):
    return np.arange(length) < np.asarray(lens)[:, None]


@pytest.mark.parametrize("dtype", [bool, "int64", "float32"])
def test_attention_mask_is_valid_lens(dtype):
    model = tiny(models.BertModel)
    expected = model(IDS, valid_lens=LENS)
    actual = model(IDS, attention_mask=prefix(LENS, 7).astype(dtype))
    assert actual.last_hidden_state.numpy().tobytes() == expected.last_hidden_state.numpy().tobytes()
    assert np.abs(model(IDS).last_hidden_state.numpy() - expected.last_hidden_state.numpy()).max() > 1e-3


def test_masks_of_other_shapes():
    model = tiny(models.BertModel)
    holes = RNG.random((3, 7)) < 0.6
    holes[:, 0] = True
    one = model(IDS, attention_mask=holes).last_hidden_state
    close(model(IDS, attention_mask=np.broadcast_to(holes[:, None], (3, 7, 7)).copy()).last_hidden_state, one)
    close(model(IDS, attention_mask=holes[:, None, None]).last_hidden_state, one)
    both = model(IDS, attention_mask=holes, valid_lens=LENS).last_hidden_state
    close(both, model(IDS, attention_mask=holes & prefix(LENS, 7)).last_hidden_state)
    for b in range(3):  # an item alone, without the hidden keys
        kept = np.flatnonzero(holes[b])
        alone = model(IDS[b : b + 1], attention_mask=holes[b : b + 1]).last_hidden_state.numpy()[0, kept]
        close(one.numpy()[b, kept], alone)


def test_hidden_words_change_nothing():
    model = tiny(models.BertModel)
    other = IDS.copy()
    other[1, 3:], other[2, 5:] = 9, 11
    a, b = model(IDS, valid_lens=LENS), model(other, valid_lens=LENS)
    for i, n in enumerate(LENS):
        assert (a.last_hidden_state.numpy()[i, :n] == b.last_hidden_state.numpy()[i, :n]).all()
    assert (a.pooler_output.numpy() == b.pooler_output.numpy()).all()


@pytest.mark.parametrize("kind", ["lengths", "holes", "none", "empty item"])
def test_skip_padding(kind):
    model = tiny(models.BertModel)
    types = RNG.integers(0, 2, IDS.shape)
    if kind == "lengths":
        call, kept = {"valid_lens": LENS}, prefix(LENS, 7)
    elif kind == "none":
        call, kept = {}, np.ones((3, 7), bool)
    elif kind == "empty item":
        call, kept = {"valid_lens": [2, 0, 2]}, prefix([2, 0, 2], 7)
    else:
        kept = RNG.random((3, 7)) < 0.6
        call = {"attention_mask": kept}
    full = model(IDS, token_type_ids=types, **call)
    weights = [w.numpy() for w in model.attention_weights]
    packed = model(IDS, token_type_ids=types, skip_padding=True, **call)
    hidden = packed.last_hidden_state.numpy()
    close(hidden[kept], full.last_hidden_state.numpy()[kept])
    assert (hidden[~kept] == 0).all()
    close(packed.pooler_output.numpy()[kept[:, 0]], full.pooler_output.numpy()[kept[:, 0]])
    for w, v in zip(model.attention_weights, weights, strict=True):
        close(w.numpy(), v * kept[:, None, :, None])


def test_skip_padding_has_the_same_gradients():
    G = RNG.standard_normal((3, 7, 32)) * prefix(LENS, 7)[..., None]
    found = []
    for skip in (False, True):
        model = tiny(models.BertModel)
        model(IDS, valid_lens=LENS, skip_padding=skip).last_hidden_state.backward(G)
        found.append({n: p.grad.numpy() for n, p in model.named_parameters() if not n.startswith("pooler")})
    for name, gradient in found[0].items():
        close(found[1][name], gradient, "float64 gradient")


def test_skip_padding_reads_nothing_of_padding():
    model = tiny(models.BertModel)
    table = model.embeddings.word_embeddings.weight.numpy().copy()
    table[29] = np.nan
    model.embeddings.word_embeddings.weight.copy_(table)
    ids = np.where(prefix(LENS, 7), IDS % 28 + 1, 29)
    assert np.isfinite(model(ids, valid_lens=LENS, skip_padding=True).last_hidden_state.numpy()).all()


def test_threads():
    model = tiny(models.BertModel, dtype="float32")
    same_bits_for_any_threads(lambda: model(IDS, valid_lens=LENS, skip_padding=True))


@pytest.mark.parametrize("act", ["relu", "gelu", "gelu_new"])
def test_slopes(act):
    """Slopes by differences of every parameter, through the mask."""
    model = tiny(models.BertForPreTraining, hidden_act=act)
    G = RNG.standard_normal((3, 7, 30)), RNG.standard_normal((3, 2))

    def value():
        words, follows = model(IDS, valid_lens=LENS)
        return (words * G[0]).sum() + (follows * G[1]).sum()

    value().backward()
    for name, p in model.named_parameters():
        start, direction = p.numpy().copy(), RNG.standard_normal(p.shape)
        if name.endswith("word_embeddings.weight"):
            direction[0] = 0  # padding's row is not learned by look-ups
        values = []
        for step in (1e-6, -1e-6):
            p.copy_(start + step * direction)
            values.append(value().item())
        p.copy_(start)
        np.testing.assert_allclose(
            (p.grad.numpy() * direction).sum(), (values[0] - values[1]) / 2e-6, 1e-5, 1e-5, err_msg=name
        )


def test_activations_differ():
    outputs = [tiny(models.BertModel, hidden_act=a)(IDS)[0].numpy() for a in ("relu", "gelu", "gelu_new")]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    assert 1e-7 < np.abs(outputs[1] - outputs[2]).max() < 0.1


@pytest.mark.parametrize("option", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_dropout_in_training_only(option):
    model = tiny(
        models.BertModel, **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, option: 0.5}
    )
    quiet = model(IDS).last_hidden_state.numpy()
    close(tiny(models.BertModel)(IDS).last_hidden_state, quiet)
    qkv.manual_seed(1)
    loud = model.train()(IDS).last_hidden_state.numpy()
    qkv.manual_seed(1)
    assert (model(IDS).last_hidden_state.numpy() == loud).all()
    assert np.abs(loud - quiet).max() > 1e-2


def test_a_new_model():
    qkv.manual_seed(3)
    config = models.BertConfig(**SIZES, initializer_range=0.5)
    model = models.BertForPreTraining(config)
    assert model.training
    state = {n: p.numpy() for n, p in model.named_parameters()}
    table = state["bert.embeddings.word_embeddings.weight"]
    assert (table[0] == 0).all()
    assert 0.45 < table[1:].std() < 0.55
    for name, values in state.items():
        if name.endswith("bias"):
            assert (values == 0).all(), name
        elif "LayerNorm" in name:
            assert (values == 1).all(), name
        elif values.size > 500:
            assert 0.4 < values.std() < 0.6, name
    qkv.manual_seed(3)
    again = models.BertForPreTraining(config)
    assert all((p.numpy() == state[n]).all() for n, p in again.named_parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize(
    "kind", [models.BertModel, models.BertForPreTraining, models.BertForTokenClassification]
)
def test_copies(kind, copied):
    model = kind(models.BertConfig(**SIZES, num_labels=5, hidden_act="relu")).eval()
    other = copied(model)
    assert type(other) is kind
    assert other.config == model.config
    assert not other.training
    a, b = model(IDS)[0], other(IDS)[0]
    assert type(model(IDS)) is type(other(IDS))
    assert (a.numpy() == b.numpy()).all()
    next(iter(other.parameters())).copy_(np.ones((30, 32)))
    assert np.abs(other(IDS)[0].numpy() - a.numpy()).max() > 1e-3


def test_the_decoder_is_the_table_of_words():
    model = tiny(models.BertForMaskedLM)
    state = parameters(models.BertForMaskedLM)
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    state["cls.predictions.decoder.bias"] = state.pop("cls.predictions.bias")
    before = model(IDS).logits.numpy()
    model.load_state_dict(state)
    assert (model(IDS).logits.numpy() == before).all()
    state["cls.predictions.decoder.weight"] = state["cls.predictions.decoder.weight"] + 1
    with pytest.raises(
        ValueError, match=r"decoder\.weight must equal bert\.embeddings\.word_embeddings\.weight"
    ):
        model.load_state_dict(state)


def test_a_part_can_be_replaced():
    model = tiny(models.BertModel)
    before = model(IDS)[0].numpy()
    new = qkv.nn.Linear(32, 32).to("float64")
    model.encoder.layer[0].attention.self.query = new
    assert np.abs(model(IDS)[0].numpy() - before).max() > 1e-4
    with pytest.raises(TypeError, match="query must be Linear"):
        model.encoder.layer[0].attention.self.query = qkv.nn.ReLU()


def test_layers_can_be_called():
    model = tiny(models.BertModel)
    states = model.hidden_states(IDS, valid_lens=LENS)
    close(model.encoder.layer[1](states[1], valid_lens=LENS), states[2])
    close(model.encoder.layer[1](states[1], attention_mask=prefix(LENS, 7)), states[2])
    close(
        np.tanh(model.pooler.dense(states[2].numpy()[:, 0]).numpy()),
        model(IDS, valid_lens=LENS).pooler_output,
    )


def test_weights_are_forgotten():
    model = tiny(models.BertModel)
    assert model.attention_weights == [None, None]
    with qkv.no_attention_record():
        model(IDS, valid_lens=LENS, skip_padding=True)
        assert model.attention_weights == [None, None]
    model(IDS)
    weights = model.attention_weights[1].numpy()
    close(weights.sum(-1), np.ones((3, 4, 7)))
    model.encoder.layer[0].attention.self.attention_weights = None
    assert model.attention_weights[0] is None
    assert models.BertModel(models.BertConfig(**SIZES), add_pooling_layer=False)(IDS).pooler_output is None


@pytest.mark.parametrize(
    ("ids", "call", "error", "text"),
    [
        ([1, 2, 3], {}, ValueError, r"input_ids must be \(B, L\)"),
        (np.ones((2, 0), int), {}, ValueError, r"with L at least 1; got input_ids \(2, 0\)"),
        (np.ones((2, 17), int), {}, ValueError, "at most max_position_embeddings = 16 positions"),
        ([[30]], {}, ValueError, r"ids must be in 0\.\.29"),
        ([[-1]], {}, ValueError, r"ids must be in 0\.\.29"),
        ([[1.5]], {}, TypeError, "input_ids"),
        (IDS, {"token_type_ids": [[0]]}, ValueError, r"token_type_ids must have the shape of input_ids \(3, 7\)"),
        (IDS, {"token_type_ids": np.full((3, 7), 2)}, ValueError, r"ids must be in 0\.\.1"),
        (IDS, {"valid_lens": [1, 2]}, ValueError, r"valid_lens must be \(B,\) = \(3,\) or \(B, L\)"),
        (IDS, {"valid_lens": [1, 2, 8]}, ValueError, "valid_lens must be from 0 to L = 7; got 8"),
        (IDS, {"attention_mask": np.ones((3, 6))}, ValueError, r"attention_mask must be \(B, L\) = \(3, 7\)"),
        (IDS, {"attention_mask": np.full((3, 7), -1e9)}, ValueError, "attention_mask must hold 1 for keys that count"),
        (IDS, {"valid_lens": np.ones((3, 7), int), "skip_padding": True}, ValueError, "skip_padding needs valid_lens"),
        (IDS, {"attention_mask": np.ones((3, 7, 7)), "skip_padding": True}, ValueError, "skip_padding needs"),
    ],
)  # fmt: skip
def test_rejections(ids, call, error, text):
    with pytest.raises(error, match=text):
        tiny(models.BertModel)(ids, **call)


@pytest.mark.parametrize(
    "name", ["BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForTokenClassification"]
)
@pytest.mark.parametrize("skip", [False, True])
def test_hidden_states_come_with_a_result(name, skip):
    sizes = {
        "vocab_size": 13,
        "hidden_size": 6,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 7,
    }
    model = getattr(qkv.models, name)(qkv.models.BertConfig(**sizes)).eval()
    ids, options = np.array([[2, 5, 7, 3], [2, 9, 0, 0]]), {"valid_lens": [4, 2], "skip_padding": skip}
    *result, states = model(ids, output_hidden_states=True, **options)
    result = [own for own in result if own is not None]
    for own, plain in zip(result, model(ids, **options), strict=True):
        np.testing.assert_array_equal(own, plain)
    body = model if name == "BertModel" else model.bert
    for own, state in zip(states, body.hidden_states(ids, **options), strict=True):
        np.testing.assert_array_equal(own, state)
    assert len(states) == 3
