"""Vision transformers: a body on the patches of an image."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Parameter, Tensor, linear, matmul
from ..._words.errors import shown
from ...functions.gradients import tensor
from ...functions.joining import concatenate
from ...random import randn
from ..architectures.configuration import Configuration
from .pretrained import PretrainedModel, split_states


class ImageModel(PretrainedModel):
    """A vision transformer; :func:`from_pretrained` makes it.

    An image ``(C, height, width)`` is cut into patches, each a row of a Linear layer; a learned row is before them.
    Called ``(pixel_values (B, C, height, width), *, interpolate_pos_encoding=False, output_hidden_states=False)``, it
    returns what :class:`PretrainedEncoder` returns, of ``N + 1`` rows for ``N`` patches. Images of another size than
    ``image_size`` have positions between the own ones with ``interpolate_pos_encoding``.

    References
    ----------
    Dosovitskiy et al., An Image is Worth 16x16 Words, 2021.

    Examples
    --------
    >>> sizes = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40)
    >>> entries = {"model_type": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, **sizes}
    >>> qkv.models.from_config(entries).eval()(np.zeros((2, 1, 8, 8))).last_hidden_state.shape
    (2, 5, 24)
    """

    def __init__(
        self,
        config: Configuration,
        head: str | None = None,
        *,
        values: bool = True,
        pooler: bool = True,
    ) -> None:
        super().__init__(config, head, values=values, pooler=pooler)
        width, channels = config.hidden_size, config.num_channels
        if channels < 1:
            raise ValueError(f"num_channels must be at least 1; got {channels}")
        self.size, self.patch = sides("image_size", config.image_size), sides("patch_size", config.patch_size)
        if self.size[0] % self.patch[0] or self.size[1] % self.patch[1]:
            raise ValueError(
                f"image_size must be divisible by patch_size; got image_size = {config.image_size}, "
                f"patch_size = {config.patch_size}"
            )
        self.grid = (self.size[0] // self.patch[0], self.size[1] // self.patch[1])
        count, area = self.grid[0] * self.grid[1], self.patch[0] * self.patch[1]
        self.cls_token = Parameter(np.zeros((1, 1, width), np.float32))
        first = 1
        if "distillation_token" in self.architecture.all_names(config, None):
            self.distillation_token = Parameter(np.zeros((1, 1, width), np.float32))
            first = 2
        # As large as rows of patches: digits are learned to 98 % in the time that 0.02 takes to 95 %.
        self.positions = Parameter(_drawn((1, count + first, width), values, 0.5))
        self.patch_weight = Parameter(
            _drawn((width, channels, *self.patch), values, (channels * area) ** -0.5)
        )
        self.patch_bias = Parameter(np.zeros(width, np.float32))

    def forward(
        self,
        pixel_values: Any,
        *,
        interpolate_pos_encoding: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        """Compute the rows of the patches after that of the whole, or what the head makes of them."""
        shape = self._shape(pixel_values, interpolate_pos_encoding)
        grid = (shape[2] // self.patch[0], shape[3] // self.patch[1])
        rows = concatenate([self._first(pixel_values), self._patches(pixel_values, shape, grid)], axis=1)
        hidden = self.body(inputs=rows + self._positions(grid), output_hidden_states=output_hidden_states)
        last, states = split_states(hidden, False)
        return self._finished(last, states)

    def _first(self, pixels: Any) -> Tensor:
        tokens = [self.cls_token, *([self.distillation_token] if hasattr(self, "distillation_token") else [])]
        rows: Tensor = concatenate([concatenate(tokens, axis=1)] * len(pixels), axis=0)
        return rows

    def _shape(self, pixels: Any, any_size: bool) -> tuple[int, ...]:
        channels = self.config.num_channels
        shape = tuple(np.shape(pixels))
        whole = (
            any_size and len(shape) == 4 and all(n >= p for n, p in zip(shape[2:], self.patch, strict=True))
        )
        if len(shape) != 4 or shape[1] != channels or (shape[2:] != self.size and not whole):
            raise ValueError(
                f"ImageModel: pixel_values must be (B, {channels}, {self.size[0]}, {self.size[1]}) as config says; got "
                f"pixel_values {shape}"
            )
        return shape

    def _patches(self, pixels: Any, shape: tuple[int, ...], grid: tuple[int, int]) -> Tensor:
        if not isinstance(pixels, Tensor):
            pixels = np.asarray(pixels, str(self.patch_weight.dtype))
        pixels = pixels[:, :, : grid[0] * self.patch[0], : grid[1] * self.patch[1]]
        cut = pixels.reshape((*shape[:2], grid[0], self.patch[0], grid[1], self.patch[1]))
        rows = cut.transpose((0, 2, 4, 1, 3, 5)).reshape((shape[0], grid[0] * grid[1], -1))  # (B, N, C P P)
        return linear(
            rows if isinstance(rows, Tensor) else tensor(rows),
            self.patch_weight.reshape((self.config.hidden_size, -1)),
            self.patch_bias,
        )

    def _positions(self, grid: tuple[int, int]) -> Tensor:
        """Return the positions of a grid of patches; of another one than the own between those, by cubic curves."""
        if grid == self.grid:
            return self.positions
        first = self.positions.shape[1] - self.grid[0] * self.grid[1]
        both = [cubic(new, old) for new, old in zip(grid, self.grid, strict=True)]
        weights = np.kron(*both).astype(str(self.positions.dtype))
        rows = matmul(tensor(weights), self.positions[:, first:])
        between: Tensor = concatenate([self.positions[:, :first], rows], axis=1)
        return between


def sides(name: str, value: Any) -> tuple[int, int]:
    """Return the height and the width that an entry names, as one number or two."""
    both = value if isinstance(value, (list, tuple)) else [value] * 2
    if len(both) != 2 or not all(type(n) is int for n in both):
        raise TypeError(f"{name} must be an integer or two; got {shown(value)}")
    if min(both) < 1:
        raise ValueError(f"{name} must be at least 1; got {shown(value)}")
    return both[0], both[1]


def cubic(new: int, old: int) -> np.ndarray:
    """Return (new, old): the weights of old places in new ones, by cubic convolution (a = -0.75)."""
    places = (np.arange(new) + 0.5) * old / new - 0.5
    weights = np.zeros((new, old))
    for shift in (-1, 0, 1, 2):
        near = np.floor(places).astype(int) + shift
        x = np.abs(places - near)
        inner, outer = (1.25 * x - 2.25) * x * x + 1, -0.75 * (((x - 5) * x + 8) * x - 4)
        np.add.at(weights, (np.arange(new), near.clip(0, old - 1)), np.where(x <= 1, inner, outer))
    return weights


def _drawn(shape: tuple[int, ...], values: bool, stddev: float) -> np.ndarray:
    return stddev * randn(*shape) if values else np.zeros(shape, np.float32)
