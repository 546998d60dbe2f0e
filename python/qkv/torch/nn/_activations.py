"""Functions of `nn.functional` as modules: activations and losses."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

from .._settings import constructor
from . import functional as F
from ._losses import reduction_of
from ._module import Module


class _OfFunction(Module):
    """Calls a function of `nn.functional` with what the call gives and the settings that it was made with."""

    _function: Any = None
    _passed: tuple[str, ...] = ()  # names of the settings
    weight: Any
    pos_weight: Any

    def _configure(self, **settings) -> None:
        super()._configure()
        old = settings.pop("size_average", None), settings.pop("reduce", None)
        if "reduction" in settings:
            settings["reduction"] = reduction_of(settings["reduction"], *old)
        for name, value in settings.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs, **named):
        """What the function gives."""
        return type(self)._function(*inputs, **named, **{name: getattr(self, name) for name in self._passed})


def of_function(name: str, function, *without: str, module: str = __name__) -> type[_OfFunction]:
    """Make the class of a function: the settings are its arguments with a default, except for some."""
    left_out = {"dtype", "training", "_stacklevel", *without}
    known = [p for p in signature(function).parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    settings = {p.name: p.default for p in known if p.default is not p.empty and p.name not in left_out}
    passed = [name for name in settings if name not in ("size_average", "reduce")]
    passed += [p.name for p in known if p.name == "training"]
    shown = () if "reduction" in settings or "eps" in settings else settings
    members = {
        "__init__": constructor(", ".join(f"{key}={value!r}" for key, value in settings.items())),
        "_function": staticmethod(function),
        "_passed": tuple(passed),
        "_shown": " ".join(f"{key}?" if key == "inplace" else key for key in shown),
        "__doc__": f"`nn.functional.{getattr(function, '__name__', name.lower())}` as a module.",
        "__module__": module,
    }
    return type(name, (_OfFunction,), members)


_NAMES = """ReLU Tanh Sigmoid GELU SiLU Softplus LogSigmoid Softmax LogSoftmax CrossEntropyLoss NLLLoss MSELoss L1Loss
KLDivLoss"""
_FUNCTIONS: dict[str, Any] = {name.replace("_", ""): f for name, f in vars(F).items()}
_OWN = {name: ["weight"] for name in ("MSELoss", "L1Loss")}  # arguments of the function alone
for _name in _NAMES.split():
    _function = _FUNCTIONS.get(_name.lower()) or _FUNCTIONS[_name.lower().removesuffix("loss")]
    globals()[_name] = of_function(_name, _function, *_OWN.get(_name, ()))
BCELoss = of_function("BCELoss", F.binary_cross_entropy)
BCEWithLogitsLoss = of_function("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits)
