"""Third-party servers that tests start on loopback: a port, and a program of the right version."""

import os
import re
import shutil
import socket
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def free_port() -> int:
    """Return a free port of the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def written_in_go(name: str, variable: str, module: str) -> Path:
    """A program of the version that a variable of the Makefile names; the test is skipped if there is none.

    A program in Go holds the name and the version of its module; `module` is what stands before the version.
    """
    version = dict(re.findall(r"^(\w+) := (\S+)$", (_ROOT / "Makefile").read_text(), re.MULTILINE))[variable]
    for folder in (str(_ROOT / "build"), os.environ.get("GOBIN", ""), *os.get_exec_path()):
        found = shutil.which(name, path=folder)
        if found and f"{module}{version}\t".encode() in Path(found).read_bytes():
            return Path(found)
    pytest.skip(f"no {name} {version} in build/, GOBIN or PATH: make {name}")
