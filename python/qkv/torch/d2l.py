"""The helpers of d2l's chapters on attention, by their names: ``from qkv.torch import d2l``.

Document 000 calls them ``utils``: ``from qkv.torch import d2l as utils``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import nn, optim
from ._creation import arange
from ._dtypes import CPU, device
from ._elementwise import as_numbers
from ._grad_mode import no_grad
from ._shaping import repeat_interleave
from ._tensor import Core, Tensor, plain, refuse_attribute
from .nn import functional as F


class Module(nn.Module):
    """A module with what `Trainer` asks for: a loss of each batch and an optimizer.

    A subclass defines ``loss(output, target)`` and ``configure_optimizers()``, or only a learning rate ``lr``.

    Examples
    --------
    >>> from qkv.torch import d2l, nn
    >>> class Line(d2l.Module):
    ...     def __init__(self, lr):
    ...         super().__init__()
    ...         self.lr = lr
    ...         self.net = nn.Linear(1, 1)
    ...
    ...     def loss(self, y_hat, y):
    ...         return nn.functional.mse_loss(y_hat, y)
    """

    def loss(self, y_hat: Any, y: Any) -> Any:
        """To be defined by the subclass."""
        raise NotImplementedError(f"{type(self).__name__} must define loss")

    def forward(self, *X: Any) -> Any:
        """Call ``self.net``."""
        if "net" not in self._modules:
            raise AttributeError(f"{type(self).__name__} must define net or forward")
        return self.net(*X)

    def training_step(self, batch: Sequence[Any]) -> Any:
        """Loss of a batch whose last entry is the target."""
        return self.loss(self(*batch[:-1]), batch[-1])

    def validation_step(self, batch: Sequence[Any]) -> Any:
        """As `training_step`."""
        return self.loss(self(*batch[:-1]), batch[-1])

    def configure_optimizers(self) -> Any:
        """Gradient descent with the learning rate ``self.lr``."""
        return optim.SGD(self.parameters(), lr=self.lr)


class Trainer:
    """A loop over epochs: ``fit(model, data)`` with ``data.train_dataloader()``, ``val_dataloader()`` if there is one.

    After each epoch the mean losses are in ``train_losses`` and ``val_losses``.
    """

    def __init__(self, max_epochs: int, num_gpus: int = 0, gradient_clip_val: float = 0) -> None:
        self.max_epochs, self.gradient_clip_val = max_epochs, gradient_clip_val
        self.train_losses: list[float] = []
        self.val_losses: list[float] = []

    def fit(self, model: Any, data: Any) -> None:
        """Train."""
        optimizer = model.configure_optimizers()
        for _ in range(self.max_epochs):
            model.train()
            losses = [self._step(model, optimizer, batch) for batch in data.train_dataloader()]
            self.train_losses.append(sum(losses) / max(len(losses), 1))
            if hasattr(data, "val_dataloader"):
                model.eval()
                with no_grad():
                    held_out = [float(model.validation_step(batch)) for batch in data.val_dataloader()]
                self.val_losses.append(sum(held_out) / max(len(held_out), 1))

    def _step(self, model: Any, optimizer: Any, batch: Any) -> float:
        loss = model.training_step(batch)
        optimizer.zero_grad()
        loss.backward()
        if self.gradient_clip_val > 0:
            nn.utils.clip_grad_norm_(list(model.parameters()), self.gradient_clip_val)
        optimizer.step()
        return float(loss)


def try_gpu(i: int = 0) -> device:
    """The CPU."""
    return CPU


def init_seq2seq(module: Any) -> None:
    """Xavier's initial values for the matrices of linear and recurrent layers, to be passed to ``apply``."""
    if type(module) is nn.Linear:
        nn.init.xavier_uniform_(module.weight)
    if type(module) is nn.GRU:
        for name in module._flat_weights_names:
            if "weight" in name:
                nn.init.xavier_uniform_(module._parameters[name])


def masked_softmax(X: Tensor, valid_lens: Tensor | None) -> Tensor:
    """Softmax over the first ``valid_lens`` keys of scores ``(B, Lq, Lk)``; lengths ``(B,)`` or ``(B, Lq)``.

    Excluded scores count as -1e6, so a length of 0 gives equal weights. Unlike d2l's it leaves the scores as they are.
    """
    if valid_lens is None:
        return F.softmax(X, dim=-1)
    lens = repeat_interleave(valid_lens, X.shape[1]) if valid_lens.dim() == 1 else valid_lens.reshape(-1)
    beyond = arange(X.shape[-1])[None, :] >= lens[:, None]
    return F.softmax(X.masked_fill(beyond.reshape(X.shape), -1e6), dim=-1)


def show_heatmaps(
    matrices: Any,
    xlabel: str | None = None,
    ylabel: str | None = None,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
    *,
    x_label: str | None = None,
    y_label: str | None = None,
) -> Any:
    """Draw ``(rows, columns, Lq, Lk)`` matrices; see :func:`qkv.plot.show_heatmaps`."""
    from ..plot import show_heatmaps as show

    return show(plain(matrices), xlabel or x_label, ylabel or y_label, titles, figsize, cmap)


def plot(
    X: Any,
    Y: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] = (),
    xlim: Any = None,
    ylim: Any = None,
    xscale: str = "linear",
    yscale: str = "linear",
    fmts: Sequence[str] = ("-", "m--", "g-.", "r:"),
    figsize: tuple[float, float] = (3.5, 2.5),
    axes: Any = None,
) -> Any:
    """Draw lines, one for each row of ``Y`` over ``X``; without ``Y`` the rows of ``X`` over their numbers."""
    from matplotlib import pyplot

    if Y is None:
        X, Y = None, X
    lines = _rows(Y)
    places = [range(len(line)) for line in lines] if X is None else _rows(X)
    if axes is None:
        axes = pyplot.figure(figsize=figsize).add_subplot()
    for i, line in enumerate(lines):
        axes.plot(places[i % len(places)], line, fmts[i % len(fmts)])
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale, xlim=xlim, ylim=ylim)
    if len(legend):
        axes.legend(legend)
    axes.grid()
    return axes


def _rows(values: Any) -> list[Any]:
    """Lines: of one row, or of several."""
    if isinstance(values, Core):
        numbers = as_numbers(values)
        return [numbers] if numbers.ndim < 2 else list(numbers)
    if len(values) and hasattr(values[0], "__len__"):
        return [as_numbers(line) for line in values]
    return [as_numbers(values)]


def __getattr__(name: str) -> Any:
    refuse_attribute("d2l", name)
