"""python -m components.preprocess.beam.worker: the entry point of the preprocess image.

Beam's runners start their workers by giving the image boot's flags and nothing else, so one image is both: with those
flags it becomes Beam's boot, with any others it is the stage. Standard library only.
"""

import os
import runpy
import socket
import sys
from pathlib import Path

from components.core import errors

BOOT = Path("/opt/apache/beam/boot")
# The base image's pip, with which boot looks for apache-beam. The stage's environment has none.
PIP = Path("/opt/apache/beam/pip")
POOL_PORT = 50_000  # of boot's worker pool
_ENDPOINTS = ("logging_endpoint", "artifact_endpoint", "provision_endpoint", "control_endpoint")
_WORKER_FLAGS = ("id", "worker_pool", "setup_only", "artifacts", "semi_persist_dir", *_ENDPOINTS)


def is_worker(arguments: list[str]) -> bool:
    """Return whether the arguments are those of a Beam runner for a worker's container."""
    return any(name in _WORKER_FLAGS for name in _flags(arguments))


def become_worker(arguments: list[str]) -> None:
    """Replace this process by Beam's boot. Returns, after printing why, if that is not possible."""
    if not BOOT.exists():
        message = f"this image is no Beam worker: it was built without {BOOT}; build it with BEAM_WORKER=boot"
    elif "worker_pool" in _flags(arguments) and not _is_free(POOL_PORT):
        message = (
            f"port {POOL_PORT} is in use, perhaps by another worker pool, and two would take each other's jobs; stop "
            "that one, or give each its own network namespace"
        )
    else:
        os.execve(BOOT, [str(BOOT), *arguments], os.environ | {"PYTHONPATH": str(PIP)})  # noqa: S606
    print(message, file=sys.stderr)


def _flags(arguments: list[str]) -> list[str]:
    return [word.lstrip("-").split("=")[0] for word in arguments if word.startswith("-")]


def _is_free(port: int) -> bool:
    """Return whether a port is free; pools would share it silently, as gRPC sets SO_REUSEPORT."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=family == socket.AF_INET6).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if is_worker(sys.argv[1:]):
        become_worker(sys.argv[1:])
        sys.exit(errors.ConfigError.exit_code)
    sys.argv.insert(1, "preprocess")
    runpy.run_module("components", run_name="__main__", alter_sys=True)
