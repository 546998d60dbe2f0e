"""flex_attention with PyTorch's block masks and formulas: against PyTorch's own, and gradients of any order."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import flex_attention as pytorchs  # noqa: E402
from torch.nn.attention.flex_attention import BlockMask, create_block_mask  # noqa: E402

from qkv.pytorch import flex_attention, scaled_dot_product_attention  # noqa: E402

from .flex_cases import (  # noqa: E402
    LK,
    LQ,
    MASKS,
    SCORES,
    B,
    D,
    H,
    activations,
    alibi,
    causal,
    exponentials,
    gated,
    inputs,
    parameters,
    reference,
    trained_cap,
)

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.float64: {"rtol": 1e-9, "atol": 1e-9}}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def block_mask(mask_mod, queries=LQ, keys=LK, batch=B, heads=H, size=128):
    return create_block_mask(mask_mod, batch, heads, queries, keys, device="cpu", BLOCK_SIZE=size)


def same(found, expected):
    torch.testing.assert_close(found, expected, **TOLERANCE[found.dtype])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore:return_lse is deprecated")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("made", SCORES, ids=lambda f: f.__name__)
def test_scores_are_those_of_pytorch(made, dtype):
    q, k, v = inputs(dtype)
    score_mod = made(parameters(dtype))
    expected, lse = pytorchs.flex_attention(q, k, v, score_mod, block_mask(causal), return_lse=True)
    found = flex_attention(q, k, v, score_mod, block_mask(causal), return_lse=True)
    same(found[0], expected)
    same(found[1], lse)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("mask_mod", MASKS, ids=lambda f: f.__name__)
def test_masks_are_those_of_pytorch(mask_mod):
    q, k, v = inputs()
    q = torch.randn(B, H, LK, D, dtype=torch.float64) if mask_mod.__name__ == "tree" else q
    mask = block_mask(mask_mod, q.shape[2])
    same(flex_attention(q, k, v, None, mask), pytorchs.flex_attention(q, k, v, None, mask))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("made", SCORES, ids=lambda f: f.__name__)
def test_gradients_arrive_at_inputs_and_at_what_formulas_capture(made, dtype):
    x, p = inputs(dtype, True), parameters(dtype, True)
    weights = torch.randn(B, H, LQ, D + 2, dtype=dtype), torch.randn(B, H, LQ, dtype=dtype)

    def total(results):
        return sum((y * w).sum() for y, w in zip(results, weights, strict=True))

    leaves = [*x, *p.values()]
    expected = torch.autograd.grad(
        total(reference(*(y.clone() for y in x), made(p), causal)), leaves, allow_unused=True
    )
    found = torch.autograd.grad(
        total(flex_attention(*x, made(p), block_mask(causal), return_lse=True)), leaves, allow_unused=True
    )
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            same(one, other)


@pytest.mark.parametrize(
    "made", [alibi, gated, trained_cap, activations, exponentials], ids=lambda f: f.__name__
)
def test_second_derivatives(made):
    names = ["slopes", "gate", "rows", "columns", "cap"]
    p = parameters(torch.float64, True)
    mask = block_mask(causal, 3, 4)

    def call(q, k, v, *captured):
        return flex_attention(q, k, v, made(dict(zip(names, captured, strict=True))), mask)

    q, k, v = inputs()
    x = [
        y.detach().contiguous().requires_grad_() for y in (q[:, :, :3, :2], k[:, :, :4, :2], v[:, :, :4, :1])
    ]
    x += [p[name] for name in names]
    assert torch.autograd.gradcheck(call, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, x, fast_mode=True)


def test_parameters_of_a_module_are_trained():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slopes = torch.nn.Parameter(torch.ones(H))
            self.bias = torch.nn.Embedding(8, H)

        def score(self, s, b, h, q, k):
            return s - self.slopes[h] * (q - k).abs() + self.bias.weight[(q - k).clamp(0, 7), h]

        def forward(self, q, k, v):
            return flex_attention(q, k, v, self.score)

    model, x = Attention(), inputs(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(*x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_what_a_formula_captures_is_read_at_each_call():
    q, k, v = inputs()
    slopes, mask = torch.ones(H, dtype=torch.float64), block_mask(causal)
    shift = 1.0

    def score_mod(s, b, h, q, k):
        return s - slopes[h] * (q - k) * shift

    before = flex_attention(q, k, v, score_mod, mask)
    slopes.mul_(2)
    same(flex_attention(q, k, v, score_mod, mask), reference(q, k, v, score_mod, causal).output)
    slopes, shift = slopes / 4, 4.0
    same(flex_attention(q, k, v, score_mod, mask), reference(q, k, v, score_mod, causal).output)
    assert not torch.allclose(flex_attention(q, k, v, score_mod, mask), before)


def test_grouped_heads_and_keys_of_one_batch_entry():
    q = torch.randn(B, 2 * H, LQ, D, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(1, H, LK, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    p = {"slopes": torch.rand(2 * H, dtype=torch.float64)}
    found = flex_attention(q, k, v, alibi(p), block_mask(causal, heads=None), 0.3, enable_gqa=True)
    expected = reference(q, k.expand(B, -1, -1, -1), v.expand(B, -1, -1, -1), alibi(p), causal, 0.3).output
    same(found, expected)
    weight = torch.randn_like(found)
    for one, other in zip(
        *(torch.autograd.grad((y * weight).sum(), (q, k, v)) for y in (found, expected)), strict=True
    ):
        same(one, other)


@pytest.mark.parametrize("size", [4, (4, 8), 128])
@pytest.mark.parametrize("heads", [1, H])
def test_blocks_without_a_mask_mod_are_the_mask(size, heads):
    rows, columns = (size, size) if isinstance(size, int) else size
    blocks = torch.rand(B, heads, -(-LQ // rows), -(-LK // columns)) < 0.6
    blocks[..., 0] = True
    order = torch.argsort((~blocks).int(), dim=-1, stable=True).int()
    mask = BlockMask.from_kv_blocks(
        blocks.sum(-1).int(), order, BLOCK_SIZE=size, seq_lengths=(LQ, LK), compute_q_blocks=False
    )
    dense = blocks.repeat_interleave(rows, 2).repeat_interleave(columns, 3)[:, :, :LQ, :LK]
    dense = dense.expand(B, H, LQ, LK)
    q, k, v = inputs()
    same(
        flex_attention(q, k, v, None, mask),
        reference(q, k, v, None, lambda b, h, i, j: dense[b, h, i, j]).output,
    )
    full = BlockMask.from_kv_blocks(
        torch.zeros_like(blocks.sum(-1)).int(), order, blocks.sum(-1).int(), order, BLOCK_SIZE=size,
        seq_lengths=(LQ, LK), compute_q_blocks=False,
    )  # fmt: skip
    same(flex_attention(q, k, v, None, full), flex_attention(q, k, v, None, mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_dtypes_are_computed_in_float32(dtype):
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs())
    p = {"slopes": torch.rand(H).to(dtype).requires_grad_()}
    y, lse = flex_attention(q, k, v, alibi(p), block_mask(causal), return_lse=True)
    assert (y.dtype, lse.dtype) == (dtype, torch.float32)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v, p["slopes"])]
    expected = reference(*wide[:3], alibi({"slopes": wide[3]}), causal).output
    torch.testing.assert_close(y, expected.to(dtype))
    y.float().sum().backward()
    expected.sum().backward()
    assert p["slopes"].grad.dtype == dtype
    torch.testing.assert_close(p["slopes"].grad, wide[3].grad.to(dtype), rtol=5e-2, atol=1e-2)


def test_scaled_dot_product_attention_takes_the_same_formulas():
    q, k, v = inputs(requires_grad=True)
    p = parameters(torch.float64, True)
    found = scaled_dot_product_attention(q, k, v, score_mod=alibi(p), mask_mod=causal)
    same(found, flex_attention(q, k, v, alibi(p), block_mask(causal)))
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), p["slopes"])[0],
        torch.autograd.grad(reference(q, k, v, alibi(p), causal).output.sum(), p["slopes"])[0],
    )


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_nothing_is_recorded_without_gradients(context):
    q, k, v = inputs(requires_grad=True)
    p = parameters(torch.float64, True)
    with context():
        y = flex_attention(q, k, v, alibi(p), block_mask(causal))
    assert not y.requires_grad
    same(y, reference(q, k, v, alibi(p), causal).output.detach())


def test_the_logarithm_can_be_asked_for_in_two_ways():
    q, k, v = inputs()
    y, lse = flex_attention(q, k, v, return_lse=True)
    z, aux = flex_attention(q, k, v, return_aux=pytorchs.AuxRequest(lse=True))
    assert torch.equal(y, z)
    assert torch.equal(lse, aux.lse)
    same(lse, reference(q, k, v).lse)
    assert flex_attention(q, k, v, return_aux=pytorchs.AuxRequest())[1] == pytorchs.AuxOutput()


def test_an_adjusted_block_mask_and_one_without_bounds():
    q, k, v = inputs()
    mask = block_mask(causal, 256, 256)._adjust(LQ, LK)
    same(flex_attention(q, k, v, None, mask), reference(q, k, v, None, causal).output)
    same(flex_attention(q, k, v, None, pytorchs._create_empty_block_mask(q, k)), reference(q, k, v).output)


Q, K, V = inputs()
REFUSED = {
    "axes": (lambda: flex_attention(Q[0], K, V), ValueError, r"query must be \(B, H, L, D\); got query \(3, 13, 5\)"),
    "lengths": (
        lambda: flex_attention(Q, K, V, None, block_mask(causal, 256, 256)), ValueError,
        r"block_mask must be of \(2, 3, 13, 17\) because query and key are; got \(2, 3, 256, 256\)"),
    "heads": (
        lambda: flex_attention(Q, K, V, None, block_mask(causal, heads=2)), ValueError,
        r"block_mask must be of \(2, 3, 13, 17\) because query and key are; got \(2, 2, 13, 17\)"),
    "part": (
        lambda: flex_attention(Q, K, V, None, block_mask(causal)[0]), ValueError,
        "block_mask must have a mask_mod; got a part of one, which has lost its own"),
    "no mask": (lambda: flex_attention(Q, K, V, None, causal), TypeError, "block_mask must be a BlockMask of PyTorch"),
    "option": (
        lambda: flex_attention(Q, K, V, kernel_options={"BLOCK": 3}), ValueError,
        "kernel_options must be PyTorch's; got 'BLOCK'"),
    "options": (lambda: flex_attention(Q, K, V, kernel_options=3), TypeError, "kernel_options must be a dict; got 3"),
    "both": (
        lambda: flex_attention(Q, K, V, return_lse=True, return_aux=pytorchs.AuxRequest(lse=True)), ValueError,
        "return_lse must be False where return_aux is given; got both"),
    "largest": (
        lambda: flex_attention(Q, K, V, return_aux=pytorchs.AuxRequest(max_scores=True)), NotImplementedError,
        "return_aux must be without max_scores on a CPU"),
    "device": (lambda: flex_attention(Q.to("meta"), K, V), TypeError, "on the CPU; got .* meta"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(name):
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_kernel_options_of_pytorch_change_nothing():
    assert torch.equal(flex_attention(Q, K, V, kernel_options={"BLOCK_M": 64}), flex_attention(Q, K, V))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_have_dtypes_of_pytorch(dtype):
    x = torch.randn(1, 2, 5, 4, dtype=dtype)

    def least(score, b, h, q_idx, kv_idx):
        assert (score.dtype, kv_idx.dtype, (q_idx > kv_idx).dtype) == (dtype, torch.int64, torch.bool)
        return torch.where(q_idx >= kv_idx, score, torch.finfo(score.dtype).min)

    expected = scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(flex_attention(x, x, x, least), expected)
