"""The public names of all modules, read from their files: an error asks for them, and imports nothing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ELSEWHERE = ("torch",)  # whose names are another library's


@cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Return the ``__all__`` of each public module, by its path; those are modules that ``publish`` finishes."""
    found: dict[str, tuple[str, ...]] = {}
    waiting = [("qkv", _ROOT / "__init__.py")]
    for module, file in waiting:
        text = file.read_text(encoding="utf8")
        if "publish(__name__" not in text:
            continue
        folder = file.parent if file.stem == "__init__" else file.with_suffix("")
        names = found[module] = tuple(_listed(ast.parse(text), file.parent))
        for name in names:
            for place in (folder / f"{name}.py", folder / name / "__init__.py"):
                if name not in _ELSEWHERE and place.exists():
                    waiting.append((f"{module}.{name}", place))
    return found


def _listed(tree: ast.Module, folder: Path) -> list[str]:
    """Return what ``__all__`` is: lists, and those of modules that are imported from folders beside."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1]
    folders = {
        part.name: folder / (node.module or "").replace(".", "/") for node in imports for part in node.names
    }
    names: list[str] = []
    for statement in tree.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) or statement.value is None:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if not isinstance(target, ast.Name) or target.id != "__all__":
            continue
        for part in ast.walk(statement.value):
            if isinstance(part, ast.Constant):
                names.append(str(part.value))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                file = folders[part.value.id] / f"{part.value.id}.py"
                names += _listed(ast.parse(file.read_text(encoding="utf8")), file.parent)
    return names
