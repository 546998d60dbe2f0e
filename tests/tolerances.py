"""The one table of tolerances: (rtol, atol) by what is compared."""

from __future__ import annotations

TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11),  # another order of summation
    "float64 gradient": (1e-8, 1e-10),
    "float64 numeric slope": (1e-6, 1e-8),  # central differences lose half of the digits
    "float32": (1e-5, 2e-6),
    "float32 deep": (1e-5, 1e-5),  # logits and losses after several layers
    "float32 gradient": (1e-4, 1e-5),
    "float16": (2e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
    "same formula": (1e-12, 1e-14),  # two float64 computations of the same order
}
