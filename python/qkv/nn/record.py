"""What attention layers remember of their last call."""

from __future__ import annotations

from .. import _core
from ..functions.grad_mode import Switch


class no_attention_record(Switch):
    """Within this block attention layers keep nothing for ``attention_weights``.

    A layer otherwise holds the projected queries and keys of its last call, which is memory of the size of its input.

    Examples
    --------
    >>> attention = qkv.nn.SelfAttention(3, 2)
    >>> with qkv.no_attention_record():
    ...     y = attention(np.ones((6, 3)))
    >>> attention.attention_weights is None
    True
    """

    def __init__(self) -> None:
        super().__init__(_core.attention_record_off, _core.set_attention_record_off, True)
