"""A file system that fails: a writer is run once for each of its system calls and each error that the call may have.

It ends with the exit code of that error and one line that names path and reason, or did without the call; readers find
the old state or the new, and the same command again makes the new one.
"""

import errno
import itertools
import logging
import os
import shutil
from pathlib import Path

from components.core import errors
from tests.faults import traced
from tests.faults.counts import Counts
from tests.faults.crash_points import attempts, problem_of, states_of
from tests.faults.writers import Writer

ERRORS = {
    "openat": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "read": (errno.EIO,),
    "write": (errno.EIO, errno.ENOSPC),
    "sendfile": (errno.EIO, errno.ENOSPC),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "mkdir": (errno.ENOSPC, errno.EROFS),
    "unlink": (errno.EIO,),
    "unlinkat": (errno.EIO,),
    "rmdir": (errno.EIO,),
    "chmod": (errno.EROFS,),
    "fchmod": (errno.EROFS,),
    "close": (errno.EIO,),
    "flock": (errno.ENOLCK,),
}


def exit_code_of(writer: Writer, work: Path) -> int:
    """Runs a writer and ends as `components.core.stage.cli` does; the reason is printed."""
    try:
        writer.write(work)
    except errors.StageError as error:
        print(error, flush=True)
        return error.exit_code
    except OSError as error:
        print(errors.describe_os_error(error), flush=True)
        return errors.exit_code_of(error)
    return errors.OK


def fail_everywhere(writer: Writer, folder: Path, every: int = 1) -> Counts:
    """Lets each system call of a writer fail, with each error that it may have.

    Args:
        writer: The writer.
        folder: An empty folder to work in.
        every: 1 for all calls, else only each such one, for a quick look.
    """
    counts = Counts()
    work, scratch = folder / "work", folder / "scratch"
    (folder / "states").mkdir(parents=True)
    logging.disable(logging.CRITICAL)
    try:
        old, new = states_of(writer, folder / "states")
        for call, number, _ in itertools.islice(attempts(writer, folder), 0, None, every):
            for failure in ERRORS.get(call, ()):
                shutil.rmtree(work)
                shutil.copytree(folder / "old", work)
                inject = f"{call}:error={errno.errorcode[failure]}:when={number}"
                code = traced.run(lambda: exit_code_of(writer, work), scratch, inject)
                fired = "(INJECTED)" in (scratch / "strace.log").read_text(errors="replace")
                said = (scratch / "said.txt").read_text()
                problem = _problem_of_ending(code, said, failure, work)
                # Who was told that it failed may find the old state; who was told nothing must find the new.
                allowed = (old, new) if code or writer.tolerant else (new,)
                problem = problem or problem_of(writer, work, allowed, new)
                if not fired and code == 0 and not problem:
                    continue  # there was no such call this time: what the garbage collector closes varies
                counts.add(fired, f"{writer.name}, {inject}: {problem}" if problem else "")
    finally:
        logging.disable(logging.NOTSET)
    return counts


def _problem_of_ending(code: int, said: str, failure: int, work: Path) -> str:
    if code == errors.OK:
        return ""
    expected = errors.exit_code_of(OSError(failure, ""))
    if code != expected:
        return f"it ended with {code}, expected {expected}: {said}"
    reason = os.strerror(failure)
    if len(said.splitlines()) != 1 or reason not in said or str(work) not in said or ".tmp-" in said:
        return f"it says {said!r}, which is not one line that names {reason!r} and the path"
    return ""
