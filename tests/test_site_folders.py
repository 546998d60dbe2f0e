"""A wheel holds OpenBLAS: qkv runs in any folder with NumPy alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import _core

PACKAGE = Path(qkv.__file__).parent
CORE = Path(_core.__file__)
OPENBLAS = CORE.parent / "_openblas"
PROGRAM = """
import numpy as np, qkv
print(qkv.__file__)
print(qkv.matmul(np.full((83, 89), 2.0), np.ones((89, 97)))[0, 0])
"""

pytestmark = pytest.mark.skipif(
    CORE.parent != PACKAGE or not OPENBLAS.exists(),
    reason="built in place, or with the system's OpenBLAS: pip install .",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Pack the package that runs here, except for what only `reproduce` needs, as a wheel."""
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
    for file in [CORE, *(path for path in OPENBLAS.rglob("*") if path.is_file())]:
        files[f"qkv/{file.relative_to(CORE.parent).as_posix()}"] = file.read_bytes()
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


def test_qkv_runs_in_a_folder_with_numpy_alone(target, tmp_path):
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name)
    maps = (
        ""
        if sys.platform != "linux"
        else "print([line for line in open('/proc/self/maps') if 'openblas' in line])"
    )
    result = run("-S", "-c", PROGRAM + maps, path=[target, tmp_path])
    assert result.returncode == 0, result.stderr
    file, number = result.stdout.split()[:2]
    assert Path(file).is_relative_to(target)
    assert number == "178.0"
    if sys.platform == "linux":
        assert str(target / "qkv" / "_openblas" / "lib") in result.stdout
    assert (OPENBLAS / "LICENSE.txt").is_file()


def test_another_error_of_the_core_is_told_as_it_is(target, tmp_path):
    (tmp_path / "qkv").mkdir()
    for file in (target / "qkv").glob("*.py"):
        (tmp_path / "qkv" / file.name).write_bytes(file.read_bytes())
    result = run("-c", "import qkv", path=[tmp_path])
    assert result.returncode == 1
    assert "ImportError: qkv's compiled core could not be loaded (cannot import name '_core'" in result.stderr
    assert "build it from the checkout: pip install ." in result.stderr
