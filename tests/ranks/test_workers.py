"""Layers and SentenceEncoder as they are sent to workers of Dask and joblib, which use the CPUs they are bound to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from models.folders import TEXTS, make_folder

import qkv
from qkv import models, nn
from ranks.mpi import environment


def test_joblib_sends_layers_and_encoders(tmp_path):
    joblib = pytest.importorskip("joblib")
    pytest.importorskip("tokenizers")
    encoder = models.SentenceEncoder.from_pretrained(make_folder(tmp_path))
    layer, x = nn.MultiHeadAttention(6, 2), qkv.randn(4, 3, 6)
    for parameter in layer.parameters():
        parameter.requires_grad = False  # results that record cannot be sent back
    with joblib.Parallel(n_jobs=2) as workers:
        rows = workers(joblib.delayed(encoder.encode)(TEXTS[i : i + 2]) for i in range(0, len(TEXTS), 2))
        outputs = workers(joblib.delayed(layer)(x[i : i + 1]) for i in range(4))
    np.testing.assert_allclose(np.concatenate(rows), encoder.encode(TEXTS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(outputs), layer(x), rtol=1e-5, atol=1e-6)


DASK = """
import os, sys
from dask.distributed import Client, LocalCluster
import numpy as np
import qkv
from models.folders import TEXTS, make_folder

def main(folder):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # which workers take over
    encoder = qkv.models.SentenceEncoder.from_pretrained(make_folder(folder))
    layer = qkv.nn.TransformerEncoderLayer(6, 2, 8).eval()
    for parameter in layer.parameters():
        parameter.requires_grad = False
    x = qkv.randn(5, 3, 6)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(sorted(client.run(lambda: __import__("qkv").get_num_threads()).values()))
        parts = client.gather(client.map(encoder.encode, [TEXTS[:3], TEXTS[3:]]))
        np.testing.assert_allclose(np.concatenate(parts), encoder.encode(TEXTS), rtol=1e-5, atol=1e-6)
        outputs = client.gather(client.map(layer, [x[:2], x[2:]]))
        np.testing.assert_allclose(np.concatenate(outputs), layer(x), rtol=1e-5, atol=1e-6)
    print("done")

if __name__ == "__main__":
    import pathlib
    main(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to CPUs")
def test_dask_sends_layers_and_encoders(tmp_path):
    pytest.importorskip("dask.distributed", reason="Dask is not installed; pip install dask distributed")
    pytest.importorskip("tokenizers")
    program, folder = tmp_path / "program.py", tmp_path / "model"
    program.write_text(DASK, encoding="utf8")
    folder.mkdir()
    variables = environment()
    del variables["QKV_NUM_THREADS"]
    command = [sys.executable, str(program), str(folder)]
    found = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=300, cwd=Path(tmp_path)
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "[1, 1]\ndone\n"
