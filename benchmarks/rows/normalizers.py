"""Attention by other normalisers than softmax: time over that of softmax."""

from __future__ import annotations

from functools import partial

from registry import cost, row

from .options import Inputs, Options, compare, plain_inputs


def by(normalizer: str) -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"normalizer": normalizer}, 1.0


for _name, _goal in (("sigmoid", 1.15), ("relu", 1.0), ("sparsemax", 1.0), ("entmax15", 1.2)):
    for _backward in (False, True):
        row(
            f"normalizer: {_name}, forward{' + backward' if _backward else ''}",
            subject="normalizers",
            goals=[cost(_goal)],
        )(partial(compare, partial(by, _name), _backward))
