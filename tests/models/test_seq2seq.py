"""Sequence to sequence: the documents' shapes, golden values, gradients and training, copies, rejections."""

from __future__ import annotations

import numpy as np
import pytest
from golden import golden
from helpers import close
from seq2seq_checks import DECODERS, batch, model_of

import qkv
from qkv import losses, models, nn, optim, reference
from qkv.models import EncoderDecoder, Seq2SeqAttentionDecoder, Seq2SeqDecoder, Seq2SeqEncoder

RNG = np.random.default_rng(83)


def our_name(name):
    """``dec_rnn.bias_hh_l0`` of the golden files to ``decoder.rnn.bias_hh_l0``."""
    if name.startswith(("enc_", "dec_")):
        return {"enc": "encoder.", "dec": "decoder."}[name[:3]] + name[4:]
    return "decoder." + (f"attention.{name}.weight" if name in ("W_q", "W_k", "w_v") else name)


def golden_model(group, decoder, layers):
    values = {our_name(n): v for n, v in group.params().items()}
    (V, E), H = values["encoder.embedding.weight"].shape, values["encoder.rnn.weight_hh_l0"].shape[1]
    target = values["decoder.embedding.weight"].shape[0]
    model = EncoderDecoder(Seq2SeqEncoder(V, E, H, layers), decoder(target, E, H, layers)).to("float64")
    model.load_state_dict(values)
    return model


def check_gradients(group, model, prefix=""):
    found = {n: p.grad for n, p in model.named_parameters()}
    names = group.names("grad")
    assert {our_name(n.removeprefix("grad." + prefix)) for n in names} == set(found)
    for name in names:
        group.close(name, found[our_name(name.removeprefix("grad." + prefix))])
    return len(names)


def train(model, group, before_step=lambda: None):
    """Return the losses before each of 60 steps of Adam."""
    optimizer, found = optim.Adam(model.parameters(), 0.01), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = losses.cross_entropy(model(group["src"], group["decoder_input"]), group["labels"])
        before_step()
        found.append(loss.item())
        loss.backward()
        optimizer.step()
    return found


def test_the_documents_shapes():
    encoder, decoder = Seq2SeqEncoder(10, 8, 16, 2), Seq2SeqAttentionDecoder(10, 8, 16, 2)
    X = qkv.tensor(np.zeros((4, 7), int))
    outputs, hidden = encoder(X)
    assert outputs.shape == (4, 7, 16)
    assert hidden.shape == (2, 4, 16)
    assert decoder.attention_weights == []
    output, state = decoder(X, decoder.init_state(encoder(X), None))
    assert output.shape == (4, 7, 10)
    assert state[0].shape == (4, 7, 16)
    assert state[1][0].shape == (4, 16)
    assert state[2] is None
    assert [w.shape for w in decoder.attention_weights] == [(4, 1, 7)] * 7


def test_golden_values_of_zeros():
    g = golden("D0-23")
    model = golden_model(g, Seq2SeqAttentionDecoder, 2).eval()
    outputs, hidden = model.encoder(g["X"])
    logits, state = model.decoder(g["X"], model.decoder.init_state((outputs, hidden), None))
    g.close("enc_outputs", outputs.numpy().swapaxes(0, 1))
    g.close("enc_state", hidden)
    g.close("logits", logits)
    g.close("state1", state[1])
    g.close("attention_weights", np.concatenate([w.numpy() for w in model.attention_weights], axis=1))


def test_golden_values_and_gradients_with_lengths():
    g = golden("D0-23")
    model = golden_model(g, Seq2SeqAttentionDecoder, 2)
    outputs, hidden = model.encoder(g["r.src"])
    logits, state = model.decoder(g["r.tgt"], model.decoder.init_state((outputs, hidden), g["r.lens"]))
    g.close("r.enc_outputs", outputs.numpy().swapaxes(0, 1))
    g.close("r.logits", logits)
    g.close("r.state1", state[1])
    np.testing.assert_array_equal(state[2], g["r.lens"])
    weights = np.concatenate([w.numpy() for w in model.decoder.attention_weights], axis=1)
    g.close("r.attention_weights", weights)
    assert all((weights[b, :, n:] == 0).all() for b, n in enumerate(g["r.lens"]))
    (logits * g["r.G"]).sum().backward()
    assert check_gradients(g, model, "r.") == 23


def test_the_seed_of_the_document_gives_its_parameters():
    g = golden("D0-23", "float32")
    qkv.manual_seed(0)
    model = EncoderDecoder(Seq2SeqEncoder(10, 8, 16, 2), Seq2SeqAttentionDecoder(10, 8, 16, 2))
    found = model.state_dict()
    for name, value in g.params().items():
        np.testing.assert_array_equal(found[our_name(name)], value, err_msg=name)


def test_training_without_attention():
    g = golden("D3-12")
    model = golden_model(g, Seq2SeqDecoder, 1)
    logits = model(g["src"], g["decoder_input"])
    g.close("initial_logits", logits)
    losses.cross_entropy(logits, g["labels"]).backward()
    assert check_gradients(g, model) == 12
    assert greedy(model, g["src"], 8)[0] == list(g["greedy_before"])
    free = []
    g.close("losses", train(model, g, lambda: free.append(free_running_loss(model, g))))
    g.close("free_running_losses", free)
    g.close("final_loss", losses.cross_entropy(model(g["src"], g["decoder_input"]), g["labels"]).item())
    tokens, log_probs = greedy(model, g["src"], 8)
    assert tokens == list(g["greedy_after"])
    g.close("greedy_after_logprobs", log_probs)


def test_training_with_attention():
    g = golden("D3-14")
    model = golden_model(g, Seq2SeqAttentionDecoder, 1)
    found = train(model, g)
    g.close("losses", found)
    assert found[20] < golden("D3-12")["losses"][20]
    logits = model(g["src"], g["decoder_input"])
    g.close("attention_weights", np.concatenate([w.numpy()[0] for w in model.attention_weights]))
    np.testing.assert_array_equal(logits.numpy()[0].argmax(-1), g["predicted"])


def steps(model, src, choose, count):
    """Decode one token at a time; choose(t, log-probabilities) gives the next one."""
    with qkv.no_grad():
        state, token = model.decoder.init_state(model.encoder(src), None), 1
        for t in range(count):
            logits, state = model.decoder([[token]], state)
            log_probs = qkv.log_softmax(logits.numpy())[0, 0]
            token = int(choose(t, log_probs))
            yield token, log_probs


def greedy(model, src, count):
    tokens, found = [], []
    for token, log_probs in steps(model, src, lambda t, p: p.argmax(), count):
        tokens.append(token)
        found.append(log_probs[token])
        if token == 2:
            break
    return tokens, found


def free_running_loss(model, g):
    found = [p for _, p in steps(model, g["src"], lambda t, p: p.argmax(), 5)]
    return -np.mean([p[label] for p, label in zip(found, g["labels"][0], strict=True)])


def attention_decoder_in_numpy(model, src, tgt, lens):
    """The formula, step by step."""
    s = {n: v.numpy() for n, v in model.state_dict().items()}
    encoder, decoder = ({n[8:]: v for n, v in s.items() if n.startswith(p)} for p in ("encoder.", "decoder."))
    rnns = [{n[4:]: v for n, v in part.items() if n.startswith("rnn.")} for part in (encoder, decoder)]
    outputs, hidden = reference.gru(rnns[0], encoder["embedding.weight"][src], valid_lens=lens)
    keys, logits = outputs @ decoder["attention.W_k.weight"].T, []
    for t in range(tgt.shape[1]):
        query = hidden[-1][:, None] @ decoder["attention.W_q.weight"].T
        context = reference.additive_attention(
            query, keys, outputs, decoder["attention.w_v.weight"][0], valid_lens=lens
        )
        x = np.concatenate([context, decoder["embedding.weight"][tgt[:, t : t + 1]]], axis=-1)
        y, hidden = reference.gru(rnns[1], x, hidden)
        logits.append(y @ decoder["dense.weight"].T + decoder["dense.bias"])
    return np.concatenate(logits, axis=1)


def test_attention_decoder_by_its_formula():
    model, (src, tgt, lens) = model_of(), batch()
    close(model(src, tgt, lens), attention_decoder_in_numpy(model, src, tgt, lens))
    close(model(src, tgt), attention_decoder_in_numpy(model, src, tgt, None))


@pytest.mark.parametrize("decoder", DECODERS)
def test_token_by_token_and_together_are_the_same(decoder):
    model, (src, tgt, lens) = model_of(decoder), batch()
    state = model.decoder.init_state(model.encoder(src, lens), lens)
    together, end = model.decoder(tgt, state)
    for grad in (True, False):
        before, parts = state, []
        for t in range(tgt.shape[1]):
            if grad:
                y, before = model.decoder(tgt[:, t : t + 1], before)
            else:
                with qkv.no_grad():
                    y, before = model.decoder(tgt[:, t : t + 1], before)
            parts.append(y.numpy())
        close(np.concatenate(parts, axis=1), together)
        close(before[1], end[1])


def test_keys_are_made_again_when_something_changes():
    model, (src, tgt, lens) = model_of(), batch(Tt=1)
    with qkv.no_grad():
        for _ in range(2):
            close(model(src, tgt, lens), attention_decoder_in_numpy(model, src, tgt, lens))
            model.decoder.attention.W_k.weight.copy_(model.decoder.attention.W_k.weight.numpy() * 2)
        model.encoder.embedding.weight.copy_(model.encoder.embedding.weight.numpy() * 2)
        close(model(src, tgt, lens), attention_decoder_in_numpy(model, src, tgt, lens))
        outputs, hidden = model.encoder(src, lens)
        first = model.decoder(tgt, model.decoder.init_state((outputs, hidden), lens))[0].numpy()
        changed = outputs.numpy().copy()
        second = model.decoder(tgt, model.decoder.init_state((changed, hidden), lens))[0].numpy()
        changed[:, 0] += 1
        third = model.decoder(tgt, model.decoder.init_state((changed, hidden), lens))[0].numpy()
    np.testing.assert_array_equal(second, first)
    assert np.abs(third - first).max() > 1e-6


@pytest.mark.parametrize("decoder", DECODERS)
def test_sequences_and_padding_do_not_matter(decoder):
    model, (src, tgt, _) = model_of(decoder), batch()
    lens = np.array([7, 2, 5])
    expected = model(src, tgt, lens).numpy()
    other = src.copy()
    for b, n in enumerate(lens):
        other[b, n:] = 12
        close(model(src[b : b + 1, :n], tgt[b : b + 1])[0], expected[b])
    np.testing.assert_array_equal(model(other, tgt, lens), expected)
    future = tgt.copy()
    future[:, 2:] = 0
    np.testing.assert_array_equal(model(src, future, lens)[:, :2], expected[:, :2])


@pytest.mark.parametrize("decoder", DECODERS)
def test_states_in_another_order(decoder):
    model, (src, tgt, lens) = model_of(decoder), batch()
    state = model.decoder.init_state(model.encoder(src, lens), lens)
    order = np.array([2, 2, 0, 1, 0])
    y = model.decoder(tgt[order], model.decoder.reorder_state(state, order))[0]
    close(y, model.decoder(tgt, state)[0].numpy()[order])
    without = model.decoder.init_state(model.encoder(src))
    assert model.decoder.reorder_state(without, [1])[2] is None
    with pytest.raises(
        ValueError,
        match=r"reorder: indices must be from 0 to 2 because axis . of .* has so many entries; got 3",
    ):
        model.decoder.reorder_state(state, [0, 3])
    with pytest.raises(ValueError, match=r"reorder_state: indices must be \(B,\); got indices \(1, 1\)"):
        model.decoder.reorder_state(state, [[0]])


def test_a_gradient_through_everything():
    """Slopes of a model with two layers, lengths and dropout masks held still."""
    model, (src, tgt, lens) = model_of(), batch(B=2, Ts=5, Tt=3)
    G = RNG.standard_normal((2, 3, 17))

    def value():
        return float((model(src, tgt, lens).numpy() * G).sum())

    (model(src, tgt, lens) * G).sum().backward()
    for name, p in model.named_parameters():
        start, direction, h = p.numpy().copy(), RNG.standard_normal(p.shape), 1e-6
        p.copy_(start + h * direction)
        up = value()
        p.copy_(start - h * direction)
        down = value()
        p.copy_(start)
        np.testing.assert_allclose(
            (p.grad.numpy() * direction).sum(), (up - down) / (2 * h), 1e-6, 1e-7, err_msg=name
        )
    assert isinstance(model.decoder.rnn, nn.GRU)


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.0), (2, 0.0), (3, 0.0), (5, 0.0), (2, 0.75), (5, 0.75)])
def test_beams_of_the_half_trained_model(beam, alpha):
    g = golden("D3-11")
    model = golden_model(g, Seq2SeqDecoder, 1)
    found = models.generate(
        model, g["src"], start_id=1, end_id=2, method="beam", beam_size=beam, length_penalty=alpha, max_len=4
    )[0]
    name = f"beam{beam}" if alpha == 0 else f"beam{beam}_alpha0.75"
    ids, score, attention = found[0]
    assert ids == list(g[f"{name}.best"])
    g.close(f"{name}.{'logp' if alpha == 0 else 'score'}", score)
    if alpha == 0:
        assert len(found) == g[f"{name}.finished"][0]
    assert attention is None


@pytest.mark.parametrize("decoder", DECODERS)
def test_generated_sentences_have_the_scores_that_the_model_gives_them(decoder):
    model, (src, _, lens) = model_of(decoder, 0.5), batch()
    found = models.generate(
        model, src, src_valid_lens=lens, start_id=1, end_id=2, method="beam", beam_size=3, max_len=5
    )
    assert model.training
    model.eval()
    for b, hypotheses in enumerate(found):
        for ids, score, attention in hypotheses:
            logits = model(src[b : b + 1], [[1, *ids[:-1]]], lens[b : b + 1]).numpy()[0]
            close(score, qkv.log_softmax(logits)[np.arange(len(ids)), ids].sum())
            if decoder is Seq2SeqAttentionDecoder:
                close(attention, np.concatenate([w.numpy()[0] for w in model.attention_weights]))
            else:
                assert attention is None
