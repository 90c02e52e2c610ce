"""sha256 of many files: in processes beside this one, since Python opens and reads small files one at a time.

A process is told files on its standard input, some in a line, and answers a line for each. It ends with its input. What
it cannot read is read here, so that errors arise where they are told. Standard library only.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

LARGEST_IMAGE_FILE = 64 << 20  # bytes; a larger image file is neither hashed nor decoded
_FEW = 4_000  # files that are read in about as long as a process takes to start
_AT_ONCE = 200  # files in a line, whose answer a pipe holds three times: nobody waits to write while the other does
_BEGUN = 2  # lines that a process has at a time
# `sys.path` is handed over, so that the process has this code, whatever folder it is started in.
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from components import source_hashing, sources
source_hashing.answer(sources.sha256_of_path)
"""


class File(NamedTuple):
    """A file of this machine: its path, its size in bytes when it was listed, its sha256 if that is known."""

    place: str
    bytes: int
    sha256: str = ""


def hashed(files: Iterable[File], sha256_of: Callable[[str, int], str]) -> Generator[str, None, None]:
    """Yields the sha256 of each file, in order: what is known, or what is read.

    Args:
        files: Which; few are taken before they are needed.
        sha256_of: Reads one in this process, of its path and size; the processes do the same.
    """
    remaining = iter(files)
    for file in _until_many(remaining):
        yield file.sha256 or sha256_of(file.place, file.bytes)
    first = [*itertools.islice(remaining, _AT_ONCE)]
    if not first:
        return
    begun: deque[tuple[list[File], _Process]] = deque()
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_Process()) for _ in range(len(os.sched_getaffinity(0)))]
        in_turns = itertools.cycle(processes)
        for some in itertools.chain([first], iter(lambda: [*itertools.islice(remaining, _AT_ONCE)], [])):
            process = next(in_turns)
            process.ask([(file.place, file.bytes) for file in some if not file.sha256])
            begun.append((some, process))
            if len(begun) == _BEGUN * len(processes):
                yield from _answered(*begun.popleft(), sha256_of)
        while begun:
            yield from _answered(*begun.popleft(), sha256_of)


def answer(sha256_of: Callable[[str, int], str]) -> None:
    """What a process does until its input ends."""
    for meant_for_parent in (signal.SIGINT, signal.SIGTERM):  # whose end ends this
        signal.signal(meant_for_parent, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    for line in sys.stdin:
        found = []
        for place, size in json.loads(line):
            try:
                found.append(sha256_of(place, size))
            except Exception:  # whatever it is, whoever asked comes upon it again
                found.append("")
        print(json.dumps(found), flush=True)


def _until_many(remaining: Iterator[File]) -> Iterator[File]:
    """Files until so many of them are to be read that processes are worth it."""
    unknown = 0
    for file in remaining:
        yield file
        unknown += not file.sha256
        if unknown == _FEW:
            return


def _answered(some: list[File], process: "_Process", sha256_of: Callable[[str, int], str]) -> Iterator[str]:
    answers = iter(process.answer())
    for file in some:
        yield file.sha256 or next(answers, "") or sha256_of(file.place, file.bytes)


class _Process:
    """One process that reads files. One that died, or does not start, answers nothing."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, files: list[tuple[str, int]]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(files).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> list[str]:
        """The sha256 of each file of the line that was asked for first; nothing for those that it cannot read."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        found: list[str] = json.loads(line) if line.endswith(b"\n") else []
        return found
