"""What attention layers remember of their last call."""

from __future__ import annotations

from .. import _core


class no_attention_record:
    """Within this block attention layers keep nothing for ``attention_weights``.

    A layer otherwise holds the projected queries and keys of its last call, which is memory of the size of its input.

    Examples
    --------
    >>> attention = qkv.nn.SelfAttention(3, 2)
    >>> with qkv.nn.no_attention_record():
    ...     y = attention(np.ones((6, 3)))
    >>> attention.attention_weights is None
    True
    """

    def __enter__(self) -> None:
        self._before = _core.attention_record_off()
        _core.set_attention_record_off(True)

    def __exit__(self, *error: object) -> None:
        _core.set_attention_record_off(self._before)
