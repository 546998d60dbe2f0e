"""The whole public interface called with anything: only our own errors come out, and no process dies."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .process import Process
from .statements import RandomChooser, made, public, statement

TARGETS = public()
EXAMPLES = 150 if "QKV_SANITIZER" in os.environ else 6000


class Drawn:
    """Choices of hypothesis, which makes what fails short."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def below(self, n: int) -> int:
        return self.draw(st.integers(0, n - 1))


@st.composite
def statements(draw: st.DrawFn) -> str:
    return statement(Drawn(draw), TARGETS)


def test_only_our_errors_come_out() -> None:
    """The same statements on every machine."""
    choose = RandomChooser(0)
    with Process() as process:
        for _ in range(EXAMPLES):
            text = statement(choose, TARGETS)
            wrong = process.run(text)
            assert wrong is None, f"{text}\n{wrong}"


@pytest.mark.skipif("QKV_FUZZ" not in os.environ, reason="new statements each time: QKV_FUZZ=1 asks for them")
def test_hypothesis_finds_nothing() -> None:
    """New statements, of which hypothesis shows the shortest that fails."""
    with Process() as process:

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(statements())
        def check(text: str) -> None:
            wrong = process.run(text)
            assert wrong is None, f"{text}\n{wrong}"

        check()


def test_the_fuzzer_reaches_the_whole_interface() -> None:
    names = {f"{t.receiver}.{t.expression}" if t.receiver else t.expression for t in TARGETS}
    for name in [
        "qkv.softmax",
        "qkv.nn.GRU",
        "qkv.Tensor.reshape",
        "qkv.optim.Adam",
        "qkv.masks.window",
        "qkv.data.pad",
    ]:
        assert name in names
    assert len(names) > 300


def test_plausible_arguments_make_every_class() -> None:
    choose = RandomChooser(1)
    classes = sorted({t.receiver for t in TARGETS if t.receiver})
    with Process() as process:
        for cls in classes:
            probes = [made(choose, cls, TARGETS) for _ in range(20)]
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
