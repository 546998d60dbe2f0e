"""Holds peers to the instruction set that ``QKV_ISA`` gives qkv; imported before any of them.

A CPU with AVX-512 can be tested as one without: ``QKV_ISA=avx2 python benchmarks``. ONNX Runtime cannot be told.
"""

import os

# NumPy's names differ from version to version, and it passes over those that it does not know.
_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "CT2_FORCE_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
SETTINGS = _AVX2 if os.environ.get("QKV_ISA") == "avx2" else {}
NOTES = (
    ["NumPy, its BLAS, PyTorch and CTranslate2 are held to AVX2; ONNX Runtime cannot be"] if SETTINGS else []
)

os.environ.update(SETTINGS)
