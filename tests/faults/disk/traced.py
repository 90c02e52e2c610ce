"""A function in its own process under strace: record its system calls, and hit one of them.

The process is a fork of this one and strace is attached before the function begins, so that calls are counted from its
first on, and an attempt takes some hundredths of a second.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import forks

# Calls that change a file system, or may report that a change failed.
CALLS = (
    *("openat", "read", "lseek", "write", "pwrite64", "sendfile", "copy_file_range", "ftruncate", "close"),
    *("chmod", "fchmod", "fchmodat", "fsync", "fdatasync", "flock"),
    *("rename", "renameat", "renameat2", "link", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
)
_ANY_TRACER = 0x59616D61, ctypes.c_ulong(-1)  # PR_SET_PTRACER: strace is no parent of what it traces here
_CALL = re.compile(r"^\d+ +(\w+)\(")


def require_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace: apt-get install strace")


def run(action: Callable[[], object], folder: Path, inject: str = "", hexadecimal: bool = False) -> int:
    """Run a function in its own process; return its exit code: negative for a signal, 1 if it raised.

    Its calls go to `folder/strace.log`, with written content if `hexadecimal`; its output to `folder/said.txt`.
    `inject` hits a call, in strace's syntax: `rename:signal=KILL:when=2`.
    """
    ready, started = os.pipe()

    def wait_for_tracer() -> object:
        ctypes.CDLL(None).prctl(*_ANY_TRACER)
        os.write(started, b"+")
        signal.sigwait({signal.SIGUSR1})  # no traced call before strace is attached
        return action()

    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    pid = forks.start(wait_for_tracer, folder / "said.txt")
    signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    os.close(started)
    os.read(ready, 1)
    os.close(ready)
    words = ["strace", "-f", "-y", "-p", str(pid), "-o", str(folder / "strace.log"), "-e", f"trace={','.join(CALLS)}"]
    words += ["-e", f"inject={inject}"] if inject else []
    words += ["-s", "100000000", "-xx"] if hexadecimal else []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr
        messages = tracer.stderr.readline()
        os.kill(pid, signal.SIGUSR1)
        code = forks.wait(pid)
        messages += tracer.stderr.read()
    assert "attached" in messages, f"strace cannot trace here: {messages}"
    return code


def calls(folder: Path) -> Counter[str]:
    lines = (folder / "strace.log").read_text(errors="replace").splitlines()
    return Counter(match[1] for line in lines if (match := _CALL.match(line)))
