"""What PyTorch has for several processes is imported, answers that there are none, and is refused when it is called."""

from __future__ import annotations

import pytest

import qkv.torch as torch
import qkv.torch.distributed as dist
import qkv.torch.multiprocessing as mp
from qkv.torch.nn.parallel import DistributedDataParallel
from qkv.torch.utils.data.distributed import DistributedSampler


def test_there_is_one_process():
    assert torch.distributed is dist
    assert torch.multiprocessing is mp
    assert not dist.is_available()
    assert not dist.is_initialized()
    assert not isinstance(torch.nn.Linear(2, 3), DistributedDataParallel)


class Derived(DistributedDataParallel):
    def forward(self, x):
        return self.module(x)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("init_process_group", lambda: dist.init_process_group(backend="nccl", rank=0, world_size=2)),
        ("destroy_process_group", dist.destroy_process_group),
        ("get_world_size", dist.get_world_size),
        ("all_reduce", lambda: dist.all_reduce(torch.ones(2))),
        ("spawn", lambda: mp.spawn(print, nprocs=2, args=())),
        ("DistributedDataParallel", lambda: DistributedDataParallel(torch.nn.Linear(2, 3), device_ids=[0])),
        ("Derived", lambda: Derived(torch.nn.Linear(2, 3))),
        ("DistributedSampler", lambda: DistributedSampler([1, 2], shuffle=True)),
    ],
)
def test_a_call_says_that_there_is_one_process(name, call):
    with pytest.raises(RuntimeError, match=f"^{name}: qkv.torch computes in one process; qkv.distributed"):
        call()


@pytest.mark.parametrize("place", [dist, mp, torch.nn.parallel, torch.utils.data.distributed, torch.testing])
def test_other_names_are_missing(place):
    with pytest.raises(AttributeError, match=r"(outside qkv\.torch|qkv\.torch has no).*docs/torch\.md"):
        getattr(place, "reduce" + "_scatter")


def test_the_precision_of_products_is_kept_and_changes_nothing():
    x = torch.randn(50, 50)
    before = x @ x
    assert torch.get_float32_matmul_precision() == "highest"
    for precision in ("medium", "high", "highest"):
        torch.set_float32_matmul_precision(precision)
        assert torch.get_float32_matmul_precision() == precision
        assert torch.equal(x @ x, before)
    with pytest.raises(ValueError, match="precision must be 'highest', 'high' or 'medium'; got 'low'"):
        torch.set_float32_matmul_precision("low")


def test_the_kernel_of_attention_is_chosen_by_qkv():
    from qkv.torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(2, 3, 5, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    before = attend(q, q, q)
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        with sdpa_kernel(backends, set_priority=True):
            assert torch.equal(attend(q, q, q), before)
    assert torch.equal(sdpa_kernel(SDPBackend.MATH)(attend)(q, q, q), before)
    for wrong, text in (("flash", "backends must be of SDPBackend, or a list; got 'flash'"), ([0], "got 0")):
        with pytest.raises(TypeError, match=text), sdpa_kernel(wrong):
            pass
    theirs = pytest.importorskip("torch").nn.attention.SDPBackend
    assert {b.name: b.value for b in SDPBackend} == {b.name: int(b) for b in theirs.__members__.values()}
