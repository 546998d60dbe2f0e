"""What people type who come from elsewhere, and what it is called here; ``_errors`` shows it.

A table gives for each foreign name pairs of what must exist and what to say; the first pair whose names all exist is
used. A name that qkv has itself needs no line.
"""

from __future__ import annotations

Habits = dict[str, list[tuple[frozenset[str], str]]]


def _renamed(origin: str, lines: str) -> Habits:
    """Read lines of ``theirs: ours``, several of each; which of ours is meant depends on what was called."""
    table: Habits = {}
    for line in lines.strip().splitlines():
        theirs, ours = line.split(":")
        for name in theirs.split():
            table[name] = [
                (frozenset([own]), f"did you mean {own} (called {name} in {origin})?") for own in ours.split()
            ]
    return table


def _said(*lines: tuple[str, str, str]) -> Habits:
    """Read (foreign names, names that must exist, what to say)."""
    table: Habits = {}
    for theirs, needed, text in lines:
        for name in theirs.split():
            table.setdefault(name, []).append((frozenset(needed.split()), text.replace("NAME", name)))
    return table


def _joined(*tables: Habits) -> Habits:
    joined: Habits = {}
    for table in tables:
        for name, habits in table.items():
            joined[name] = joined.get(name, []) + habits
    return joined


# Names of modules; one that exists elsewhere in qkv is found without a line.
NAMES = _joined(
    _renamed(
        "PyTorch",
        """
        cat concat: concatenate
        from_numpy as_tensor FloatTensor LongTensor: tensor
        mm bmm: matmul
        lr_scheduler StepLR LambdaLR: Schedule
        CosineAnnealingLR: CosineSchedule
        LinearLR: LinearSchedule
        ConstantLR: ConstantSchedule
        clip_grad_norm_: clip_grad_norm
        xavier_uniform_: xavier_uniform
        xavier_normal_: xavier_normal
        kaiming_uniform_: kaiming_uniform
        normal_: normal
        uniform_: uniform
        mse_loss: mse
        """,
    ),
    _renamed("NumPy", "array asarray: tensor"),
    _renamed("Keras", "Dense: Linear\nLayerNormalization: LayerNorm"),
    _said(
        ("CrossEntropyLoss", "", "it is a function: qkv.losses.cross_entropy(logits, targets)"),
        ("NLLLoss", "", "it is a function: qkv.losses.nll_loss(log_probs, targets)"),
        ("MSELoss mse_loss", "", "it is a function: qkv.losses.mse(predictions, targets)"),
        ("DataLoader", "", "batches are made by qkv.data.Batches"),
        ("functional", "", "functions stand in qkv and in qkv.losses"),
        ("Softmax", "", "it is a function: qkv.softmax(x)"),
        ("Sigmoid", "", "it is a function: qkv.sigmoid(x)"),
        ("LSTM RNN", "", "the recurrent layer is qkv.nn.GRU"),
        ("save", "", "write safetensors.numpy.save_file(layer.state_dict(), path), or pickle the layer"),
        ("load", "", "write layer.load_state_dict(safetensors.numpy.load_file(path)), or unpickle it"),
        ("device cuda", "", "everything is computed on the CPU"),
        ("sequence_mask", "", "it is qkv.masks.lengths(valid_lens, max_len)"),
        ("sum mean max min reshape transpose", "", "it is a method: t.NAME(...); np.NAME(t, ...) works, too"),
    ),
)
