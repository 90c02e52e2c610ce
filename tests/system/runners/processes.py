"""Programs of a cluster on loopback, each with a log in a folder, which end with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[3]
# What the scripts of Flink and Spark open of Java 17 for them, and Beam's job servers need too.
OPENED = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.text",
        "java.time",
        "java.util",
        "java.util.concurrent",
        "java.util.concurrent.atomic",
        "sun.nio.ch",
    )
)


def until(true: Callable[[], Any], seconds: float = 120) -> Any:
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"still false after {seconds:g} s")


class Processes:
    """The programs; at the end of the block all are killed, with those that they have started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        for process in reversed(self._started):
            # Each is the first of a session of its own.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()

    def start(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program, whose log is called as it is."""
        # A worker pool starts its workers as `python`, which has to be this one.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **(environment or {})},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def start_pool(self, name: str, port: int) -> subprocess.Popen[bytes]:
        """Start a worker pool of Beam."""
        return self.start(name, [sys.executable, "-m", "tests.system.runners.worker_pool", str(port)])

    def log_of(self, name: str) -> str:
        """Return what a program has said."""
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
