"""The arguments of one call of attention on one rank: checked, agreed with the other ranks, cut into stretches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..functions.gradients import no_grad
from .agreed import agreed
from .formulas import captured, moved
from .ring import Reach, layout_of, whole_length
from .split import Stretch

OPERATION = "attention"
# Options of which each stretch of the sequence has its own part; all others mean the same for each.
_BY_STRETCH = {
    *("attn_mask", "is_causal", "enable_gqa", "valid_lens", "q_offset", "sinks", "dropout_keep"),
    *("score_mod", "mask_mod", "return_lse"),
}
Array = NDArray[Any]


def _data(value: Any) -> Array:
    return np.asarray(value.detach() if isinstance(value, _core.Tensor) else value)


def _floating(value: Any) -> Array:
    """Numbers in float32, or float64 where they are."""
    array = _data(value)
    return array if array.dtype == np.float64 else np.asarray(array, np.float32)


def _same(value: Any) -> Any:
    """Return what tells apart two values of an option, in a few bytes."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and len(value) <= 2:
        return tuple(_same(part) for part in value)
    array = np.ascontiguousarray(_data(value))
    return f"{array.dtype} {array.shape} {hashlib.blake2b(array.tobytes(), digest_size=6).hexdigest()}"


class Arguments:
    """What forward and backward pass read; arrays have the shapes of rank-4 inputs."""

    def __init__(self, query: Any, key: Any, value: Any, comm: Any, options: Mapping[str, Any]) -> None:
        self.comm, self.rank, self.ranks = comm, comm.Get_rank(), comm.Get_size()
        self.options = dict(options)
        self.passed_on = {name: value for name, value in options.items() if name not in _BY_STRETCH}
        given = [query, key, value, options["attn_mask"], options["sinks"]]
        self.captured: list[Any] = []  # Tensors that score_mod reads and that take a gradient
        self.any_tensor = any(isinstance(x, _core.Tensor) for x in given)
        facts = comm.on_all(lambda: self._prepare(given))
        everywhere = comm.agree(facts)
        self._lay_out(everywhere)

    # What this rank can tell by itself.
    def _prepare(self, given: list[Any]) -> dict[str, Any]:
        query, key, value, mask, sinks = given
        o = self.options
        q, k, v = _floating(query), _floating(key), _floating(value)
        halves = [_data(x).dtype for x in (query, key, value)]
        half = all(dtype.itemsize == 2 and dtype.kind in "fV" for dtype in halves)
        self.result_dtype = halves[-1] if half else None
        dtype = np.result_type(q, k, v)
        self._given_rank = q.ndim
        for name, x in (("query", q), ("key", k), ("value", v)):
            if x.ndim not in (2, 3, 4) or x.ndim != q.ndim:
                raise ValueError(
                    f"{OPERATION}: {name} must be (B, H, L, D), (B, L, D) or (L, D), of one rank with query {q.shape}; "
                    f"got {name} {x.shape}"
                )
        if o["normalizer"] in ("sparsemax", "entmax15"):
            raise ValueError(
                f'{OPERATION}: normalizer must be "softmax", "sigmoid" or "relu" because no rank has whole rows of '
                f'scores; got "{o["normalizer"]}"'
            )
        self.query, self.key, self.value = (np.asarray(self._lift(x), dtype) for x in (q, k, v))
        (B, H, Lq, D), (_, Hkv, Lk, Dv) = self.query.shape, self.value.shape
        if self.key.shape != (B, Hkv, Lk, D) or self.value.shape[0] != B:
            raise ValueError(
                f"{OPERATION}: key and value must be (B, H, Lk, D) and (B, H, Lk, Dv) with the B and D of query "
                f"{q.shape}; got key {k.shape} and value {v.shape}"
            )
        if Hkv != H and not o["enable_gqa"]:
            raise ValueError(
                f"{OPERATION}: key must have the {H} heads of query {q.shape} because enable_gqa is False; got key "
                f"{k.shape}"
            )
        if Hkv == 0 or H % Hkv:
            raise ValueError(f"{OPERATION}: key's heads must divide the {H} of query; got {Hkv}")
        self.sizes = (B, H, Hkv, D, Dv)
        self.sinks = None if sinks is None else np.asarray(_floating(sinks), np.float64)
        if self.sinks is not None and self.sinks.shape != (H,):
            raise ValueError(f"{OPERATION}: sinks must be (H,) = ({H},); got sinks {self.sinks.shape}")
        self.mask = self._mask("attn_mask", mask, dtype)
        self.keep = self._mask("dropout_keep", o["dropout_keep"], np.dtype(bool))
        self.lens = self._lens(o["valid_lens"], B, Lq)
        # An option that the kernels refuse is refused here, before a message is sent and without a draw.
        draws_nothing = np.ones((1,) * 4, bool) if o["dropout_p"] or self.keep is not None else None
        with no_grad():
            core: Any = _core.scaled_dot_product_attention
            core(
                *(np.zeros((B, h, 0, n), dtype) for h, n in ((H, D), (Hkv, D), (Hkv, Dv))),
                attn_mask=None,
                is_causal=o["is_causal"],
                enable_gqa=True,
                valid_lens=None,
                q_offset=o["q_offset"],
                sinks=self.sinks,
                dropout_keep=draws_nothing,
                return_weights=False,
                return_lse=o["return_lse"],
                **self.passed_on,
            )
        self.captured = captured(OPERATION, o, (B, H, Lq, Lk))
        self._given = [*given, *self.captured]
        self.any_tensor = self.any_tensor or bool(self.captured)
        self.inputs = [x for x in self._given if isinstance(x, _core.Tensor)]
        self.records = bool(_core.grad_enabled()) and any(_core.is_differentiable(x) for x in self.inputs)
        if self.records:  # what the caller may change before the backward pass
            arrays = (self.query, self.key, self.value)
            self.query, self.key, self.value = (
                x if isinstance(source, _core.Tensor) else x.copy()
                for x, source in zip(arrays, given, strict=False)
            )
            self.mask = self.mask if self.mask is None or isinstance(mask, _core.Tensor) else self.mask.copy()
            self.keep = None if self.keep is None else self.keep.copy()
        lens = o["valid_lens"]
        draws = o["dropout_p"] > 0 and o["dropout_keep"] is None
        return {
            "dtype": str(dtype),
            "sizes (B, H, Hkv, D, Dv)": self.sizes,
            **{name: _same(o[name]) for name in (*self.passed_on, "is_causal", "q_offset")},
            "sinks": _same(sinks),
            "valid_lens": _same(lens)
            if self.lens is None or (self.lens.shape[1] == 1 and self._one_for_all)
            else "(B, Lq)",
            "whether a gradient is wanted": self.records,
            "whether dropout_keep is given": o["dropout_keep"] is not None,
            "whether score_mod is given": o["score_mod"] is not None,
            "whether mask_mod is given": o["mask_mod"] is not None,
            "_lengths": (Lq, Lk),
            "_longest": None if self.lens is None else int(self.lens.max(initial=0)),
            "_keys of masks": [None if x is None else x.shape[3] for x in (self.mask, self.keep)],
            "_dropout_key": _core.default_generator().random64() if draws else None,
        }

    # What the ranks know together.
    def _lay_out(self, everywhere: list[dict[str, Any]]) -> None:
        o = self.options
        causal = bool(o["is_causal"])
        self.query_length, self.key_length = (
            whole_length(OPERATION, name, [facts["_lengths"][i] for facts in everywhere], causal)
            for i, name in enumerate(("query", "key"))
        )
        for rank, facts in enumerate(everywhere):
            for name, keys in zip(("attn_mask", "dropout_keep"), facts["_keys of masks"], strict=True):
                if keys not in (None, 1, self.key_length):
                    raise agreed(
                        ValueError(
                            f"{OPERATION}: {name} must be (..., Lq, Lk) with the Lk = {self.key_length} keys of all "
                            f"ranks; got {keys} keys on rank {rank}"
                        )
                    )
        longest = max(
            (facts["_longest"] for facts in everywhere if facts["_longest"] is not None), default=None
        )
        if longest is not None and longest > self.key_length:
            raise agreed(
                ValueError(
                    f"{OPERATION}: valid_lens must be from 0 to Lk = {self.key_length}, the keys of all ranks; got "
                    f"{longest}"
                )
            )
        self.dropout_key = everywhere[0]["_dropout_key"]
        offset = o["q_offset"]
        if o["is_causal"] == "lower_right":
            offset = self.key_length - self.query_length
        self.offset = np.asarray(0 if offset is None else _data(offset), np.int64)
        left, right = o["window"] or (-1, -1)
        offsets = self.offset if self.offset.size else np.zeros(1, np.int64)
        reach = Reach(
            (bool(o["is_causal"]), int(left), int(right)),
            (int(offsets.min()), int(offsets.max())),
            longest,
            o["masked_value"] is not None,
        )
        self.layout = layout_of(self.ranks, self.query_length, self.key_length, causal, reach)
        self.own_queries = self.layout.queries[self.rank]

    def block_options(self, queries: Stretch, keys: Stretch, rows: slice) -> dict[str, Any]:
        """Return the options of the kernels for a stretch of this rank's queries and one of any rank's keys.

        `rows` are the places of the queries among this rank's.
        """
        o = self.options
        columns = slice(keys.begin, keys.end)

        def part(mask: Array | None) -> Array | None:
            if mask is None:
                return None
            if mask.shape[2] != 1:
                mask = mask[:, :, rows]
            return np.ascontiguousarray(mask if mask.shape[3] == 1 else mask[..., columns])

        found: dict[str, Any] = dict(self.passed_on)
        found["is_causal"] = bool(o["is_causal"])
        found["q_offset"] = self.offset + (queries.begin - keys.begin)
        found["attn_mask"], found["dropout_keep"] = part(self.mask), part(self.keep)
        found["score_mod"], found["mask_mod"] = (
            moved(o[name], keys.begin) for name in ("score_mod", "mask_mod")
        )
        if self.lens is not None:
            lens = self.lens if self.lens.shape[1] == 1 else self.lens[:, rows]
            lens = np.clip(lens - keys.begin, 0, keys.size)
            found["valid_lens"] = np.ascontiguousarray(
                lens[:, 0] if lens.shape[1] == 1 and queries.size > 1 else lens
            )
        if self.dropout_key is not None and self.keep is None:
            found["dropout_key"], found["dropout_origin"] = self.dropout_key, (queries.begin, keys.begin)
        return found

    def rows(self, i: int) -> slice:
        """Return the places of a stretch of this rank's queries among them."""
        begin = sum(stretch.size for stretch in self.own_queries[:i])
        return slice(begin, begin + self.own_queries[i].size)

    # Between the shapes of the call and those of rank-4 inputs.
    def _lift(self, x: Array) -> Array:
        if self._given_rank == 4:
            return x
        return x[:, None] if self._given_rank == 3 else x[None, None]

    def shaped(self, x: Array) -> Array:
        """Drop the axes that the call's inputs do not have."""
        return x if self._given_rank == 4 else (x[:, 0] if self._given_rank == 3 else x[0, 0])

    def lifted_slopes(self, dys: Sequence[Any]) -> tuple[Array, Array | None]:
        B, H, _, _, Dv = self.sizes
        Lq = self.query.shape[2]
        dout = np.zeros((B, H, Lq, Dv), self.query.dtype) if dys[0] is None else self._lift(dys[0])
        dlse = self._lift(dys[1]) if len(dys) > 1 and dys[1] is not None else None
        return dout, dlse

    def gradients(self, *found: Array | None) -> list[Array | None]:
        """Return those of `inputs`, in their shapes."""
        return [
            None if x is None else x.reshape(given.shape)
            for x, given in zip(found, self._given, strict=True)
            if isinstance(given, _core.Tensor)
        ]

    def result(self, out: Array) -> Array:
        return out if self.result_dtype is None else out.astype(self.result_dtype)

    def _mask(self, name: str, mask: Any, dtype: np.dtype[Any]) -> Array | None:
        if mask is None:
            return None
        array = _data(mask)
        boolean = array.dtype == np.bool_
        if not boolean and (dtype == np.bool_ or array.dtype.kind in "iu"):
            wanted = "boolean" if dtype == np.bool_ else "boolean (True = may attend) or floating (added)"
            raise TypeError(f"{OPERATION}: {name} must be {wanted}; got {name} of {array.dtype}")
        if array.ndim > self._given_rank:
            raise ValueError(
                f"{OPERATION}: {name} must have at most the {self._given_rank} axes of query; got {name} {array.shape}"
            )
        if self._given_rank == 3 and array.ndim == 3:
            array = array[:, None]
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        B, H, Lq, _ = self.query.shape
        for axis, wanted in enumerate((B, H, Lq)):
            if array.shape[axis] not in (1, wanted):
                raise ValueError(
                    f"{OPERATION}: {name} must broadcast to (B, H, Lq, Lk) = ({B}, {H}, {Lq}, Lk), this rank's queries "
                    f"and all keys; got {name} {_data(mask).shape}"
                )
        return array if boolean else np.asarray(array, dtype)

    def _lens(self, lens: Any, B: int, Lq: int) -> Array | None:
        if lens is None:
            return None
        array = _data(lens)
        # A rank with one query may have lengths for it, (B, 1), or for all queries, (B,).
        self._one_for_all = Lq > 1 or array.ndim == 0 or (array.ndim == 1 and self._given_rank > 2)
        if array.dtype.kind not in "iu":
            raise TypeError(f"{OPERATION}: valid_lens must be integers; got valid_lens of {array.dtype}")
        if array.ndim == 0 and self._given_rank == 2:
            array = array[None]
        if array.shape == (B,):
            array = array[:, None]
        elif self._given_rank == 2 and array.shape == (Lq,):
            array = array[None]
        if array.shape not in ((B, 1), (B, Lq)) or array.min(initial=0) < 0:
            raise ValueError(
                f"{OPERATION}: valid_lens must be (B,) = ({B},) or (B, Lq) = ({B}, {Lq}) numbers from 0; got "
                f"{_data(lens).shape}"
            )
        return array.astype(np.int64)
