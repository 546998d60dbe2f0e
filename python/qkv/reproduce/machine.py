"""What results were made on: for the page and the file of results."""

import platform

from ..functions.settings import config, processor
from .execute import version


def about() -> dict[str, str]:
    """Return versions, processor, instruction set, BLAS and number of threads, in words."""
    facts = config()
    return {
        "qkv": version(),
        "processor": processor(),
        "instruction set": str(facts["instruction_set"]),
        "reproducible": "yes"
        if facts["fused_multiply_add"]
        else "no, this instruction set has no fused multiply-add",
        "BLAS": f"{' '.join(str(facts['blas']).split()[:2])} ({facts['blas_core']})",  # not how it was built
        "cores": str(facts["threads"]),
        "Python": str(facts["python"]),
        "NumPy": str(facts["numpy"]),
        "system": f"{platform.system()} {platform.machine()}",
    }
