"""Recurrent layers, attention and Transformers as PyTorch's modules."""

import torch
from torch import nn

torch.manual_seed(11)
x = torch.randn(5, 2, 3)
gru = nn.GRU(3, 4, num_layers=2)
out, state = gru(x)
print(out, state, gru.weight_ih_l0.shape, [n for n, _ in gru.named_parameters()])
out.sum().backward()
print(gru.weight_hh_l1.grad[0], gru.bias_ih_l0.grad)
first = nn.GRU(3, 4, batch_first=True)
print(
    first(x.transpose(0, 1), torch.zeros(1, 2, 4))[0].shape,
    first(x[:, 0])[0].shape,
    nn.GRU(3, 4, bidirectional=True)(x)[0][0],
)
torch.manual_seed(12)
print(nn.GRU(3, 4, 2, dropout=0.5)(x)[0][0], nn.GRU(3, 4, bias=False)(x)[1])
lstm = nn.LSTM(3, 4, 2)
out, (h, c) = lstm(x)
print(out[-1], h[0], c[1], lstm(x, (h, c))[0][0])
rnn = nn.RNN(3, 4)
print(rnn(x)[1], nn.RNN(3, 4, nonlinearity="relu")(x)[0][2], nn.LSTM(3, 2, bidirectional=True)(x)[1][0])

y = torch.randn(2, 5, 8)
mha = nn.MultiheadAttention(8, 2, batch_first=True)
out, weights = mha(y, y, y)
print(out, weights[0], mha(y, y, y, average_attn_weights=False)[1].shape, mha(y, y, y, need_weights=False)[1])
padding = torch.tensor([[False, False, False, True, True], [False] * 5])
causal = torch.triu(torch.ones(5, 5), diagonal=1).bool()
out, weights = mha(y, y, y, key_padding_mask=padding, attn_mask=causal)
torch.set_printoptions(sci_mode=False)
print(out[0], weights, mha(y, y, y, attn_mask=causal, need_weights=False)[0][1])
torch.set_printoptions(profile="default")
print(
    mha(y, y, y, attn_mask=nn.Transformer.generate_square_subsequent_mask(5))[1][0],
    nn.Transformer.generate_square_subsequent_mask(3),
)
out.square().sum().backward()
print(
    mha.in_proj_weight.grad[0],
    mha.in_proj_bias.grad[:4],
    mha.out_proj.weight.grad[1],
    [n for n, _ in mha.named_parameters()],
)
print(
    nn.MultiheadAttention(8, 4)(x.new_ones(3, 2, 8), x.new_ones(4, 2, 8), x.new_ones(4, 2, 8))[1].shape,
    nn.MultiheadAttention(8, 2)(y[0], y[0], y[0])[0].shape,
)
cross = nn.MultiheadAttention(8, 2, kdim=3, vdim=5, batch_first=True, bias=False)
print(cross(y, torch.ones(2, 4, 3), torch.ones(2, 4, 5))[0][0, 0], cross)
torch.manual_seed(13)
drop = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
print(drop(y, y, y)[0][0, 0], drop(y, y, y, need_weights=False)[0][1, 1])
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
print(
    layer(y)[0, :2],
    layer.eval()(y)[0, :2],
    layer(y, src_mask=causal, src_key_padding_mask=padding)[1, 0],
    layer,
)
encoder = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", norm_first=True, batch_first=True),
    2,
    nn.LayerNorm(8),
)
print(encoder(y, mask=causal)[0, 0])
decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), num_layers=2)
print(decoder(y, y, tgt_mask=causal, memory_key_padding_mask=padding)[0, 0], decoder.eval()(y, y)[1, 1])
torch.manual_seed(14)
model = nn.Transformer(8, 2, 1, 2, 16)
z = model(torch.randn(4, 2, 8), torch.randn(3, 2, 8), tgt_mask=model.generate_square_subsequent_mask(3))
print(z, sum(p.numel() for p in model.parameters()))
z.sum().backward()
print(model.decoder.layers[1].linear1.weight.grad.abs().mean() < 1, len(model.state_dict()))
