"""Reproduction of the attention documents: golden arrays, checks, and the runner of ``qkv reproduce``.

In a notebook::

    from qkv.reproduce import check, golden

    data = golden("D0-18")
    check.close("D0-18", "weights", weights, data["attention_weights"])

`golden` gives the stored arrays of one group by name, `check` compares and shows one line per comparison. A
check that fails is shown and recorded, it never raises: ``qkv reproduce`` collects the records. `trained` gives the
results of a training of minutes, `kept_tokens` the vocabulary of its model, `on_ranks` those of a program that runs on
several ranks of MPI, and `ranks_missing` says why none can run here. The module `panels` says what a figure must hold,
for ``check.picture``.
"""

from .._public import publish
from .arrays import Golden, golden
from .checks import Check, check
from .ranks import on_ranks, ranks_missing
from .trainings import kept_tokens, trained

__all__ = ["Check", "Golden", "check", "golden", "kept_tokens", "on_ranks", "ranks_missing", "trained"]

publish(__name__)
