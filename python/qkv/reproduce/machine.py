"""What results were made on: for the page and the file of results."""

import platform
from pathlib import Path

from ..config import config
from .execute import version


def about() -> dict[str, str]:
    """Give versions, processor, instruction set, BLAS and number of threads, in words."""
    facts = config()
    return {
        "qkv": version(),
        "processor": processor(),
        "instruction set": str(facts["instruction_set"]),
        "BLAS": f"{' '.join(str(facts['blas']).split()[:2])} ({facts['blas_core']})",  # not how it was built
        "cores": str(facts["threads"]),
        "Python": str(facts["python"]),
        "NumPy": str(facts["numpy"]),
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor() -> str:
    """Name the processor as the system does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
