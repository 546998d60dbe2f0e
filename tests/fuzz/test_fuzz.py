"""The whole public interface called with anything: only our own errors come out, and no process dies."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .process import Process
from .statements import RandomChooser, made, public, statement
from .torch_targets import public_torch

TARGETS = {"qkv": public(), "torch": public_torch()}
EXAMPLES = {"qkv": 6000, "torch": 8000}
if "QKV_SANITIZER" in os.environ:
    EXAMPLES = dict.fromkeys(EXAMPLES, 150)


class Drawn:
    """Choices of hypothesis, which makes what fails short."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def below(self, n: int) -> int:
        return self.draw(st.integers(0, n - 1))


@st.composite
def statements(draw: st.DrawFn) -> str:
    return statement(Drawn(draw), TARGETS[draw(st.sampled_from(sorted(TARGETS)))])


@pytest.mark.parametrize("names", TARGETS)
def test_only_our_errors_come_out(names: str) -> None:
    """The same statements on every machine."""
    choose = RandomChooser(0)
    with Process() as process:
        for _ in range(EXAMPLES[names]):
            text = statement(choose, TARGETS[names])
            wrong = process.run(text)
            assert wrong is None, f"{text}\n{wrong}"


@pytest.mark.skipif("QKV_FUZZ" not in os.environ, reason="new statements each time: QKV_FUZZ=1 asks for them")
def test_hypothesis_finds_nothing() -> None:
    """New statements, of which hypothesis shows the shortest that fails."""
    with Process() as process:

        @settings(
            max_examples=sum(EXAMPLES.values()),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(statements())
        def check(text: str) -> None:
            wrong = process.run(text)
            assert wrong is None, f"{text}\n{wrong}"

        check()


def test_the_fuzzer_reaches_the_whole_interface() -> None:
    every = [t for targets in TARGETS.values() for t in targets]
    names = {f"{t.receiver}.{t.expression}" if t.receiver else t.expression for t in every}
    for name in [
        "qkv.softmax",
        "qkv.nn.GRU",
        "qkv.Tensor.reshape",
        "qkv.optim.Adam",
        "qkv.masks.window",
        "qkv.data.pad",
        "torch.Tensor.view",
        "torch.Tensor.add_",
        "torch.Tensor.__setitem__",
        "torch.cat",
        "torch.norm",
        "torch.nn.LSTM.forward",
        "torch.nn.functional.pad",
        "torch.nn.functional.mse_loss",
        "torch.nn.init.xavier_uniform_",
        "torch.nn.utils.clip_grad_norm_",
        "torch.optim.lr_scheduler.StepLR",
        "torch.autograd.grad",
        "torch.utils.data.DataLoader",
    ]:
        assert name in names
    assert len(names) > 1200


@pytest.mark.parametrize("names", TARGETS)
def test_plausible_arguments_make_every_class(names: str) -> None:
    choose, targets = RandomChooser(1), TARGETS[names]
    classes = sorted({t.receiver for t in targets if t.receiver})
    with Process() as process:
        for cls in classes:
            probes = [made(choose, cls, targets, words=targets[0].words) for _ in range(20)]
            assert any(process.run(f"isinstance({text}, object) or missing") is None for text in probes), (
                probes
            )


def test_the_child_is_judged_rightly() -> None:
    with Process() as process:
        assert process.run("qkv.softmax(np.ones(3))") is None
        assert process.run("qkv.softmax(None)") is None
        assert process.run("{}['key']") == "KeyError: 'key'"
        assert process.run("np.float64(1) / np.float64(0)") is not None
        died = process.run("__import__('os').abort()")
        assert died is not None
        assert died.startswith("the process ended with -6")
        assert process.run("1 + 1") is None
