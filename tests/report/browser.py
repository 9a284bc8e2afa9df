"""A headless Chromium driven through chromedriver's own HTTP protocol; nothing but the standard library."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BINARIES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Why no page can be opened on this machine; empty if one can."""
    if not any(shutil.which(name) for name in BINARIES):
        return "no Chromium on this machine (looked for " + ", ".join(BINARIES) + ")"
    return "" if shutil.which("chromedriver") else "no chromedriver on this machine"


class Browser:
    """One window. `with Browser() as browser: browser.open(path)`."""

    def __enter__(self) -> Self:
        self.folder = tempfile.mkdtemp(prefix="adagq-chromium-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.root = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "session"):
            self._call("DELETE", "")
        self.driver.terminate()
        self.driver.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of this size and wait until its figures are drawn."""
        self.visit(page.resolve().as_uri(), width, height, dark)

    def visit(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open an address in a window of this size and wait until its figures are drawn."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", {"features": scheme})
        self._call("POST", "/url", {"url": address})
        deadline = time.monotonic() + 20
        while self.run("return document.documentElement.dataset.drawn") != "yes":
            assert time.monotonic() < deadline, f"the page was never drawn: {self.console()}"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """What a script on the page returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """Messages of the console since the last call, and requests that failed or were forbidden."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, path: Path) -> None:
        """The whole page, also what lies below the window."""
        shot = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _start(self) -> None:
        options = {
            "binary": next(path for name in BINARIES if (path := shutil.which(name))),
            "args": [*FLAGS, f"--user-data-dir={self.folder}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        body = {"capabilities": {"alwaysMatch": wanted}}
        deadline = time.monotonic() + 30
        while True:
            try:
                self.session = self._request("POST", "/session", body)["sessionId"]
                return
            except urllib.error.HTTPError as error:
                raise RuntimeError(f"Chromium did not start: {error.read().decode()[:500]}") from None
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self._request(verb, f"/session/{self.session}{path}", body)

    def _request(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=verb)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]
