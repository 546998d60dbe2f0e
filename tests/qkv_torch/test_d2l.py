"""The classes of d2l's chapters: the same text with PyTorch, and against PyTorch's own layers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import qkv.torch

from .both import same

SOURCES = Path(qkv.torch.__file__).parent / "_d2l"
PARTS = ("training", "attention", "functions", "seq2seq")  # each needs those before


def book(torch):
    """The classes, for PyTorch made of the text with its import lines changed."""
    if torch is qkv.torch:
        return qkv.torch.d2l
    names: dict[str, object] = {"__name__": "book", "watched": lambda module, word, x, lead: x}
    for part in PARTS:
        text = (SOURCES / f"{part}.py").read_text(encoding="utf8")
        text = re.sub(r"^from \.\.?\w.*\n", "", text, flags=re.M)
        text = text.replace("from ... import torch", "import torch").replace(
            "from ...torch import", "from torch import"
        )
        exec(compile(text, part, "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


def slopes(torch, module, y):
    torch.manual_seed(9)
    (y * torch.randn(y.shape)).sum().backward()
    return {name: p.grad for name, p in module.named_parameters()}


@pytest.mark.parametrize("lens", [None, [2, 4], [[1, 3], [2, 4], [4, 0]][:2]])
@pytest.mark.parametrize("kind", ["dot", "additive", "heads"])
def test_attention(kind, lens):
    def program(torch):
        d2l = book(torch)
        torch.manual_seed(0)
        q, k, v = torch.randn(2, 2, 6), torch.randn(2, 4, 6), torch.randn(2, 4, 6)
        valid_lens = None if lens is None else torch.tensor(lens)
        if kind == "dot":
            attention, inner = d2l.DotProductAttention(dropout=0.5).eval(), "attention_weights"
        elif kind == "additive":
            attention, inner = d2l.AdditiveAttention(num_hiddens=8, dropout=0.1).eval(), "attention_weights"
        else:
            attention, inner = d2l.MultiHeadAttention(6, 3, 0.5, bias=True).eval(), "attention"
        q.requires_grad_()
        y = attention(q, k, v, valid_lens)
        weights = getattr(attention, inner)
        weights = weights if kind != "heads" else weights.attention_weights
        return y, weights, slopes(torch, attention, y), q.grad, str(attention)

    same(program)


def test_blocks():
    def program(torch):
        d2l, found = book(torch), []
        torch.manual_seed(0)
        x, lens = torch.randn(2, 5, 8), torch.tensor([3, 5])
        for module, args in (
            (d2l.PositionalEncoding(8, 0), (x,)),
            (d2l.PositionalEncoding(7, 0, max_len=6), (x[..., :7],)),
            (d2l.PositionWiseFFN(16, 4), (x,)),
            (d2l.AddNorm(8, 0), (x, x.sin())),
            (d2l.AddNorm([5, 8], 0), (x, x.sin())),
            (d2l.TransformerEncoderBlock(8, 16, 2, 0), (x, lens)),
            (d2l.TransformerEncoderBlock(8, 16, 4, 0, use_bias=True), (x, None)),
            (d2l.TransformerEncoder(20, 8, 16, 2, 2, 0), (torch.arange(10).reshape(2, 5), lens)),
            (d2l.ViTMLP(16, 8, 0), (x,)),
            (d2l.ViTBlock(8, 8, 16, 2, 0), (x,)),
            (d2l.ViTBlock(8, 8, 16, 2, 0, use_bias=True), (x, lens)),
            (d2l.PatchEmbedding(12, 4, 8), (torch.randn(2, 3, 12, 12),)),
            (d2l.PatchEmbedding((8, 12), (4, 6), 8), (torch.randn(2, 1, 8, 12),)),
        ):
            y = module(*args)
            found.append([y, str(module), slopes(torch, module, y) if y.requires_grad else None])
        return found

    same(program, rtol=1e-4, atol=1e-5)


def test_dropout_draws_as_there():
    def program(torch):
        d2l = book(torch)
        torch.manual_seed(0)
        encoder = d2l.TransformerEncoder(20, 8, 16, 2, 2, 0.3)
        return [encoder(torch.arange(10).reshape(2, 5), torch.tensor([3, 5])) for _ in range(2)]

    same(program, rtol=1e-4, atol=1e-5)


def test_a_vision_transformer_trains():
    def program(torch):
        d2l = book(torch)

        class Pictures(d2l.DataModule):
            def __init__(self, batch_size=8, rows=24):
                super().__init__()
                self.save_hyperparameters()
                self.X, self.y = torch.randn(rows, 1, 8, 8), torch.arange(rows) % 3
                self.X[:, 0, 0, 0] += self.y

            def get_dataloader(self, train):
                rows = slice(0, 16) if train else slice(16, None)
                return self.get_tensorloader((self.X, self.y), train, rows)

        torch.manual_seed(3)
        data = Pictures()
        model = d2l.ViT(8, 4, 8, 16, 2, 2, 0.1, 0.1, lr=0.1, num_classes=3)
        trainer = d2l.Trainer(max_epochs=3, gradient_clip_val=1)
        trainer.fit(model, data)
        return (
            trainer.train_losses,
            trainer.val_losses,
            dict(model.curves),
            model.hparams,
            data.hparams["rows"],
        )

    same(program, rtol=1e-4, atol=1e-5)


def test_sequences_to_sequences():
    def program(torch):
        d2l, nn = book(torch), torch.nn

        class Decoder(d2l.AttentionDecoder):
            def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
                super().__init__()
                self.attention = d2l.AdditiveAttention(num_hiddens, dropout)
                self.embedding = nn.Embedding(vocab_size, embed_size)
                self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
                self.dense = nn.LazyLinear(vocab_size)
                self.apply(d2l.init_seq2seq)

            def init_state(self, enc_outputs, enc_valid_lens):
                outputs, state = enc_outputs
                return outputs.permute(1, 0, 2), state, enc_valid_lens

            def forward(self, X, state):
                enc_outputs, hidden, lens = state
                outputs, self._weights = [], []
                for x in self.embedding(X).permute(1, 0, 2):
                    context = self.attention(hidden[-1].unsqueeze(1), enc_outputs, enc_outputs, lens)
                    x = torch.cat((context, x.unsqueeze(1)), dim=-1)
                    out, hidden = self.rnn(x.permute(1, 0, 2), hidden)
                    outputs.append(out)
                    self._weights.append(self.attention.attention_weights)
                outputs = self.dense(torch.cat(outputs, dim=0))
                return outputs.permute(1, 0, 2), [enc_outputs, hidden, lens]

            @property
            def attention_weights(self):
                return self._weights

        class Copies(d2l.DataModule):
            def __init__(self):
                self.batch_size = 4
                src = torch.randint(3, 10, (12, 6))
                src[:, 5] = 0
                lens = torch.full((12,), 5)
                start = torch.ones(12, 1, dtype=torch.int64)
                self.tensors = (src, torch.cat((start, src[:, :-1]), 1), lens, src)

            def get_dataloader(self, train):
                return self.get_tensorloader(self.tensors, train)

        torch.manual_seed(0)
        data = Copies()
        encoder = d2l.Seq2SeqEncoder(10, 6, 8, 2, 0.1)
        d2l.check_shape(encoder(data.tensors[0])[0], (6, 12, 8))
        model = d2l.Seq2Seq(encoder, Decoder(10, 6, 8, 2), tgt_pad=0, lr=0.02)
        trainer = d2l.Trainer(max_epochs=3, gradient_clip_val=1)
        trainer.fit(model, data)
        model.eval()
        tokens, weights = model.predict_step(data.tensors, torch.device("cpu"), 6, True)
        return (
            trainer.train_losses,
            trainer.val_losses,
            tokens,
            torch.cat(weights[0], 1),
            model.curves["val_loss"],
        )

    same(program, rtol=1e-3, atol=1e-4)


def test_a_transformer_translates():
    def program(torch):
        d2l, nn = book(torch), torch.nn

        class TransformerDecoderBlock(nn.Module):
            def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, i):
                super().__init__()
                self.i = i
                self.attention1 = d2l.MultiHeadAttention(num_hiddens, num_heads, dropout)
                self.addnorm1 = d2l.AddNorm(num_hiddens, dropout)
                self.attention2 = d2l.MultiHeadAttention(num_hiddens, num_heads, dropout)
                self.addnorm2 = d2l.AddNorm(num_hiddens, dropout)
                self.ffn = d2l.PositionWiseFFN(ffn_num_hiddens, num_hiddens)
                self.addnorm3 = d2l.AddNorm(num_hiddens, dropout)

            def forward(self, X, state):
                outputs, lens, before = state
                seen = X if before[self.i] is None else torch.cat((before[self.i], X), dim=1)
                before[self.i] = seen
                causal = None
                if self.training:
                    batch, steps, _ = X.shape
                    causal = torch.arange(1, steps + 1, device=X.device).repeat(batch, 1)
                Y = self.addnorm1(X, self.attention1(X, seen, seen, causal))
                Z = self.addnorm2(Y, self.attention2(Y, outputs, outputs, lens))
                return self.addnorm3(Z, self.ffn(Z)), state

        class TransformerDecoder(d2l.AttentionDecoder):
            def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
                super().__init__()
                self.num_hiddens, self.num_blks = num_hiddens, num_blks
                self.embedding = nn.Embedding(vocab_size, num_hiddens)
                self.pos_encoding = d2l.PositionalEncoding(num_hiddens, dropout)
                self.blks = nn.Sequential()
                for i in range(num_blks):
                    self.blks.add_module(
                        "block" + str(i),
                        TransformerDecoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout, i),
                    )
                self.dense = nn.LazyLinear(vocab_size)

            def init_state(self, enc_outputs, enc_valid_lens):
                return [enc_outputs, enc_valid_lens, [None] * self.num_blks]

            def forward(self, X, state):
                X = self.pos_encoding(self.embedding(X) * self.num_hiddens**0.5)
                self._attention_weights = [[None] * len(self.blks) for _ in range(2)]
                for i, blk in enumerate(self.blks):
                    X, state = blk(X, state)
                    self._attention_weights[0][i] = blk.attention1.attention.attention_weights
                    self._attention_weights[1][i] = blk.attention2.attention.attention_weights
                return self.dense(X), state

            @property
            def attention_weights(self):
                return self._attention_weights

        class Reversed(d2l.DataModule):
            def __init__(self):
                self.batch_size = 8
                src = torch.randint(3, 9, (16, 5))
                lens = torch.arange(16) % 3 + 3
                src[torch.arange(5)[None] >= lens[:, None]] = 0
                label = src.flip(1)
                start = torch.ones(16, 1, dtype=torch.int64)
                self.tensors = (src, torch.cat((start, label[:, :-1]), 1), lens, label)

            def get_dataloader(self, train):
                return self.get_tensorloader(self.tensors, train)

        torch.manual_seed(5)
        data = Reversed()
        encoder = d2l.TransformerEncoder(9, 8, 16, 2, 2, 0.2)
        decoder = TransformerDecoder(9, 8, 16, 2, 2, 0.2)
        model = d2l.Seq2Seq(encoder, decoder, tgt_pad=0, lr=0.01)
        trainer = d2l.Trainer(max_epochs=3, gradient_clip_val=1)
        trainer.fit(model, data)
        model.eval()
        tokens, weights = model.predict_step(data.tensors, torch.device("cpu"), 5, True)
        d2l.check_shape(weights[4][0][1], (32, 1, 5))
        scores = (trainer.train_losses, trainer.val_losses, tokens, encoder.attention_weights[1])
        return scores, [step[0][1] for step in weights], [step[1] for step in weights]

    same(program, rtol=1e-3, atol=1e-4)


def test_recurrent_layers_and_first_weights():
    def program(torch):
        d2l = book(torch)
        torch.manual_seed(0)
        x = torch.randn(5, 2, 4)
        net = d2l.GRU(4, 6, 2)
        net.apply(d2l.init_seq2seq)

        class Scores(d2l.Classifier):
            def __init__(self):
                super().__init__()
                self.net, self.lr = torch.nn.LazyLinear(3), 0.5

        model = Scores()
        model.apply_init([x], d2l.init_seq2seq)
        y = torch.arange(10).reshape(5, 2) % 3
        return (
            d2l.RNN(4, 6)(x),
            net(x, torch.ones(2, 2, 6)),
            model.loss(model(x), y),
            model.loss(model(x), y, averaged=False),
            model.accuracy(model(x), y),
            model.configure_optimizers().param_groups[0]["lr"],
        )

    same(program)


def test_helpers():
    d2l = qkv.torch.d2l

    class Settings(d2l.HyperParameters):
        def __init__(self, a, b=2, *, c=3):
            _hidden = local = a + b
            self.save_hyperparameters(ignore=["c"])
            assert local == _hidden

    settings = Settings(1)
    assert settings.hparams == {"a": 1, "b": 2, "local": 3}

    @d2l.add_to_class(Settings)
    def total(self):
        return self.a + self.b

    assert settings.total() == 3
    d2l.check_len([1, 2], 2)
    with pytest.raises(AssertionError, match="expected length 3"):
        d2l.check_len([1, 2], 3)
    with pytest.raises(AssertionError, match="expected shape"):
        d2l.check_shape(qkv.torch.ones(2), (3,))
    assert d2l.bleu("a b c d", "a b c d", k=3) == 1
    assert d2l.bleu("a b", "c d", k=1) == 0
    # one token short: exp(1 - 4 / 3); 2 of 3 single tokens, 1 of 2 pairs
    assert d2l.bleu("a b x", "a b c d", k=2) == pytest.approx(
        2.718281828 ** (-1 / 3) * (2 / 3) ** 0.5 * 0.5**0.25
    )
    for kind, call in (
        (d2l.Encoder, lambda m: m(1)),
        (d2l.Decoder, lambda m: m.init_state(1)),
        (d2l.AttentionDecoder, lambda m: m.attention_weights),
        (d2l.DataModule, lambda m: m.train_dataloader()),
        (d2l.Module, lambda m: m.loss(1, 1)),
    ):
        with pytest.raises(NotImplementedError, match="must define"):
            call(kind())


def test_functions():
    def program(torch):
        d2l = book(torch)
        torch.manual_seed(0)
        x, y = d2l.rand(4, 5), d2l.reshape(d2l.arange(6, dtype=d2l.float32), (2, -1))
        kernel = d2l.astype(d2l.exp(-(y**2)) > 0.5, d2l.int32)
        return (
            kernel,
            kernel / d2l.reduce_sum(kernel, 0),
            d2l.concat([x, x], 0),
            d2l.batch_matmul(d2l.ones((2, 1, 3)), d2l.zeros((2, 3, 2))),
            *(d2l.reduce_mean(x), d2l.reduce_sum(x), d2l.argmax(x, 1), d2l.size(x)),
            *(d2l.transpose(y), d2l.swapaxes(y, 0, 1), d2l.expand_dims(y, 1), d2l.repeat(y, 2, 1)),
            d2l.numpy(d2l.tensor([1.5], requires_grad=True)).tolist(),
        )

    same(program)


def test_pictures_of_the_book(monkeypatch):
    plt, d2l = pytest.importorskip("matplotlib.pyplot"), qkv.torch.d2l
    monkeypatch.setitem(plt.rcParams, "figure.figsize", (6.4, 4.8))
    d2l.use_svg_display()
    d2l.set_figsize((2, 3))
    assert d2l.plt is plt
    assert plt.rcParams["figure.figsize"] == [2, 3]
    with pytest.raises(AttributeError, match="MTFraEng is a download, and qkv makes none; write a"):
        d2l.MTFraEng(batch_size=2)


def test_they_agree_with_pytorchs_layers():
    torch, d2l = qkv.torch, qkv.torch.d2l
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    block = d2l.TransformerEncoderBlock(8, 16, 2, 0, use_bias=True)
    lens = torch.tensor([3, 5])
    y, attention = block(x, lens), block.attention
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0, batch_first=True)
    heads = [attention.W_q, attention.W_k, attention.W_v]
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(torch.cat([W.weight for W in heads]))
        layer.self_attn.in_proj_bias.copy_(torch.cat([W.bias for W in heads]))
    for ours, theirs in (
        (attention.W_o, layer.self_attn.out_proj),
        (block.ffn.dense1, layer.linear1),
        (block.ffn.dense2, layer.linear2),
        (block.addnorm1.ln, layer.norm1),
        (block.addnorm2.ln, layer.norm2),
    ):
        theirs.load_state_dict(ours.state_dict())
    padding = torch.arange(5)[None] >= lens[:, None]
    assert torch.allclose(y, layer(x, src_key_padding_mask=padding), atol=1e-5)
