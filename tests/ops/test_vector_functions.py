"""The vectorised functions over all magnitudes, in units of the last place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from levels import each_level, run_at

import qkv

# Twice the width is exact enough to judge by; for float64 that is the long double of x86.
WIDER = {"float32": np.float64, "float64": np.longdouble}
FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def magnitudes(dtype, count=40_009):
    info = np.finfo(dtype)
    random = np.random.default_rng(0)
    wide = 2.0 ** random.uniform(np.log2(float(info.smallest_normal)), np.log2(float(info.max)) - 1, count)
    usual = random.uniform(0, 100, count)
    return np.concatenate([wide, usual, random.uniform(0, 2, count)]).astype(dtype)


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps, reason="no wider type to compare with"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_last_places(name, dtype):
    x = magnitudes(dtype)
    if name != "log":
        x = np.concatenate([x, -x])
    y = getattr(qkv, name)(x)
    with np.errstate(over="ignore", under="ignore"):
        exact = FUNCTIONS[name](x.astype(WIDER[dtype]))
        normal = (np.abs(exact) >= np.finfo(dtype).smallest_normal) & (np.abs(exact) <= np.finfo(dtype).max)
        steps = np.abs(y[normal] - exact[normal]) / np.spacing(np.abs(exact[normal]).astype(dtype))
        assert steps.max() <= 2, x[normal][steps.argmax()]
        # infinities exactly, denormal numbers within their two last places
        np.testing.assert_allclose(
            y[~normal], exact[~normal].astype(dtype), rtol=0, atol=2 * np.finfo(dtype).smallest_subnormal
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)
    np.testing.assert_array_equal(qkv.exp(x), [np.inf, 0, np.nan, 1, 1])
    np.testing.assert_array_equal(qkv.log(x), [np.inf, np.nan, np.nan, -np.inf, -np.inf])
    np.testing.assert_array_equal(qkv.tanh(x), [1, -1, np.nan, 0, 0])
    np.testing.assert_array_equal(qkv.sigmoid(x), [1, 0, np.nan, 0.5, 0.5])
    assert qkv.exp(np.array([0.0, 1.0], dtype)).dtype == dtype
    assert np.isnan(qkv.log(np.array([-1.0], dtype))[0])


@pytest.mark.parametrize("name", [*FUNCTIONS, "gelu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_s_place_does_not_change_it(name, dtype):
    f, x = getattr(qkv, name), np.linspace(0.1, 9, 67).astype(dtype)
    whole = f(x)
    for start in (1, 3, 7, 50):
        assert f(x[start:].copy()).tobytes() == whole[start:].tobytes()


# Bit patterns in strides: every exponent of both signs, denormal numbers, infinities and NaN.
EVERY_EXPONENT = """
import json, math, sys
import numpy as np
import qkv

x = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
x = np.concatenate([x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)])
wide = x.astype(np.float64)
exact = {
    "exp": np.exp(wide),
    "log": np.log(wide),
    "tanh": np.tanh(wide),
    "sigmoid": 1 / (1 + np.exp(-wide)),
}
exact |= {name: getattr(np, name)(wide) for name in ("expm1", "log1p", "sinh", "cosh")}
worst = {}
for name, expected in exact.items():
    y = getattr(qkv, name)(x) if hasattr(qkv, name) else getattr(np, name)(qkv.tensor(x)).numpy()
    single = expected.astype(np.float32)
    assert (np.isnan(y) == np.isnan(single)).all(), name
    assert (y[np.isinf(single)] == single[np.isinf(single)]).all(), name
    finite = np.isfinite(single)
    steps = np.abs(y[finite] - expected[finite]) / np.spacing(np.abs(single[finite]))
    worst[name] = [float(steps.max()), float(x[finite][steps.argmax()])]
# erf stands in gelu(x) = x (1 + erf(x / sqrt(2))) / 2, which keeps all of its digits where x > 0.
some = x[(x > 0) & (x < 1e30)][::11]
expected = np.array([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in some.tolist()])
steps = np.abs(qkv.gelu(some) - expected) / np.spacing(expected.astype(np.float32))
worst["gelu"] = [float(steps.max()), float(some[steps.argmax()])]
json.dump({"level": qkv.config()["instruction_set"], "worst": worst}, sys.stdout)
"""


@each_level()
def test_every_exponent_at_every_level(level):
    done = run_at(level, EVERY_EXPONENT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["level"] == level
    for name, (steps, x) in result["worst"].items():
        assert steps <= 2, f"{name}({x}) is off by {steps} units of the last place"


# Odd functions, and those that are x times a share, keep the sign of 0.
ZEROS = """
import numpy as np
import qkv

for dtype in ("float32", "float64"):
    x = np.where(np.arange(19) % 2, 0.0, -0.0).astype(dtype)
    for name in ("sin", "tan", "sinh", "tanh", "erf", "expm1", "log1p", "sqrt", "gelu", "silu"):
        y = np.asarray(getattr(qkv, name)(x) if hasattr(qkv, name) else getattr(np, name)(qkv.tensor(x)))
        assert (y == 0).all() and (np.signbit(y) == np.signbit(x)).all(), [name, dtype]
    assert (np.signbit(qkv.gelu(x, "tanh")) == np.signbit(x)).all(), dtype
    assert np.isnan(qkv.tanh(np.full(19, np.nan, dtype))).all(), dtype
"""


@each_level()
def test_zeros_keep_their_sign_at_every_level(level):
    done = run_at(level, ZEROS)
    assert done.returncode == 0, done.stderr


# What is exact, with the signs of its zeros, as NumPy has it: steps, remainders, choices.
STEPS_AND_REMAINDERS = """
import numpy as np
import qkv.torch as torch
from qkv import _core

rng = np.random.default_rng(0)


def check(name, y, expected, *inputs):
    same = (y == expected) & (np.signbit(y) == np.signbit(expected)) | np.isnan(y) & np.isnan(expected)
    assert same.all(), [name, *(x[~same][:3] for x in (y, expected, *inputs))]


np.seterr(all="ignore")
for dtype in ("float32", "float64"):
    info = np.finfo(dtype)
    ends = [0, 0.1, 0.49999997, 0.49999999999999994, 0.5, 1.5, 2.5, 7, 2**22 + 0.5, 2**23 - 0.5, 2**24 + 2, 2**51 + 0.5]
    ends += [2**52 - 0.5, 2**53 + 2, info.smallest_subnormal, info.smallest_normal, info.max, np.inf, np.nan]
    numbers = [rng.standard_normal(5_003), np.round(20 * rng.standard_normal(5_003)), rng.choice(ends, 5_003)]
    numbers += [2.0 ** rng.uniform(np.log2(float(info.smallest_normal)), np.log2(float(info.max)), 5_003)]
    numbers = [(rng.choice([1, -1], 5_003) * x).astype(dtype) for x in numbers]
    for a in numbers:
        for name in ("floor", "ceil", "trunc", "round"):
            check(name, getattr(torch, name)(torch.tensor(a)).numpy(), getattr(np, name)(a), a)
        for b in numbers:
            for name in ("remainder", "fmod", "floor_divide"):
                y = getattr(torch, name)(torch.tensor(a), torch.tensor(b)).numpy()
                check(name, y, getattr(np, name)(a, b), a, b)
            chosen = rng.random(5_003) < 0.5
            for n in (1, 7, 16, 33, 5_003):
                y = torch.where(torch.tensor(chosen[:n]), torch.tensor(a[:n]), torch.tensor(b[:n])).numpy()
                check("where", y, np.where(chosen[:n], a[:n], b[:n]))
# Integers whose bits are those of a signalling NaN.
whole = np.full(7, 0x7FF0000000000001)
chosen = np.arange(7) % 2 == 0
for other in (whole, whole[:1]):
    y = torch.where(torch.tensor(chosen), torch.tensor(whole), torch.tensor(other)).numpy()
    assert (y == whole).all(), y
"""


@each_level()
def test_steps_and_remainders_at_every_level(level):
    done = run_at(level, STEPS_AND_REMAINDERS)
    assert done.returncode == 0, done.stderr


# Angles of all magnitudes and next to multiples of pi / 2, where the digits of the reduction show; powers whose
# logarithms are large; what <math.h> says of zeros, infinities, NaN and denormal numbers.
ANGLES_AND_POWERS = """
import json, sys
import numpy as np
import qkv

rng = np.random.default_rng(0)
worst = {}
special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan]
for dtype, wider in (("float32", np.float64), ("float64", np.longdouble)):
    info = np.finfo(dtype)

    def steps(y, exact):
        return np.abs(y - exact) / np.spacing(np.abs(exact).astype(dtype))

    wide = 2.0 ** rng.uniform(-100, 100, 20_011)
    near = rng.integers(-1_000_000, 1_000_000, 20_011) * np.pi / 2
    x = np.concatenate([wide, -wide, near, rng.uniform(-100, 100, 20_011)]).astype(dtype)
    for name in ("sin", "cos"):
        y, exact = getattr(qkv, name)(x), getattr(np, name)(x.astype(wider))
        worst[f"{name} {dtype}"] = float(steps(y, exact).max())
        t = qkv.tensor(x, requires_grad=True)
        getattr(qkv, name)(t).sum().backward()
        slope = np.cos(x.astype(wider)) if name == "sin" else -np.sin(x.astype(wider))
        worst[f"slope of {name} {dtype}"] = float(steps(t.grad.numpy(), slope).max())
        ends = getattr(qkv, name)(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0], dtype))
        assert np.isnan(ends[:3]).all()
        assert name == "cos" or (np.signbit(ends[3:]) == [True, False]).all()

    base = np.concatenate([2.0 ** rng.uniform(-30, 30, 20_011), 1 + rng.uniform(-1e-3, 1e-3, 20_011)]).astype(dtype)
    limit = 87 if dtype == "float32" else 700
    exponent = (rng.uniform(-limit, limit, len(base)) / np.maximum(np.abs(np.log(base)), 1e-3)).astype(dtype)
    base = np.concatenate([base, -rng.uniform(0.1, 9, 5_003).astype(dtype)])
    exponent = np.concatenate([exponent, rng.integers(-9, 9, 5_003).astype(dtype)])
    exact = np.power(base.astype(wider), exponent.astype(wider))
    normal = (np.abs(exact) > info.smallest_normal) & (np.abs(exact) < info.max)
    y = (qkv.tensor(base) ** qkv.tensor(exponent)).numpy()
    worst[f"power {dtype}"] = float(steps(y, exact)[normal].max())
    for number in (-1.0, 0.5, 2.0, 3.0):
        some = np.abs(base)
        exact = np.power(some.astype(wider), wider(number))
        normal = (exact > info.smallest_normal) & (exact < info.max)
        worst[f"power {number} {dtype}"] = float(steps((qkv.tensor(some) ** number).numpy(), exact)[normal].max())
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid([*special, info.smallest_subnormal], special))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    y = (qkv.tensor(a) ** qkv.tensor(b)).numpy()
    np.testing.assert_allclose(y, expected, rtol=4 * info.eps)
    assert (np.signbit(y) == np.signbit(expected))[~np.isnan(expected)].all()
    for number in (-1.0, 0.5, 2.0, 3.0):
        column = np.array(special, dtype)
        with np.errstate(all="ignore"):
            expected = np.power(column, np.full_like(column, number))
        np.testing.assert_allclose((qkv.tensor(column) ** number).numpy(), expected, rtol=4 * info.eps)
json.dump(worst, sys.stdout)
"""


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps, reason="no wider type to compare with"
)
@each_level()
def test_angles_and_powers_at_every_level(level):
    done = run_at(level, ANGLES_AND_POWERS)
    assert done.returncode == 0, done.stderr
    for name, steps in json.loads(done.stdout).items():
        assert steps <= (1.1 if "power" in name else 1.6), f"{name} is off by {steps} units of the last place"
