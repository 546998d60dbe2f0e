"""The words of the five documents, one byte of digest each: enough to find a quote in them, too little to read.

``cd tests && python -m reproduce.documents FOLDER`` makes the file again from the documents' texts.
"""

import base64
import hashlib
import json
import re
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "data" / "documents.json"
_WORD = re.compile(
    r"[\u0900-\u0963\u0966-\u097f]+|[\u4e00-\u9fff]|[A-Za-z0-9_]+|\S"
)  # Hindi, Chinese, Latin, a sign


def digest(text: str) -> bytes:
    """Return a byte for each word and sign of a text; spaces and line ends do not count."""
    return bytes(hashlib.sha256(word.encode()).digest()[0] for word in _WORD.findall(text))


def read() -> dict[str, bytes]:
    """Return the stored bytes of each document, by its number."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return {number: base64.b64decode(text) for number, text in stored.items()}


def made_from(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the documents in a folder; their names begin with their numbers."""
    paths = sorted(folder.glob("[0-9][0-9][0-9]_*.txt"))
    return {path.name[:3]: digest(path.read_text(encoding="utf-8")) for path in paths}


if __name__ == "__main__":
    found = {number: base64.b64encode(data).decode() for number, data in made_from(Path(sys.argv[1])).items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
