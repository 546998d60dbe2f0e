"""A small training loop: progress, history, clipping, accumulation, schedules, checkpoints that survive a kill.

Nothing here is needed to train: the README's four lines (loss, ``backward``, ``step``) are a training loop. This
package adds what a run of minutes or hours needs, and no more; schedules are in :mod:`qkv.optim`.
"""

from .._public import publish
from .checkpoint import CheckpointError, load_arrays, save_arrays
from .history import History
from .loss import token_loss
from .trainer import Trainer

__all__ = ["CheckpointError", "History", "Trainer", "load_arrays", "save_arrays", "token_loss"]

publish(__name__)
