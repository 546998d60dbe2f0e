"""The kernels that run notebooks: this interpreter, in its own folder, with its share of the cores."""

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ..functions.settings import config

# Read by a kernel when it starts: larger figures with descriptions for the page, and no name in the notebook.
_START = "__import__('qkv.reproduce.figures', fromlist=['register']).register()"
_THREADS = ("QKV_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@asynccontextmanager
async def kernel(notebook: Any, folder: Path, *, threads: int, timeout: float) -> AsyncIterator[Any]:
    """Return a client whose kernel runs in `folder`; when the block ends, the kernel is killed and leaves nothing."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    class ThisInterpreter(KernelSpecManager):
        """Offers one kernel: the interpreter that runs now."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            options = ["--log-level=CRITICAL", f"--IPKernelApp.exec_lines={_START}"]
            return KernelSpec(argv=[*command, *options], display_name="Python 3", language="python")

    manager: Any = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=ThisInterpreter(),
        connection_file=str(folder / "kernel.json"),
    )
    client: Any = NotebookClient(
        notebook,
        km=manager,
        timeout=math.ceil(timeout),  # whole seconds
        startup_timeout=120,
        record_timing=False,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    # Not nbclient's own context: it sets signal handlers of its own, which would end the kernel and continue.
    try:
        await client.async_start_new_kernel(env=_environment(threads))
        await client.async_start_new_kernel_client()
        yield client
    finally:
        ending = asyncio.ensure_future(_end(client, manager))
        while not ending.done():
            with suppress(asyncio.CancelledError):  # a second one, while the first is obeyed
                await asyncio.shield(ending)
        ending.result()


async def _end(client: Any, manager: Any) -> None:
    """Kill a kernel and remove what belongs to it."""
    if manager.has_kernel:
        await manager.shutdown_kernel(now=True)
    if client.kc is not None:
        client.kc.stop_channels()
    await manager.cleanup_resources()


async def exit_words(client: Any) -> str:
    """Say how a kernel that died has ended; empty if it lives."""
    code = await client.km.provisioner.poll()
    if code is None:
        return ""
    return f"the kernel was killed by signal {-code}" if code < 0 else f"the kernel ended with status {code}"


def _environment(threads: int) -> dict[str, str]:
    """Return the kernel's environment: figures inline, its threads, the same bits everywhere, this very package."""
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    environment.update(dict.fromkeys(_THREADS, str(threads)))
    environment["QKV_REPRODUCIBLE"] = "1" if config()["fused_multiply_add"] else "0"
    home = Path(__file__).resolve().parents[2]
    if home.name not in ("site-packages", "dist-packages"):
        paths = [str(home), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
