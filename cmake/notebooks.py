"""Copies notebooks without their outputs: python notebooks.py SOURCE TARGET."""

import json
import sys
from pathlib import Path


def stripped(text: str) -> str:
    """Give a notebook without outputs, and the size that it had with them, by which `reproduce` orders its work."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["metadata"]["qkv"] = {"size": len(text.encode())}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(source: Path, target: Path) -> None:
    """Write the notebooks of a folder to another one."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.ipynb")):
        (target / path.name).write_text(stripped(path.read_text(encoding="utf8")), encoding="utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
