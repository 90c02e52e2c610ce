"""Functions in their own processes: forks of this one, which start in milliseconds with its imports."""

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

_PATIENCE_SECONDS = 300


def start(action: Callable[[], object], log: Path) -> int:
    """Start a function, its output in a file, and return its process id.

    The function's int is the exit code, anything else means 0; the code is 1 if it raises.
    """
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    pid = os.fork()
    if pid:
        os.close(file)
        return pid
    code = 1
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = sys.stderr = os.fdopen(file, "w", buffering=1)  # the parent's may be pytest's
        result = action()
        code = result if isinstance(result, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    """Wait for a child and return its exit code, negative for a signal."""
    code = wait_until(pid, lambda: False)
    assert code is not None
    return code


def wait_until(pid: int, due: Callable[[], bool]) -> int | None:
    """Wait for a child until a condition holds; return its exit code as `wait` if it ended before, else None."""
    began = time.monotonic()
    while not due():
        exited, status = os.waitpid(pid, os.WNOHANG)
        if exited:
            return os.waitstatus_to_exitcode(status)
        assert time.monotonic() - began < _PATIENCE_SECONDS, f"process {pid} hangs"
        time.sleep(0.0005)
    return None


def passed(seconds: float) -> Callable[[], bool]:
    """Return a condition: so many seconds have passed from now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began > seconds
