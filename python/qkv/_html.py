"""How a module shows itself in a notebook: a tree to open and close, with shapes and numbers of parameters."""

from __future__ import annotations

import html
from typing import Any

STYLE = (
    "<style>.qkv-module{font:13px ui-monospace,monospace;line-height:1.5}.qkv-module details,.qkv-module .leaf"
    "{margin-left:1.2em}.qkv-module summary{cursor:pointer;margin-left:-1.2em}"
    ".qkv-module .count{opacity:.65}.qkv-module .weights{margin-left:1.2em;opacity:.8}</style>"
)


def module_html(module: Any) -> str:
    """Give the tree of a module's parts: arguments, shapes of parameters, their number. All text is escaped."""
    return f'<div class="qkv-module">{STYLE}{_branch("", module, True)}</div>'


def _branch(name: str, module: Any, is_open: bool) -> str:
    children = module._children()
    config = ", ".join(f"{key}={value!r}" for key, value in module._config().items() if value is not None)
    label = f"{html.escape(name)}: " if name else ""
    head = f"{label}<b>{html.escape(type(module).__name__)}</b>({html.escape(config)})"
    try:
        own = [(key, parameter) for key, parameter in module.named_parameters() if "." not in key]
        count = module.num_parameters()
    except RuntimeError:  # parameters that appear at the first call
        own, text = [], "parameters appear at the first call"
    else:
        text = f"{count:,} parameter{'' if count == 1 else 's'}" if count else ""
    note = f' <span class="count">{text}</span>' if text else ""
    weights = "".join(
        f'<div class="weights">{html.escape(key)} {html.escape(str(tuple(parameter.shape)))} '
        f"{html.escape(str(parameter.dtype))}</div>"
        for key, parameter in own
    )
    parts = "".join(_branch(child, part, False) for child, part in children)
    if not weights and not parts:
        return f'<div class="leaf">{head}{note}</div>'
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{head}{note}</summary>{weights}{parts}</details>"
