"""Third-party servers that tests start on loopback: a port, and a program of the right version."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str | Path], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server that writes to a log; yield its process when it takes connections at a port of the loopback."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def written_in_go(name: str, variable: str, module: str) -> Path:
    """A program of the version that a variable of the Makefile names; the test is skipped if there is none.

    A program in Go holds the name and the version of its module; `module` is what stands before the version.
    """
    version = dict(re.findall(r"^(\w+) := (\S+)$", (_ROOT / "Makefile").read_text(), re.MULTILINE))[variable]
    for folder in (str(_ROOT / "build"), os.environ.get("GOBIN", ""), *os.get_exec_path()):
        path = shutil.which(name, path=folder)
        if path and f"{module}{version}\t".encode() in Path(path).read_bytes():
            return Path(path)
    pytest.skip(f"no {name} {version} in build/, GOBIN or PATH: make go-tools")
