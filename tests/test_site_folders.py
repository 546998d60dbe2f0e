"""qkv finds OpenBLAS also where the two packages stand in different site folders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib import util
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import _core

PACKAGE = Path(qkv.__file__).parent
CORE = Path(_core.__file__)
RPATH = re.compile(rb"[^\0]*scipy_openblas32/lib[^\0]*")
PROGRAM = """
import numpy as np, qkv
print(qkv.__file__)
print(qkv.matmul(np.full((83, 89), 2.0), np.ones((89, 97)))[0, 0])
"""

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no paths inside of libraries"),
    pytest.mark.skipif(util.find_spec("scipy_openblas32") is None, reason="built with the system's OpenBLAS"),
]


def without_path(core: bytes) -> bytes:
    """Give the extension with a folder that does not exist as the one where it looks for OpenBLAS."""
    assert RPATH.search(core)
    return RPATH.sub(lambda found: b"/nowhere".ljust(len(found[0]), b"/"), core)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Pack the package that runs here, but for what only `reproduce` needs, as a wheel."""
    path = tmp_path_factory.mktemp("wheel") / f"qkv-{qkv.__version__}-py3-none-any.whl"
    about = f"qkv-{qkv.__version__}.dist-info"
    files = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: qkv\nVersion: {qkv.__version__}\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    for file in sorted(PACKAGE.rglob("*")):
        inside = file.relative_to(PACKAGE)
        if inside.parts[0] in ("notebooks", "reproduce") or "__pycache__" in inside.parts or file.is_dir():
            continue
        if file.suffix in (".py", ".pyi"):
            files[f"qkv/{inside.as_posix()}"] = file.read_bytes()
    files[f"qkv/{CORE.name}"] = without_path(CORE.read_bytes())
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture(scope="module")
def target(wheel, tmp_path_factory):
    """A folder of ``pip install --target`` with qkv alone."""
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("target")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*command, "--target", folder, wheel], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def run(*arguments, path):
    variables = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    variables["PYTHONPATH"] = os.pathsep.join(map(str, path))
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=variables, check=False
    )


def test_qkv_in_a_target_folder_finds_openblas_elsewhere(target):
    result = run("-c", PROGRAM, path=[target])
    assert result.returncode == 0, result.stderr
    file, number = result.stdout.split()
    assert Path(file).is_relative_to(target)
    assert number == "178.0"


def test_both_in_folders_of_their_own(target, tmp_path):
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs", "scipy_openblas32", "scipy_openblas32.libs"):
        source = packages / name
        if name.startswith("scipy"):
            source = Path(util.find_spec("scipy_openblas32").origin).parents[1] / name
        if source.exists():
            (tmp_path / name.partition(".")[0]).mkdir(exist_ok=True)
            (tmp_path / name.partition(".")[0] / name).symlink_to(source)
    result = run("-S", "-c", PROGRAM, path=[target, tmp_path / "numpy", tmp_path / "scipy_openblas32"])
    assert result.returncode == 0, result.stderr
    assert "178.0" in result.stdout

    result = run("-S", "-c", PROGRAM, path=[target, tmp_path / "numpy"])
    assert result.returncode == 1
    message = (
        "ImportError: qkv needs the OpenBLAS library of the package scipy-openblas32 (Python finds none); "
        "install it: pip install scipy-openblas32"
    )
    assert message in result.stderr

    empty = tmp_path / "empty"
    (empty / "scipy_openblas32" / "lib").mkdir(parents=True)
    (empty / "scipy_openblas32" / "__init__.py").touch()
    result = run("-S", "-c", PROGRAM, path=[target, tmp_path / "numpy", empty])
    assert result.returncode == 1
    assert f"scipy-openblas32 (there is no library in {empty}" in result.stderr


def test_another_error_of_the_core_is_told_as_it_is(target, tmp_path):
    (tmp_path / "qkv").mkdir()
    for file in (target / "qkv").glob("*.py"):
        (tmp_path / "qkv" / file.name).write_bytes(file.read_bytes())
    result = run("-c", "import qkv", path=[tmp_path])
    assert result.returncode == 1
    assert "ImportError: qkv's compiled core could not be loaded (cannot import name '_core'" in result.stderr
    assert "build it from the checkout: pip install ." in result.stderr
