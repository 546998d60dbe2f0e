"""What `qkv plan` predicts follows from rates, costs of messages and the jobs' shares; no test looks at a time."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from qkv import cli
from qkv.distributed import plan, starting
from qkv.distributed.plan import measuring, report
from qkv.distributed.plan.networks import Messages
from qkv.distributed.plan.rates import Line, fitted
from qkv.distributed.plan.sequence import WORKSPACE
from ranks.made_rates import BYTES, FLOPS, JOBS, RATES, work
from ranks.mpi import needs_mpi


@pytest.mark.parametrize("job", JOBS, ids=repr)
@pytest.mark.parametrize("network", ["here", "ethernet-10", "infiniband-hdr"])
def test_one_rank_neither_sends_nor_waits(job, network):
    step = job.step(1, RATES, network)
    assert (step.communication, step.waiting) == (0, 0)
    assert step.compute > 0
    assert step.efficiency(step) == 1


def test_a_training_counts_its_products():
    job = plan.Train(width=256, heads=4, layers=3, vocabulary=512, batch=6, length=101)
    rows = 6 * 101
    products = 6 * rows * (12 * 3 * 256**2 + 256 * 512) / FLOPS
    attention = 7 * 3 * 6 * 101**2 * 256 / FLOPS
    # Norms, sums, positions, activations, the loss, and the embedding's copies.
    others = (
        4 * rows * (3 * 256 * (2 + 2 + 2 + 4) + 256 + 512) / BYTES + 8 * (2 * rows * 256 + 512 * 256) / BYTES
    )
    assert math.isclose(job.step(1, RATES).compute, products + attention + others, rel_tol=1e-9)
    model = __import__("qkv").models.CausalLM(512, 256, 4, 3)
    assert job.parameters == model.num_parameters()


def test_an_embedding_counts_its_parameters():
    models = __import__("qkv").models
    job = plan.Embed(width=24, heads=3, layers=2, inner=40, vocabulary=31)
    config = models.BertConfig(vocab_size=31, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                               intermediate_size=40, max_position_embeddings=512)  # fmt: skip
    biases_and_norms = 2 * (4 * 24 + 40 + 24 + 4 * 24) + 2 * 24
    pooler = 24 * 24 + 24
    assert job.parameters == models.BertModel(config).num_parameters() - biases_and_norms - pooler


def test_causal_work_is_shared_evenly_and_is_half_of_all():
    half, whole = (plan.Attention(length=8192, causal=causal) for causal in (True, False))
    quick = plan.Network("quick", 0.0, 1e30)
    for ranks in (2, 4, 16):
        a, b = (job.step(ranks, RATES, quick, per_machine=1) for job in (half, whole))
        assert math.isclose(a.compute / b.compute, 0.5)
        assert a.waiting == 0
        assert a.communication < 1e-12
        assert a.compute < 1.3 * half.step(1, RATES).compute / ranks


@pytest.mark.parametrize(
    ("job", "latency"), [(plan.Train(width=512, batch=256), 0.05), (plan.Attention(length=1 << 15), 0.001)]
)
def test_the_time_falls_and_then_rises(job, latency):
    slow = plan.Network("slow", latency, bandwidth=1e9)
    times = [step.seconds for step in job.curve([2**i for i in range(13)], RATES, slow)]
    best = int(np.argmin(times))
    assert 0 < best < 12
    assert all(np.diff(times[: best + 1]) < 0)
    assert times[-1] > 1.5 * times[best]


def test_memory_of_a_split_sequence_falls_with_the_ranks():
    job = plan.Attention(length=262_144)
    few, more, many = (job.step(ranks, RATES).memory for ranks in (4, 8, 64))
    assert math.isclose((few - WORKSPACE) / (more - WORKSPACE), 2, rel_tol=1e-6)
    assert math.isclose((few - WORKSPACE) / (many - WORKSPACE), 16, rel_tol=1e-6)


def test_more_ranks_than_items_wait():
    job = plan.Train(batch=6)
    assert job.step(6, RATES, "infiniband-hdr").waiting == 0
    step = job.step(12, RATES, "infiniband-hdr")
    assert step.waiting > 0.9 * step.compute
    assert job.step(4, RATES).waiting > 0  # 2, 2, 1, 1
    assert plan.Embed(lines=256 * 4).step(3, RATES).waiting > 0


def test_messages_are_hidden_as_far_as_there_is_work():
    job = plan.Train(width=512, batch=64)
    exposed = [
        job.step(8, RATES, plan.Network("n", 0.0, 1e9, hidden), per_machine=1).communication
        for hidden in (0, 0.5, 1)
    ]
    whole = sum(4 * p.gradients / 4 for p in job.parts(8, lambda *a: 1.0)) * 2 * 7 / 8 / 1e9
    assert exposed[0] > whole
    assert math.isclose(exposed[1], (exposed[0] + exposed[2]) / 2, rel_tol=1e-6)
    assert 0 < exposed[2] < exposed[1]
    assert job.step(8, RATES, plan.Network("n", 0.0, 1e30, 1.0), per_machine=1).communication < 0.01 * whole


def test_sums_take_the_quickest_way():
    slow, quick = plan.Network("a", 1e-3, 1e9), plan.Network("b", 0.0, 1e9)
    size = 1 << 22
    for ranks in (2, 16, 1024):
        found = Messages(RATES, ranks, quick, 1).sum(size)
        assert 2 * (ranks - 1) / ranks * size / 1e9 <= found < 1.5 * 2 * size / 1e9
        rounds = math.log2(ranks)
        assert rounds * 1e-3 < Messages(RATES, ranks, slow, 1).sum(8) < 1.01 * rounds * 1e-3
    assert Messages(RATES, 4, None, 2).sum(size) == pytest.approx(1e-6 + 2e-10 * size)
    assert Messages(RATES, 2, slow, 2).shift(size) == pytest.approx(1e-6 + 2e-10 * size)  # on one machine
    assert Messages(RATES, 4, slow, 2).shift(size) == pytest.approx(1e-3 + 1e-9 * size)


def test_processes_that_share_cores_take_turns():
    assert RATES.seconds("copy", 1 << 20, at_once=3) == pytest.approx(1.5 * RATES.seconds("copy", 1 << 20))
    assert RATES.seconds("copy", 1 << 20, at_once=8) == pytest.approx(4 * RATES.seconds("copy", 1 << 20))
    here, apart = (plan.Embed().step(8, RATES, net, each) for net, each in (("here", 8), ("ethernet-25", 1)))
    assert here.compute == pytest.approx(4 * apart.compute)


def test_times_between_and_beyond_the_measured_sizes():
    for name, sizes in {"linear": (300, 333), "block": (700, 48), "copy": (123450,)}.items():
        assert RATES.seconds(name, *sizes) == pytest.approx(work(name, sizes), rel=1e-6)
    for name, sizes in {"linear": (8192, 4096), "causal": (65536, 256), "adam": (1 << 26,)}.items():
        assert RATES.seconds(name, *sizes) == pytest.approx(work(name, sizes), rel=1e-6)
    assert RATES.seconds("linear", 1, 64) == RATES.seconds("linear", 16, 64)  # a call's own cost


def test_latency_and_time_per_byte_are_found():
    line = fitted([[size, 3e-6 + 5e-10 * size] for size in (8, 1000, 10**6)])
    assert line == pytest.approx(Line(3e-6, 5e-10))
    assert fitted([[10, 1e-6], [1000, 1.2e-4]]).latency == 0
    assert fitted([[10, 2e-6], [1000, 1e-6]]).per_byte == 0


@pytest.mark.parametrize("job", JOBS, ids=repr)
@pytest.mark.parametrize("network", ["here", "ethernet-1", "infiniband-hdr"])
def test_the_reason_is_the_largest_loss(job, network):
    ranks, reason = job.limit(RATES, network)
    one, last, after = (job.step(n, RATES, network) for n in (1, ranks, 2 * ranks))
    assert last.efficiency(one) >= 0.5 > after.efficiency(one)
    losses = after.losses(one)
    assert losses[reason] == max(losses.values())
    assert sum(losses.values()) == pytest.approx(after.seconds - one.seconds / after.ranks)
    said = report.verdict(job, RATES, network, None)
    assert said.startswith(f"It scales to {ranks} rank")
    assert job.reasons[reason] in said


def test_a_job_that_nothing_stops():
    job = plan.Train(batch=1 << 20)
    quick = plan.Network("quick", 0.0, 1e30)
    assert job.limit(RATES, quick, per_machine=1, most=4) == (4, "most")


def test_a_sequence_ends_where_it_has_no_more_positions():
    with pytest.raises(ValueError, match=r"plan.Attention: ranks must be at most the length 7 .*; got 8"):
        plan.Attention(length=7).step(8, RATES)
    quick = plan.Network("quick", 0.0, 1e30)
    assert plan.Attention(length=2, causal=False).limit(RATES, quick, per_machine=1)[0] <= 2


def test_rates_come_back_from_their_file(tmp_path):
    path = tmp_path / "rates.json"
    RATES.save(path)
    found = plan.load_rates(path)
    assert found == RATES
    for job in JOBS:
        assert job.step(4, found) == job.step(4, RATES)


def test_the_rates_that_come_with_qkv_are_whole():
    rates = plan.load_rates()
    assert rates.cores == 2
    assert set(rates.pieces) == {1, 2, 4}
    for job in JOBS:
        assert all(math.isfinite(step.seconds) for step in job.curve([1, 2, 1024], rates, "ethernet-25"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda c: c.update(format="other"), "of the format 'qkv rates 1'; got 'other'"),
        (lambda c: c.pop("messages"), "lacks or garbles 'messages'"),
        (lambda c: c["pieces"]["2"].pop("adam"), "lacks or garbles 'adam'"),
        (lambda c: c["pieces"]["1"]["copy"].__setitem__(0, [[16384], -1.0]), "the times of copy"),
        (lambda c: c["pieces"]["1"]["linear"].pop(), "lacks or garbles"),
        (lambda c: c["messages"]["2"].update(sum_hidden=2), "the messages between 2 ranks"),
        (lambda c: c["messages"]["2"].pop("ring"), "lacks or garbles 'ring'"),
        (lambda c: c["messages"]["2"].update(ring=[[64, -1.0]]), "the rings of 2 ranks"),
        (lambda c: c["messages"]["2"].update(ring=[]), "the rings of 2 ranks"),
        (lambda c: c.update(network={"latency": 1e-6, "bandwidth": 1e9}), "lacks or garbles 'hidden'"),
        (lambda c: c.update(pieces={}), "lacks or garbles pieces"),
        (lambda c: c["pieces"]["1"]["copy"].__setitem__(0, [[0], 1.0]), "the times of copy"),
        (lambda c: c["pieces"]["1"]["copy"].__setitem__(0, [[16384], 1e300]), "the times of copy"),
        (
            lambda c: c["pieces"]["1"]["copy"].__setitem__(0, [[math.inf], 1.0]),
            "cannot convert float infinity",
        ),
        (lambda c: c["messages"]["2"].update(shift=[[8, math.nan]]), "the messages between 2 ranks"),
        (lambda c: c["messages"]["2"].update(sum=[]), "the messages between 2 ranks"),
        (lambda c: c["machine"].update(cores=0), "the cores of the machine"),
        (lambda c: c["machine"].pop("cpu"), "lacks or garbles 'cpu'"),
        (lambda c: c.update(start=math.nan), "the start"),
        (lambda c: c.update(network={"latency": 0, "bandwidth": 0, "hidden": 0}), "the network"),
    ],
)
def test_damaged_rates_are_named(tmp_path, damage, said):
    path = tmp_path / "rates.json"
    RATES.save(path)
    content = json.loads(path.read_text(encoding="utf8"))
    damage(content)
    path.write_text(json.dumps(content), encoding="utf8")
    with pytest.raises(ValueError, match=r"plan: rates must be .*") as error:
        plan.load_rates(path)
    assert said in str(error.value)
    for text in ("{", "[" * 100_000):
        path.write_text(text, encoding="utf8")
        with pytest.raises(
            ValueError, match=r"a file that `qkv plan measure` wrote; got .* which is no JSON"
        ):
            plan.load_rates(path)


def test_networks_are_read():
    found = plan.network("25 Gbit/s, 10 us")
    assert (found.bandwidth, found.latency) == (25e9 / 8, pytest.approx(1e-5))
    assert plan.network("1.5 GB/s,0.2ms") == plan.Network("1.5 GB/s,0.2ms", pytest.approx(2e-4), 1.5e9)
    assert plan.network("here") is None
    assert plan.network(found) is found
    for text in ("25 Gbit", "fast", "0 Gbit/s, 1 us", "10 us, 25 Gbit/s"):
        with pytest.raises(ValueError, match=r"plan: network must be here, ethernet-1, .*; got "):
            plan.network(text)
    with pytest.raises(ValueError, match="network must have a bandwidth above 0"):
        plan.network(plan.Network("none", 1e-6, 0.0))


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match=r"plan.Train: width must be at least 1; got 0"):
        plan.Train(width=0)
    with pytest.raises(TypeError, match=r"plan.Embed: lines must be an integer .*; got 1.5"):
        plan.Embed(lines=1.5)
    with pytest.raises(ValueError, match="plan: ranks must be at least 1; got -1"):
        plan.Train().step(-1, RATES)
    with pytest.raises(ValueError, match="plan: per_machine must be at least 1; got 0"):
        plan.Train().step(2, RATES, "ethernet-1", 0)
    with pytest.raises(ValueError, match=r"plan.measure: at_once must be at least 1; got 0"):
        plan.measure([0])
    with pytest.raises(ValueError, match=r"plan.measure: threads must be at least 1; got 0"):
        plan.measure([1], threads=0)
    with pytest.raises(ValueError, match=r"plan.measure: seconds must be above 0; got 0"):
        plan.measure([1], seconds=0)
    with pytest.raises(ValueError, match=r"plan.measure: repeats must be at least 1; got 0"):
        plan.measure([1], repeats=0)


def test_a_missing_launcher_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("MPIEXEC", raising=False)
    monkeypatch.setattr(starting.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(starting.shutil, "which", lambda *a, **k: None)
    with pytest.raises(
        ImportError,
        match=r'plan.measure: mpiexec must be installed .*; pip install "qkv\[distributed\]" mpich',
    ):
        plan.measure([2])
    monkeypatch.setattr(starting.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["plan", "measure", str(tmp_path / "r.json"), "--at-once", "2"]) == 2
    assert "qkv: plan.measure: mpi4py must be installed" in capsys.readouterr().err


def test_a_process_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(
        measuring, "_command", lambda *a: [measuring.sys.executable, "-X", "frozen_modules=off", "-c"]
    )
    with pytest.raises(RuntimeError, match=r"plan.measure: a process failed with status \d+: \w+"):
        plan.measure([1])


@needs_mpi
@pytest.mark.slow
def test_rates_are_measured_on_several_ranks(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    measure = plan.measure
    monkeypatch.setattr(plan, "measure", lambda counts, **more: measure(counts, **{**more, "seconds": 1e-5}))
    path = tmp_path / "rates.json"
    assert cli.main(["plan", "measure", str(path), "--at-once", "1,2", "--quick"]) == 0
    assert "1, 2 processes at once" in capsys.readouterr().out
    rates = plan.load_rates(path)
    assert set(rates.pieces) == {1, 2}
    assert set(rates.messages) == {2}
    assert rates.line("sum", 2).per_byte > 0
    assert rates.start > 0
    for job in JOBS:
        assert job.step(2, rates).seconds > 0


class TestCommand:
    def test_a_table_and_a_verdict(self, capsys):
        assert (
            cli.main(["plan", "train", "--ranks", "1,2,8", "--network", "25 Gbit/s, 10 us", "--batch", "8"])
            == 0
        )
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("train: an update, width 256, heads 4, layers 4, vocabulary 1000, batch 8")
        assert "2 ranks per machine, 25 Gbit/s, 10 us: 25 Gbit/s, 10 us" in lines[1]
        assert lines[2].split() == list(report.COLUMNS)
        assert [line.split()[0] for line in lines[3:6]] == ["1", "2", "8"]
        assert lines[6].startswith("It scales to ")

    @pytest.mark.parametrize("job", cli.PLANNED)
    def test_every_job_with_its_options(self, job, capsys):
        kind = {"train": plan.Train, "attention": plan.Attention, "embed": plan.Embed}[job]
        fields = [field.name for field in dataclasses.fields(kind) if field.name != "causal"]
        assert sorted(cli.PLANNED[job]) == sorted(fields)
        for name in fields:
            assert cli.main(["plan", job, f"--{name}", "48", "--ranks", "2", "--network", "here"]) == 0
            assert f"{name} 48" in capsys.readouterr().out

    def test_bidirectional_attention(self, capsys):
        assert cli.main(["plan", "attention", "--bidirectional", "--ranks", "4"]) == 0
        assert "causal False" in capsys.readouterr().out

    def test_two_networks_in_one_picture(self, tmp_path, capsys):
        pytest.importorskip("matplotlib")
        path = tmp_path / "curves.png"
        networks = ["--network", "ethernet-1", "--network", "infiniband-hdr"]
        assert cli.main(["plan", "embed", *networks, "--plot", str(path)]) == 0
        assert path.read_bytes().startswith(b"\x89PNG")
        out = capsys.readouterr().out
        assert out.count("It scales to ") == 2

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--network", "slow"], "qkv: plan: network must be here, ethernet-1"),
            (["--ranks", "0"], "qkv: plan: ranks must be at least 1; got 0"),
            (["--width", "-3"], "qkv: plan.Train: width must be at least 1; got -3"),
            (["--rates", "no such file"], "No such file or directory"),
        ],
    )
    def test_errors_in_one_line(self, arguments, said, capsys):
        assert cli.main(["plan", "train", *arguments]) == 2
        errors = capsys.readouterr().err
        assert said in errors
        assert errors.count("\n") == 1

    def test_an_unknown_job_is_named(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            cli.main(["plan", "bake"])
        assert "invalid choice: 'bake' (choose from" in capsys.readouterr().err
        with pytest.raises(SystemExit, match="2"):
            cli.main(["plan", "train", "--ranks", "1;2"])
        assert "must be whole numbers with commas between; got '1;2'" in capsys.readouterr().err


def test_the_picture_shows_every_curve():
    pytest.importorskip("matplotlib")
    job = plan.Train()
    curves = {name: job.curve([1, 2, 4], RATES, name) for name in ("ethernet-1", "here")}
    _, axes = report.picture({"training": curves, "again": curves})
    assert axes.shape == (2, 3)
    for (time, lost, efficiency), steps in zip(axes, [curves, curves], strict=True):
        for line, found in zip(time.lines, steps.values(), strict=False):
            np.testing.assert_allclose(line.get_ydata(), [step.seconds for step in found])
        np.testing.assert_allclose(
            lost.lines[0].get_ydata(), [100 * s.communication / s.seconds for s in steps["ethernet-1"]]
        )
        assert efficiency.lines[0].get_ydata()[0] == 100


def test_numbers_are_written_with_units():
    assert [report.duration(x) for x in (7200, 2.5, 0.0123, 4.2e-6)] == ["2 h", "2.5 s", "12.3 ms", "4.2 us"]
    assert [report.size(x) for x in (3e12, 2.5e9, 12345678, 4000)] == ["3 TB", "2.5 GB", "12.3 MB", "4 kB"]
