"""Modules, data and the loop over both, as d2l's chapters on builders' guides have them."""

from __future__ import annotations

import collections
import sys
from typing import Any

from ... import torch
from ...torch import nn


def add_to_class(Class):
    """Decorate a function that becomes a method of a class that exists already."""
    return lambda f: setattr(Class, f.__name__, f)


def _undefined(name):
    """Make a method that a subclass must define."""

    def refuse(self, *args, **named):
        """To be defined by the subclass."""
        raise NotImplementedError(f"{type(self).__name__} must define {name}")

    return refuse


class HyperParameters:
    """Attributes of the arguments of ``__init__``."""

    def save_hyperparameters(self, ignore=()):
        """Called in ``__init__``: keeps its arguments and local names but `ignore` and those with ``_`` ahead."""
        left_out = {*ignore, "self"}
        found = sys._getframe(1).f_locals.items()
        self.hparams = {name: value for name, value in found if name not in left_out and name[0] != "_"}
        for name, value in self.hparams.items():
            setattr(self, name, value)


class Module(nn.Module, HyperParameters):
    """A module with what `Trainer` asks for: a loss of each batch and an optimizer.

    A subclass defines ``loss(output, target)`` and ``configure_optimizers()``, or only a learning rate ``lr``.
    ``curves`` holds what was plotted.

    Examples
    --------
    >>> from qkv.torch import d2l, nn
    >>> class Line(d2l.Module):
    ...     def __init__(self, lr):
    ...         super().__init__()
    ...         self.save_hyperparameters()
    ...         self.net = nn.Linear(1, 1)
    ...
    ...     def loss(self, y_hat, y):
    ...         return nn.functional.mse_loss(y_hat, y)
    """

    def __init__(self):
        super().__init__()
        self.curves: Any = collections.defaultdict(list)

    loss = _undefined("loss")

    def forward(self, *X):
        """Call ``self.net``."""
        if "net" not in self._modules:
            raise AttributeError(f"{type(self).__name__} must define net or forward")
        return self.net(*X)

    def plot(self, key, value, train):
        """Append a number to ``curves["train_" + key]`` or ``curves["val_" + key]``."""
        self.curves[("train_" if train else "val_") + key].append(torch.as_tensor(value).item())

    def training_step(self, batch):
        """Loss of a batch whose last entry is the target."""
        return self._step(batch, train=True)

    def validation_step(self, batch):
        """As `training_step`."""
        return self._step(batch, train=False)

    def _step(self, batch, train):
        value = self.loss(self(*batch[:-1]), batch[-1])
        self.plot("loss", value, train=train)
        return value

    def configure_optimizers(self):
        """Gradient descent with the learning rate ``self.lr``."""
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def apply_init(self, inputs, init=None):
        """Let lazy layers take their sizes from a batch, then set first weights."""
        self.forward(*inputs)
        if init is not None:
            self.net.apply(init)


class Classifier(Module):
    """A module whose outputs are scores of classes."""

    def loss(self, Y_hat, Y, averaged=True):
        """Cross entropy."""
        rows = Y_hat.reshape(-1, Y_hat.shape[-1])
        return nn.functional.cross_entropy(rows, Y.reshape(-1), reduction="mean" if averaged else "none")

    def accuracy(self, Y_hat, Y, averaged=True):
        """How often the largest score is that of the right class."""
        right = (Y_hat.reshape(-1, Y_hat.shape[-1]).argmax(1) == Y.reshape(-1)).float()
        return right.mean() if averaged else right

    def validation_step(self, batch):
        """The loss of a batch; its accuracy is plotted, too."""
        Y_hat = self(*batch[:-1])
        value = self.loss(Y_hat, batch[-1])
        self.plot("loss", value, train=False)
        self.plot("acc", self.accuracy(Y_hat, batch[-1]), train=False)
        return value


class DataModule(HyperParameters):
    """Batches for training and validation: a subclass defines ``get_dataloader(train)``."""

    batch_size: int

    get_dataloader = _undefined("get_dataloader")

    def train_dataloader(self):
        """Batches to train with."""
        return self.get_dataloader(train=True)

    def val_dataloader(self):
        """Batches to validate with."""
        return self.get_dataloader(train=False)

    def get_tensorloader(self, tensors, train, indices=slice(0, None)):
        """Batches of ``batch_size`` rows, shuffled for training."""
        rows = torch.utils.data.TensorDataset(*(t[indices] for t in tensors))
        return torch.utils.data.DataLoader(rows, self.batch_size, shuffle=train)


class Trainer(HyperParameters):
    """A loop over epochs: ``fit(model, data)`` with ``data.train_dataloader()``, ``val_dataloader()`` if there is one.

    After each epoch the mean losses are in ``train_losses`` and ``val_losses``.
    """

    def __init__(self, max_epochs, num_gpus=0, gradient_clip_val=0):
        self.max_epochs, self.gradient_clip_val = max_epochs, gradient_clip_val
        self.train_losses: list[float] = []
        self.val_losses: list[float] = []

    def prepare_batch(self, batch):
        """The batch itself: there is one device."""
        return batch

    def fit(self, model, data):
        """Train."""
        self.model, self.optim = model, model.configure_optimizers()
        for epoch in range(self.max_epochs):
            self.epoch = epoch
            model.train()
            losses = [self._step(self.prepare_batch(batch)) for batch in data.train_dataloader()]
            self.train_losses.append(sum(losses) / max(len(losses), 1))
            batches = data.val_dataloader() if hasattr(data, "val_dataloader") else None
            if batches is not None:
                model.eval()
                with torch.no_grad():
                    found = [model.validation_step(self.prepare_batch(batch)) for batch in batches]
                known = [loss.item() for loss in found if loss is not None]
                self.val_losses.append(sum(known) / max(len(known), 1))

    def _step(self, batch):
        loss = self.model.training_step(batch)
        self.optim.zero_grad()
        loss.backward()
        if self.gradient_clip_val > 0:
            nn.utils.clip_grad_norm_(list(self.model.parameters()), self.gradient_clip_val)
        self.optim.step()
        return float(loss.item())
