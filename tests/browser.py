"""A headless Chromium, told by its debugging protocol what to open, and asked what came of it."""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT = 60.0
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
]


def program() -> str | None:
    """Return the browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def environment() -> dict[str, str]:
    """Return the variables of this process without a sanitizer's library, which a browser does not start with."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone; gives its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Browser:
    """One tab. `complaints` are the errors that its console and its network have told since the page was opened."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, timeout=TIMEOUT)
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self._loaded = False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """Let go of the tab."""
        self._socket.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and give its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        kind, told = message.get("method"), message.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.complaints.append(" ".join(str(part.get("value", part)) for part in told["args"]))
        elif kind == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif kind == "Network.responseReceived" and told["response"]["status"] >= 400:
            self.complaints.append(f"{told['response']['status']} {told['response']['url']}")
        elif kind == "Network.loadingFailed" and not told.get("canceled"):
            self.complaints.append(f"{told['errorText']} ({told['type']})")

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.complaints.clear()
        self._loaded = False
        self.call("Page.navigate", url=url)
        self.wait(lambda: self.run("document.readyState") == "complete" and self._loaded)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, ready: Any) -> None:
        """Wait until something holds."""
        end = time.monotonic() + TIMEOUT
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError("the page did not come to that")
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def theme(self, name: str) -> None:
        """Prefer "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Start a browser with its files in a folder, and end it."""
    place = folder / "profile"
    command = [program() or "", *FLAGS, f"--user-data-dir={place}", "about:blank"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        note = place / "DevToolsActivePort"
        end = time.monotonic() + TIMEOUT
        while not (note.is_file() and note.read_text().count("\n")):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the browser did not start")
            time.sleep(0.05)
        port = note.read_text().split()[0]
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=TIMEOUT) as answer:
            tabs = json.load(answer)
        with closing(
            Browser(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
        ) as tab:
            yield tab
    finally:
        process.terminate()
        process.wait(TIMEOUT)
