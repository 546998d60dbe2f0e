"""Convolutions whose windows do not overlap: patches of a picture, as vision transformers take them."""

from __future__ import annotations

from typing import Any

from ..._errors import shown
from .._settings import constructor
from .._tensor import Tensor
from . import functional as F
from ._layers import Affine
from .parameter import UninitializedParameter


def _pair(value: Any) -> tuple[int, int]:
    first, second = value if isinstance(value, (tuple, list)) else (value, value)
    return int(first), int(second)


class Conv2d(Affine):
    """A linear map of each patch, ``(N, C, H, W)`` to ``(N, out_channels, H // k, W // k)``; the stride is the kernel.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Conv2d(3, 8, kernel_size=4, stride=4)(torch.ones(2, 3, 9, 16)).shape
    torch.Size([2, 8, 2, 4])
    """

    __init__ = constructor(
        "in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, "
        "padding_mode='zeros', device=None, dtype=None"
    )

    def _configure(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, bias: bool, **rest: Any
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        padded = rest["padding"] not in (0, (0, 0), "valid")
        if (
            self.stride != self.kernel_size
            or padded
            or _pair(rest["dilation"]) != (1, 1)
            or rest["groups"] != 1
        ):
            raise ValueError(
                "Conv2d: stride must be the kernel size, without padding, dilation or groups, because qkv.torch cuts "
                f"pictures into patches and knows no other convolution; got kernel "
                f"{shown(self.kernel_size)}, stride {shown(self.stride)}"
            )
        kind = {"device": rest["device"], "dtype": rest["dtype"]}
        self._add_weights(out_channels, in_channels, *self.kernel_size, bias=bias, **kind)

    def forward(self, input: Tensor) -> Tensor:
        """The patches' maps."""
        if len(input.shape) not in (3, 4) or input.shape[-3] != self.in_channels:
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

    def extra_repr(self) -> str:
        """The sizes."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        return text if self.bias is not None else f"{text}, bias=False"


class LazyConv2d(Conv2d):
    """A `Conv2d` whose channels are those of its first input, when its weights are drawn."""

    __init__ = constructor(
        "out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', "
        "device=None, dtype=None"
    )

    def _configure(self, out_channels: int, **rest: Any) -> None:  # type: ignore[override]
        Conv2d._configure(self, 0, 0, **rest)
        self.out_channels, self.weight = out_channels, UninitializedParameter(dtype=rest["dtype"])
        if self.bias is not None:
            self.bias = UninitializedParameter(dtype=rest["dtype"])

    def forward(self, input: Tensor) -> Tensor:
        """The patches' maps."""
        if isinstance(self.weight, UninitializedParameter):
            self.in_channels = input.shape[-3]
            self.weight.materialize((self.out_channels, self.in_channels, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        self.__class__ = Conv2d  # type: ignore[assignment]
        return Conv2d.forward(self, input)
