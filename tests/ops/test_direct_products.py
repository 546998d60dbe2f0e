"""Products that are not packed: the bits of packed ones, from operands of any layout."""

from __future__ import annotations

from levels import FUSED, each_level, run_at

EVERY_REST = """
import numpy as np
import qkv

rng = np.random.default_rng(0)
qkv.set_reproducible(True)


def turned(x, turn):
    return qkv.tensor(x.T.copy()).T if turn else qkv.tensor(x)


for dtype, tolerance in (("float32", 2e-6), ("float64", 4e-15)):
    for depth in (1, 7, 16, 67, 523, 1031):
        for rows, columns in [(m, n) for m in (1, 2, 3, 5, 12, 13, 29) for n in (1, 2, 7, 9, 16, 17, 31, 33, 67)]:
            a, b = (rng.standard_normal(s).astype(dtype) for s in ((rows, depth), (depth, columns)))
            exact = a.astype("float64") @ b.astype("float64")
            with qkv.no_grad():  # of packed weights
                layer = qkv.nn.Linear(depth, columns, bias=False).to(dtype)
                layer.weight.copy_(b.T)
                packed = layer(a).numpy()
            for left in (False, True):
                for right in (False, True):
                    y = qkv.matmul(turned(a, left), turned(b, right)).numpy()
                    np.testing.assert_allclose(y, exact, 0, tolerance * depth)
                    assert y.tobytes() == packed.tobytes(), (dtype, depth, rows, columns, left, right)
print(qkv.config()["instruction_set"])
"""


@each_level(*FUSED)
def test_every_layout_gives_the_bits_of_packed_products(level):
    done = run_at(level, EVERY_REST)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == level
