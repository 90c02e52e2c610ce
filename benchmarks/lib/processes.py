"""Time and memory of a whole process, start and imports included."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Turn(NamedTuple):
    """Seconds by the clock, processor seconds, and the peak memory in MiB of a process or of one that it started."""

    seconds: float
    cpu: float
    mebibytes: float


def measured(words: Sequence[str], folder: Path | None = None) -> Turn:
    """Run a command in a folder, by default in this one, and hide its output.

    Raises:
        SystemExit: It ends with another status than 0.
    """
    started = time.monotonic()
    # As an installed program runs: what was compiled once is kept.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    memory = usage.ru_maxrss / 1024  # Linux counts in KiB
    return Turn(time.monotonic() - started, usage.ru_utime + usage.ru_stime, memory)
