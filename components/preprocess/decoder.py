"""Decoding image files in another process, with limits: a file that crashes the decoder, never comes to an end or takes
all memory is one image that cannot be used, and nothing else.

A process decodes batch after batch, and is replaced once it died. The image that it died of is tried once more, alone:
what ends two processes is set aside, whatever else the first one had decoded before. Only pixels of the size asked for,
or a reason, are taken from it, and the number of the image that it is at.
"""

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from components.errors import TransientError
from components.preprocess import decoder_process as process
from components.preprocess.pixels import UndecodableImage
from components.records import ImageShape

_LARGEST_REASON = 1 << 16
_PIPE_BYTES = 1 << 20  # the most that Linux lets a pipe hold without a privilege
_SECONDS_TO_END = 10
_SECONDS_TO_START = 300.0
# `sys.path` is handed over, so that the process has this code, whatever folder it is started in.
_PROGRAM = """
import json, sys
sys.path[:], memory, seconds, numbers = json.loads(sys.argv[1])
from components.preprocess import decoder_process
decoder_process.main(memory, seconds, numbers)
"""


class Limits(NamedTuple):
    """What decoding one image may take: bytes of memory, seconds of processor time, seconds without an answer.

    Processor time decides, so that a busy machine sets no image aside; the last is for what waits and does nothing, and
    is noticed after twice as long at most.
    """

    memory: int = 768 << 20
    processor_seconds: int = 60
    seconds: float = 300


LIMITS = Limits()


class _Died(Exception):
    """The process ended before its answer, or was ended.

    Attributes:
        number: The image of the batch that it was at.
    """

    def __init__(self, reason: str, number: int) -> None:
        super().__init__(reason)  # said of the image
        self.number = number


def decode(contents: Sequence[bytes], shape: ImageShape, resize: str) -> list[bytes | UndecodableImage]:
    """Decodes image files as `pixels.from_file` does.

    Args:
        contents: The bytes of each file, together no more than a process may take.
        shape: The shape asked for.
        resize: As in `pixels.fitted`.

    Returns:
        The pixels of each, or why it cannot be used.

    Raises:
        TransientError: No process can be started.
    """
    found: list[bytes | UndecodableImage] = []
    deadly: set[int] = set()
    while len(found) < len(contents):
        start = len(found)
        alone = start in deadly
        end = start + 1 if alone else min((number for number in deadly if number > start), default=len(contents))
        try:
            for answer in _answers(contents[start:end], shape, resize):
                found.append(answer)
        except _Died as died:
            if alone:
                found.append(UndecodableImage(str(died)))
            else:
                deadly.add(max(len(found), start + died.number))
    return found


def end_processes() -> None:
    """Ends the processes of this one that have nothing to do."""
    for each in _idle.pop(os.getpid(), []):
        each.end()


_idle: dict[int, list["_Process"]] = {}  # by the process that started them: a fork of it must not speak with them


def _answers(contents: Sequence[bytes], shape: ImageShape, resize: str) -> Iterator[bytes | UndecodableImage]:
    if os.getpid() not in _idle:
        atexit.register(end_processes)
    idle = _idle.setdefault(os.getpid(), [])
    try:
        worker = idle.pop()  # whatever other threads do meanwhile, they get another one
    except IndexError:
        worker = _Process(LIMITS)
    try:
        yield from worker.decode(contents, shape, resize)
    except BaseException:
        worker.end()
        raise
    idle.append(worker)


class _Process:
    """One process that decodes. Used by one thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self._numbers = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        told = json.dumps([sys.path, limits.memory, limits.processor_seconds, self._numbers.fileno()])
        self._limits = limits
        self._buffer = bytearray()
        self._count = 1
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would take memory and have no use
            bufsize=0,
            pass_fds=[self._numbers.fileno()],
        )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._requests, self._responses = self._process.stdin, self._process.stdout
        for pipe in (self._requests, self._responses):
            with contextlib.suppress(OSError):  # the user's pipes hold too much already; then there are more wake-ups
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._answered = select.poll()
        self._answered.register(self._responses, select.POLLIN)
        try:
            ready = self._read(len(process.READY), _SECONDS_TO_START) == process.READY
        except _Died:
            ready = False
        if not ready:
            self.end()
            raise TransientError(
                f"the process that decodes images does not start: it ended with {self._ended_with()}; what it said is "
                "above, and a machine with more memory may help"
            )

    def decode(self, contents: Sequence[bytes], shape: ImageShape, resize: str) -> Iterator[bytes | UndecodableImage]:
        """Yields the pixels of each image, or why it cannot be used.

        Raises:
            _Died: The process died of the image that comes next.
        """
        backwards = contents[::-1]  # so that the process can take them off the end
        sizes = [len(content) for content in backwards]
        told = json.dumps([[shape.height, shape.width, shape.channels], resize, sizes]).encode() + b"\n"
        os.pwrite(self._numbers.fileno(), process.NUMBER.pack(0), 0)
        self._count = len(contents)
        try:
            self._write(b"".join([told, *backwards]))  # at once, since each write wakes the process
        except BrokenPipeError:
            raise self._died() from None
        for _ in contents:
            kind, length = process.ANSWER.unpack(self._read(process.ANSWER.size))
            expected = shape.height * shape.width * shape.channels
            if kind == process.DECODED and length == expected:
                yield self._read(length)
            elif kind == process.UNDECODABLE and length <= _LARGEST_REASON:
                yield UndecodableImage(self._read(length).decode("utf-8", "backslashreplace"))
            else:
                raise _Died("makes the decoder answer nonsense", self._number())

    def end(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._requests.close()
        self._responses.close()
        self._numbers.close()
        self._process.wait()

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._requests.fileno(), rest) :]

    def _read(self, count: int, patience: float = 0.0) -> bytes:
        while len(self._buffer) < count:
            self._wait(patience or self._limits.seconds)
            read = os.read(self._responses.fileno(), _PIPE_BYTES)
            if not read:
                raise self._died()
            self._buffer += read
        with memoryview(self._buffer) as buffered:
            found = bytes(buffered[:count])
        del self._buffer[:count]
        return found

    def _wait(self, seconds: float) -> None:
        """Waits for an answer as long as the process gets from image to image."""
        number = -1
        while not self._answered.poll(1000 * seconds):
            before, number = number, self._number()
            if number == before:
                raise _Died(f"cannot be decoded: it does nothing for {seconds:g} s", number)

    def _number(self) -> int:
        """The image of the batch that the process is at, as it says."""
        noted = os.pread(self._numbers.fileno(), process.NUMBER.size, 0)
        return min(process.NUMBER.unpack(noted)[0], self._count - 1) if len(noted) == process.NUMBER.size else 0

    def _died(self) -> _Died:
        """Why the process ended, said of the image that it was at."""
        status = self._status()
        if status == -signal.SIGPROF:
            reason = f"it takes more than {self._limits.processor_seconds} s of processor time"
        elif status == process.OUT_OF_MEMORY:
            reason = f"it takes more than {self._limits.memory >> 20} MiB of memory"
        else:
            reason = f"the decoder ended with {self._ended_with()}"
        return _Died(f"cannot be decoded: {reason}", self._number())

    def _ended_with(self) -> str:
        status = self._status()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def _status(self) -> int:
        """The exit status, or minus the signal, of the process, which is about to end: it answers no more."""
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
