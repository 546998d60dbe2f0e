"""The output folder: everything is written beside it and moved in at the end, so nothing is half-written."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GENERATOR = '<meta name="generator" content="qkv reproduce">'
PARTS = ("notebooks", "figures", "index.html")
MORE = ("trainings",)  # not of every run


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give an empty folder to write to; it moves to `folder` when the block ends without an exception.

    Raises
    ------
    OSError
        At once, if `folder` cannot be written, or if it holds files of the same names that are not ours.
    """
    _refuse_foreign(folder)
    base = folder if folder.exists() else folder.parent
    try:
        base.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".reproduce-", dir=base))
    except OSError as error:
        raise OSError(
            f"reproduce: output must be a folder that can be written; got {folder}: {error.strerror}"
        ) from error
    try:
        new = stage / "new"
        new.mkdir()
        yield new
        folder.mkdir(exist_ok=True)
        (stage / "old").mkdir()
        try:
            for part in (*PARTS, *MORE):
                if part in MORE and not (new / part).exists():
                    continue
                if (folder / part).exists():
                    os.replace(folder / part, stage / "old" / part)
                os.replace(new / part, folder / part)
        except BaseException:
            for old in (stage / "old").iterdir():
                if not (folder / old.name).exists():
                    os.replace(old, folder / old.name)
            raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"reproduce: output must be a folder; got the file {folder}")
    present = [part for part in (*PARTS, *MORE) if (folder / part).exists()]
    page = folder / "index.html"
    ours = page.is_file() and GENERATOR in page.read_text(encoding="utf-8", errors="replace")[:2000]
    if present and not ours:
        raise FileExistsError(
            f"reproduce: output must be a new folder or one that an earlier run wrote, because "
            f"{', '.join(PARTS)} in it are replaced; got {folder}, which holds its own {present[0]}"
        )
