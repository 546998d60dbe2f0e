"""Functions of `nn.functional` as modules: activations and losses."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, ClassVar

from .._settings import constructor
from . import functional as F
from ._losses import reduction_of
from ._module import Module


class _OfFunction(Module):
    """Calls a function of `nn.functional` with what the call gives and the settings that it was made with."""

    _function: Any = None
    _passed: tuple[str, ...] = ()  # names of the settings
    _shown: ClassVar[dict[str, Any]] = {}  # in the text: names and defaults
    _hidden: tuple[str, ...] = ("inplace",)  # of these, shown only where they are not the default
    weight: Any
    pos_weight: Any

    def _configure(self, **settings: Any) -> None:
        super().__init__()
        old = settings.pop("size_average", None), settings.pop("reduce", None)
        if "reduction" in settings:
            settings["reduction"] = reduction_of(settings["reduction"], *old)
        for name, value in settings.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the function gives."""
        return type(self)._function(*inputs, **named, **{name: getattr(self, name) for name in self._passed})

    def extra_repr(self) -> str:
        """The settings, but for those of losses."""
        return ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name, default in self._shown.items()
            if name not in self._hidden or getattr(self, name) != default
        )


def of_function(name: str, function: Any, *without: str, module: str = __name__) -> type[_OfFunction]:
    """Make the class of a function: the settings are its arguments with a default, but for some."""
    left_out = {"dtype", "training", "_stacklevel", *without}
    known = [p for p in signature(function).parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    settings = {p.name: p.default for p in known if p.default is not p.empty and p.name not in left_out}
    passed = [name for name in settings if name not in ("size_average", "reduce")]
    passed += [p.name for p in known if p.name == "training"]
    members = {
        "__init__": constructor(", ".join(f"{key}={value!r}" for key, value in settings.items())),
        "_function": staticmethod(function),
        "_passed": tuple(passed),
        "_shown": {} if "reduction" in settings or "eps" in settings else settings,
        "__doc__": f"`nn.functional.{getattr(function, '__name__', name.lower())}` as a module.",
        "__module__": module,
    }
    return type(name, (_OfFunction,), members)


ReLU = of_function("ReLU", F.relu)
ReLU6 = of_function("ReLU6", F.relu6)
Tanh = of_function("Tanh", F.tanh)
Sigmoid = of_function("Sigmoid", F.sigmoid)
GELU = of_function("GELU", F.gelu)
SiLU = of_function("SiLU", F.silu)
Mish = of_function("Mish", F.mish)
SELU = of_function("SELU", F.selu)
LeakyReLU = of_function("LeakyReLU", F.leaky_relu)
ELU = of_function("ELU", F.elu)
Softplus = of_function("Softplus", F.softplus)
LogSigmoid = of_function("LogSigmoid", F.logsigmoid)
Hardtanh = of_function("Hardtanh", F.hardtanh)
Softmax = of_function("Softmax", F.softmax)
LogSoftmax = of_function("LogSoftmax", F.log_softmax)
Softmin = of_function("Softmin", F.softmin)
GLU = of_function("GLU", F.glu)
CosineSimilarity = of_function("CosineSimilarity", F.cosine_similarity)
CrossEntropyLoss = of_function("CrossEntropyLoss", F.cross_entropy)
NLLLoss = of_function("NLLLoss", F.nll_loss)
MSELoss = of_function("MSELoss", F.mse_loss, "weight")
L1Loss = of_function("L1Loss", F.l1_loss, "weight")
SmoothL1Loss = of_function("SmoothL1Loss", F.smooth_l1_loss)
HuberLoss = of_function("HuberLoss", F.huber_loss, "weight")
BCELoss = of_function("BCELoss", F.binary_cross_entropy)
BCEWithLogitsLoss = of_function("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits)
KLDivLoss = of_function("KLDivLoss", F.kl_div)
