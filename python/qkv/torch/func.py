"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ._tensor import Tensor
from .nn._module import Module

__all__ = ["functional_call"]


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, strict: bool = False):
    """Call a module with other Tensors in place of parameters and buffers, to which gradients flow.

    Parameters
    ----------
    module : Module
        Of `qkv.torch.nn`; layers of `qkv.nn` compute with parameters of their own.
    parameter_and_buffer_dicts : mapping from str to Tensor, or several
    args, kwargs
        Of the call; one that is no tuple is the only one.
    strict : bool
        Whether all parameters and buffers must be given.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([3.0, 4.0]))
    tensor([7.])
    """
    dicts = parameter_and_buffer_dicts
    given = dict(dicts) if isinstance(dicts, Mapping) else {k: v for one in dicts for k, v in one.items()}
    names = {n for n, _ in (*module.named_parameters(), *module.named_buffers())}
    if unknown := sorted(given.keys() - names):
        raise RuntimeError(f"functional_call: names must be those of the module; got {unknown[0]!r}")
    if strict and (missing := sorted(names - given.keys())):
        raise RuntimeError(
            f"functional_call: all names must be given because strict is True; {missing[0]!r} is not"
        )
    places = []
    for name, value in given.items():
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        if not isinstance(owner, Module) or not isinstance(value, Tensor):
            raise TypeError(
                f"functional_call: {name!r} must be a Tensor for a module of qkv.torch.nn, which computes with what "
                f"stands under its name; got {type(value).__name__} for {type(owner).__name__}"
            )
        places.append((owner.__dict__, last, getattr(owner, last), value))
    try:
        for attributes, last, _, value in places:
            attributes[last] = value
        return module(
            *(args if isinstance(args, tuple) else () if args is None else (args,)), **(kwargs or {})
        )
    finally:
        for attributes, last, own, _ in places:
            attributes[last] = own
