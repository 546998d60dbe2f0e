"""What is known to be wrong, by cause: a program that shows it, and which statements of others have to be left out.

Who mends a cause removes its entry; the program then belongs to the tests of what was mended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .running import Session
from .statements import Kind

BOTH = ("qkv.torch", "qkv")


@dataclass(frozen=True)
class Cause:
    dialects: tuple[str, ...]
    program: str
    concerns: Callable[[Session, Kind, str], bool]


def named(*names: str) -> Callable[[Session, Kind, str], bool]:
    return lambda session, kind, line: kind.name in names


def _first(session: Session, line: str) -> str:
    """Name what a change is about."""
    bare = line.removeprefix("with torch.no_grad(): ")
    return bare.split(".")[0]


def _base_of_views(session: Session, kind: Kind, line: str) -> bool:
    if kind.name not in ("requires_grad_", "requires_grad is set"):
        return False
    t = session.theirs[_first(session, line)]
    place = t.untyped_storage().data_ptr()
    others = [u for u in session.tensors().values() if u.untyped_storage().data_ptr() == place]
    return not t.requires_grad and len(others) > 1


def _view_whose_data_are_set(session: Session, kind: Kind, line: str) -> bool:
    return kind.name == "set data" and session.theirs[_first(session, line)]._is_view()


def _adds_to_a_known_gradient(session: Session, kind: Kind, line: str) -> bool:
    if "backward" not in line:
        return False
    tensors = session.tensors()
    gradients = {
        t.grad.untyped_storage().data_ptr() for t in tensors.values() if t.is_leaf and t.grad is not None
    }
    return any(t.untyped_storage().data_ptr() in gradients for t in tensors.values())


CAUSES: dict[str, Cause] = {
    "a later backward pass adds into the same gradient": Cause(
        BOTH,
        """
t0 = new((3, 4), 1, True)
(t0 * 2).sum().backward()
t1 = t0.grad
(t0 * 3).sum().backward()
""",
        _adds_to_a_known_gradient,
    ),
    "a view asks its base whether a gradient is required": Cause(
        BOTH,
        """
t0 = new((3, 4), 1)
t1 = t0[1]
t0.requires_grad = True
""",
        _base_of_views,
    ),
    "a quotient that is rounded down is no leaf": Cause(
        ("qkv.torch",),
        """
t0 = new((2, 3), 1, True)
t1 = t0 // 0.7
""",
        named("floor_divide"),
    ),
    "a view whose data are set follows the history of its base": Cause(
        ("qkv.torch",),
        """
t0 = new((3, 4), 1)
t1 = new((3, 4), 2, True)
t2 = t0[:]
t2.data = t2.detach() * 0.5
t0[:] = t1
""",
        _view_whose_data_are_set,
    ),
}


def known(dialect: str) -> Callable[[Session, Kind, str], str | None]:
    """Give the question which known cause a statement of a program falls under."""
    concerned = {name: cause.concerns for name, cause in CAUSES.items() if dialect in cause.dialects}

    def ask(session: Session, kind: Kind, line: str) -> str | None:
        return next((name for name, concerns in concerned.items() if concerns(session, kind, line)), None)

    return ask
