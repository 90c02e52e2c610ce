"""Ends the stages of a killed runner. `pipeline.local.session` starts it as a program, on a bare Python.

It reads lines `+ KIND NAME` and `- KIND NAME` from a pipe that only the runner holds. When the pipe ends, the runner
has finished or is dead: then it kills each process group and removes each container that was added and not removed
again.
"""

import contextlib
import os
import signal
import subprocess
import sys

PROCESS, CONTAINER = "process", "container"


def main(docker: str) -> None:
    """Read to the end of the pipe, then end the remaining processes."""
    left: set[tuple[str, str]] = set()
    for line in sys.stdin:
        sign, kind, name = line.split()
        (left.add if sign == "+" else left.discard)((kind, name))
    for kind, name in left:
        if kind == PROCESS:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(name), signal.SIGKILL)
    if containers := sorted(name for kind, name in left if kind == CONTAINER):
        with contextlib.suppress(OSError):
            subprocess.run([docker, "rm", "--force", *containers], check=False)


if __name__ == "__main__":
    main(sys.argv[1])
