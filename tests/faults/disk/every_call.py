"""A writer run once for each of its system calls, with SIGKILL instead of the call or with the call failing.

Afterwards readers find exactly the old state or the new one, and the same command again makes the new one. A writer
whose call fails ends with the exit code of that error and one line with path and reason, or does without the call.
"""

import errno
import os
import shutil
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from components.core import errors
from tests.faults.counts import Counts, quiet
from tests.faults.disk import traced
from tests.faults.disk.writers import Writer

KILL = "signal=KILL"
ERRORS = {
    "openat": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "read": (errno.EIO,),
    "write": (errno.EIO, errno.ENOSPC),
    "sendfile": (errno.EIO, errno.ENOSPC),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "link": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "mkdir": (errno.ENOSPC, errno.EROFS),
    "unlink": (errno.EIO,),
    "unlinkat": (errno.EIO,),
    "rmdir": (errno.EIO,),
    "chmod": (errno.EROFS,),
    "fchmod": (errno.EROFS,),
    "close": (errno.EIO,),
    "flock": (errno.ENOLCK,),
}


def kill_everywhere(writer: Writer, folder: Path, every: int = 1) -> Counts:
    """Kill a writer at each of its system calls, or at every third and so on, in an empty folder."""
    # Reading changes nothing: a kill there is a kill at the next call.
    return _everywhere(writer, folder, every, lambda call: [] if call in ("read", "lseek") else [KILL])


def fail_everywhere(writer: Writer, folder: Path, every: int = 1) -> Counts:
    """Let each system call of a writer fail, with each of its possible errors."""
    return _everywhere(
        writer, folder, every, lambda call: [f"error={errno.errorcode[code]}" for code in ERRORS.get(call, ())]
    )


def states_of(writer: Writer, folder: Path) -> tuple[Any, Any]:
    """Return a reader's results before and after the writer."""
    folder.mkdir(parents=True)
    writer.prepare(folder)
    old = writer.read(folder)
    writer.write(folder)
    new = writer.read(folder)
    assert old != new
    return old, new


def exit_code_of(writer: Writer, work: Path) -> int:
    """Run a writer and exit like `components.core.stage.cli`; print the reason."""
    try:
        writer.write(work)
    except errors.StageError as error:
        print(error, flush=True)
        return error.exit_code
    except OSError as error:
        print(errors.describe_os_error(error), flush=True)
        return errors.exit_code_of(error)
    return errors.OK


def problem_of(writer: Writer, work: Path, allowed: tuple[Any, ...], new: Any) -> str:
    """Return what is wrong after an attempt, and after the same command again; empty if nothing."""
    try:
        state = writer.read(work)
        if state not in allowed:
            return f"readers find {state!r}"
        writer.write(work)
        if writer.read(work) != new:
            return f"the same command again leaves {writer.read(work)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    left = [*work.rglob(".tmp-*")]
    return f"left behind: {left}" if left else ""


@quiet()
def _everywhere(writer: Writer, folder: Path, every: int, faults_of: Callable[[str], Collection[str]]) -> Counts:
    counts, work, scratch = Counts(), folder / "work", folder / "scratch"
    old, new = states_of(writer, folder / "states")
    for new_folder in (folder / "old", work, scratch):
        new_folder.mkdir()
    writer.prepare(folder / "old")

    def run(inject: str = "") -> int:
        shutil.rmtree(work)
        shutil.copytree(folder / "old", work)
        return traced.run(lambda: exit_code_of(writer, work), scratch, inject)

    assert run() == 0, (scratch / "said.txt").read_text()
    calls = [(call, number) for call, count in sorted(traced.calls(scratch).items()) for number in range(count)]
    for call, number in calls[::every]:
        for fault in faults_of(call):
            inject = f"{call}:{fault}:when={number + 1}"
            code = run(inject)
            if fault == KILL:
                fired = code == -signal.SIGKILL
                problem = "" if fired or code == 0 else f"it was not killed but ended with {code}"
            else:
                fired = "(INJECTED)" in (scratch / "strace.log").read_text(errors="replace")
                problem = _problem_of_ending(code, (scratch / "said.txt").read_text(), fault, work)
            # A failing or killed writer may leave the old state; one that reports success must leave the new one.
            allowed = (old, new) if code or writer.tolerant else (new,)
            problem = problem or problem_of(writer, work, allowed, new)
            if (
                fired or code or problem
            ):  # otherwise there was no such call: the number of closes by the garbage collector varies
                counts.add(fired, f"{writer.name}, {inject}: {problem}" if problem else "")
    return counts


def _problem_of_ending(code: int, output: str, fault: str, work: Path) -> str:
    if code == errors.OK:
        return ""
    failure = getattr(errno, fault.removeprefix("error="))
    expected = errors.exit_code_of(OSError(failure, ""))
    if code != expected:
        return f"it ended with {code}, expected {expected}: {output}"
    reason = os.strerror(failure)
    if len(output.splitlines()) != 1 or reason not in output or str(work) not in output or ".tmp-" in output:
        return f"it says {output!r}, which is not one line that names {reason!r} and the path"
    return ""
