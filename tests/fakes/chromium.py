"""A headless Chromium, driven through a pipe by its DevTools protocol: behavior and appearance of pages."""

import base64
import io
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from PIL import Image

# A page counts as loaded before its lazy images are; these are near enough for the browser to load them anyway.
_LOAD_LAZY_IMAGES = """Promise.all([...document.images]
  .filter(image => image.loading === 'lazy' && image.getBoundingClientRect().top < innerHeight + 500)
  .map(image => { image.loading = 'eager'; return image.decode().catch(() => null); }))"""
_SECONDS = 60  # without a message, after which the browser counts as hung
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """Return the program, if this machine has it."""
    return next((path for name in _PROGRAMS if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page in it."""

    def __init__(self, program: str) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        flags.append(f"--user-data-dir={self._profile.name}")
        self._process = subprocess.Popen(
            # The protocol is spoken on the descriptors 3 and 4.
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", program, *flags, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._events = b"", 0, list[dict[str, Any]]()
        self.requests: list[str] = []  # since the last `open`, by the page and its frames
        self._session = ""
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network"):
                self._call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(_SECONDS)
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def open(self, page: Path, width: int = 1040, dark: bool = False) -> None:
        """Open a file in a window of a width, with light or dark colors, and wait until all of it is loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self._events.clear()
        self._call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()
        self._call("Runtime.evaluate", expression=_LOAD_LAZY_IMAGES, awaitPromise=True)

    def evaluate(self, expression: str, in_frame: bool = False) -> Any:
        """Return the JSON value of a JavaScript expression in the page, or in its first frame, in an isolated world."""
        frames = self._call("Page.getFrameTree")["frameTree"]
        frame = frames["childFrames"][0]["frame"] if in_frame else frames["frame"]
        world = self._call("Page.createIsolatedWorld", frameId=frame["id"])["executionContextId"]
        found = self._call("Runtime.evaluate", expression=expression, contextId=world, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def screenshot(self) -> np.ndarray:
        """Return an image of the whole page, uint8 [height, width, 3]."""
        png = self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with Image.open(io.BytesIO(base64.b64decode(png))) as image:
            return np.asarray(image.convert("RGB"))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        """Return the next message; keep it if it is an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], _SECONDS)
            some = os.read(self._in, 1 << 20) if ready else b""
            if not some:
                raise RuntimeError(f"the browser hangs, or ended with {self._process.poll()}")
            self._buffer += some
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return message
