"""python -m components.preprocess.beam.worker: what the preprocess image starts.

Beam's runners start their workers by giving the image boot's flags and nothing else, so one image is both: with those
flags it becomes Beam's boot, with any others it is the stage. Standard library only.
"""

import os
import runpy
import sys
from pathlib import Path

from components.core import errors

BOOT = Path("/opt/apache/beam/boot")
# The base image's pip, which boot asks whether apache-beam is installed. The stage's environment has none.
PIP = Path("/opt/apache/beam/pip")
_WORKER_FLAGS = (
    "id",
    "worker_pool",
    "setup_only",
    "artifacts",
    "logging_endpoint",
    "artifact_endpoint",
    "provision_endpoint",
    "control_endpoint",
    "semi_persist_dir",
)


def is_worker(arguments: list[str]) -> bool:
    """Whether the arguments are those that a Beam runner gives a worker's container."""
    names = [word.lstrip("-").split("=")[0] for word in arguments if word.startswith("-")]
    return any(name in _WORKER_FLAGS for name in names)


def become_worker(arguments: list[str]) -> None:
    """Replaces this process by Beam's boot. Returns only if the image has none."""
    if BOOT.exists():
        os.execve(BOOT, [str(BOOT), *arguments], os.environ | {"PYTHONPATH": str(PIP)})  # noqa: S606
    print(f"this image is no Beam worker: it was built without {BOOT}; build it with BEAM_WORKER=boot", file=sys.stderr)


if __name__ == "__main__":
    if is_worker(sys.argv[1:]):
        become_worker(sys.argv[1:])
        sys.exit(errors.ConfigError.exit_code)
    runpy.run_module("components.preprocess", run_name="__main__", alter_sys=True)
