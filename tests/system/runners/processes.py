"""Programs of a cluster on loopback, each with a log in a folder, which end with the cluster."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests import servers

ROOT = Path(__file__).parents[3]
# Flags by which the scripts of Flink and Spark open Java 17, needed by Beam's job servers, too.
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
    """Repeat a question until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"still false after {seconds:g} s")


def programs(name: str) -> tuple[Path, Path]:
    """Return the folder of a runner's jars and Beam's job server; skip the test without them."""
    distribution, job_server = (ROOT / "build" / name / each for each in ("distribution", "job-server/job-server.jar"))
    if not (distribution.is_dir() and job_server.is_file() and shutil.which("java")):
        pytest.skip(
            f"no {name} in build/{name}, or no Java: apt-get install openjdk-17-jre-headless maven, "
            f"then make test-{name}"
        )
    return distribution, job_server


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that `Processes` started, with its children: it leads its own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Processes:
    """The programs, which `begin` starts; at the end of the block all are killed, with those that they have started.

    Each writes a log to the folder.

    Attributes:
        pool: `host:port` of the worker pool of Beam.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = f"localhost:{servers.free_port()}"
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            port = self.pool.partition(":")[2]
            self.start("worker-pool", [sys.executable, "-m", "tests.system.runners.worker_pool", port])
            self.begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def begin(self) -> None:
        """Start the cluster."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        for process in reversed(self._started):
            kill(process)

    def start(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program; its log has its name."""
        # A worker pool starts its workers as `python`, which must be this one.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **(environment or {})},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process
