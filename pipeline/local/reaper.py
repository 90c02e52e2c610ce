"""Ends the stages of a killed runner. `pipeline.local.session` starts it as a program, on a bare Python.

It reads lines `+ NAME` and `- NAME`, of a process group's number or a container's name, from a pipe that only the
runner holds. When the pipe ends, the runner has finished or is dead: then it kills each process group and removes each
container that was added and not removed again.
"""

import contextlib
import os
import signal
import subprocess
import sys


def main(docker: str) -> None:
    """Read to the end of the pipe, then end the remaining processes."""
    left: set[str] = set()
    for line in sys.stdin:
        sign, name = line.split()
        (left.add if sign == "+" else left.discard)(name)
    groups = {name for name in left if name.isdecimal()}
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(group), signal.SIGKILL)
    if containers := sorted(left - groups):
        with contextlib.suppress(OSError):
            subprocess.run([docker, "rm", "--force", *containers], check=False)


if __name__ == "__main__":
    main(sys.argv[1])
