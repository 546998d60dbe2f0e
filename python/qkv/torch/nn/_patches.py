"""Convolutions whose windows do not overlap: patches of a picture, as vision transformers take them."""

from __future__ import annotations

from ..._words.errors import shown
from .._arguments import floating
from .._settings import constructor
from .._tensor import Tensor
from . import functional as F
from ._layers import Affine, Lazy


def _pair(value) -> tuple[int, int]:
    first, second = value if isinstance(value, (tuple, list)) else (value, value)
    return int(first), int(second)


_REST = (
    "kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', "
    "device=None, dtype=None"
)


class Conv2d(Affine):
    """A linear map of each patch, ``(N, C, H, W)`` to ``(N, out_channels, H // k, W // k)``; the stride is the kernel.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Conv2d(3, 8, kernel_size=4, stride=4)(torch.ones(2, 3, 9, 16)).shape
    torch.Size([2, 8, 2, 4])
    """

    __init__ = constructor(f"in_channels, out_channels, {_REST}")

    _shown = "=in_channels =out_channels kernel_size stride bias?"

    def _configure(self, in_channels, out_channels, kernel_size, stride, bias, kind, **rest) -> None:
        sizes = {"kernel_size": _pair(kernel_size), "stride": _pair(stride)}
        super()._configure(in_channels=in_channels, out_channels=out_channels, **sizes)
        padded = rest["padding"] not in (0, (0, 0), "valid")
        changed = padded or _pair(rest["dilation"]) != (1, 1) or rest["groups"] != 1
        if changed or self.stride != self.kernel_size:
            raise ValueError(
                "Conv2d: stride must be the kernel size, without padding, dilation or groups, because qkv.torch cuts "
                f"pictures into patches and knows no other convolution; got kernel "
                f"{shown(self.kernel_size)}, stride {shown(self.stride)}"
            )
        self._add_weights(out_channels, in_channels, *self.kernel_size, bias=bias, **kind)

    def forward(self, input) -> Tensor:
        """The patches' maps."""
        if len(floating("Conv2d", "input", input).shape) not in (3, 4) or input.shape[-3] != self.in_channels:
            raise RuntimeError(
                f"Conv2d: input must be (N, {self.in_channels}, H, W) or ({self.in_channels}, H, W); got "
                f"{tuple(input.shape)}"
            )
        x = input if len(input.shape) == 4 else input.unsqueeze(0)
        (h, w), (n, c, height, width) = self.kernel_size, x.shape
        rows, columns = height // h, width // w
        x = x[:, :, : rows * h, : columns * w].reshape(n, c, rows, h, columns, w)
        x = x.permute(0, 2, 4, 1, 3, 5).reshape(n, rows, columns, c * h * w)
        y = F.linear(x, self.weight.reshape(self.out_channels, -1), self.bias).permute(0, 3, 1, 2)
        return y if len(input.shape) == 4 else y[0]


class LazyConv2d(Lazy, Conv2d):
    """A `Conv2d` whose channels are those of its first input, when its weights are drawn."""

    __init__ = constructor(f"out_channels, {_REST}")
    _becomes, _sizes, _axis = Conv2d, ("in_channels", "out_channels"), -3

    def _configure(self, **given) -> None:  # type: ignore[override]
        super()._configure(in_channels=0, **given)
