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
from components.preprocess import threads
from components.preprocess.pixels import UndecodableImage
from components.records import ImageShape

IMAGES_AT_ONCE = 50  # in a batch, of which a process makes about a megabyte
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
    is noticed after three times as long at most.
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


class Batch:
    """Image files that a process decodes, as `pixels.from_file` does, while their owner does something else.

    Args:
        contents: The bytes of each file, together no more than a process may take.
        shape: The shape asked for.
        resize: As in `pixels.fitted`.

    Raises:
        TransientError: No process can be started.
    """

    def __init__(self, contents: Sequence[bytes], shape: ImageShape, resize: str) -> None:
        self._contents, self._shape, self._resize = contents, shape, resize
        self._found: list[bytes | UndecodableImage] = []
        self._deadly: set[int] = set()
        self._process = self._begun() if contents else None

    def results(self) -> list[bytes | UndecodableImage]:
        """The pixels of each, or why it cannot be used; to be asked for once.

        Raises:
            TransientError: No process can be started in place of one that died.
        """
        while self._process is not None:
            first = len(self._found)
            try:
                for answer in self._process.answers():
                    self._found.append(answer)
            except _Died as died:
                self._process.end()
                if first in self._deadly:
                    self._found.append(UndecodableImage(str(died)))
                else:
                    self._deadly.add(max(len(self._found), first + died.number))
            except BaseException:
                self._process.end()
                raise
            else:
                _idle.setdefault(os.getpid(), []).append(self._process)
            self._process = self._begun() if len(self._found) < len(self._contents) else None
        return self._found

    def answered_by(self) -> int | None:
        """The handle that can be read once there is an answer; None if nothing has to be waited for."""
        return self._process.answered_by() if self._process is not None else None

    def is_answered(self) -> bool:
        """Whether what can be read is an answer, and not that the process has started."""
        return self._process is None or self._process.is_answering()

    def _begun(self) -> "_Process":
        """Hands the next images to a process: one alone that another process died of, else all before such a one."""
        start = len(self._found)
        if start in self._deadly:
            end = start + 1
        else:
            end = min((number for number in self._deadly if number > start), default=len(self._contents))
        process = _taken()
        process.send(self._contents[start:end], self._shape, self._resize)
        return process


def decode(contents: Sequence[bytes], shape: ImageShape, resize: str) -> list[bytes | UndecodableImage]:
    """Decodes image files, and does nothing else meanwhile; see `Batch`."""
    return Batch(contents, shape, resize).results()


def first_answered(batches: Sequence[Batch]) -> Batch:
    """The batch that an answer comes of first; the first one if none comes for long."""
    waiting = select.poll()
    by_handle = {}
    for batch in batches:
        handle = batch.answered_by()
        if handle is None:
            return batch
        by_handle[handle] = batch
        waiting.register(handle, select.POLLIN)
    while answered := waiting.poll(1000 * LIMITS.seconds):
        batch = by_handle[answered[0][0]]
        if batch.is_answered():
            return batch
    return batches[0]


def wanted() -> int:
    """How many processes keep this machine at work: two more than processors, so that batches wait and not these."""
    return threads.processors() + 2


def start(images: int) -> None:
    """Starts as many processes as will be wanted for so many images, while their owner does something else.

    Raises:
        TransientError: No process can be started.
    """
    started = [_taken() for _ in range(min(wanted(), -(-images // IMAGES_AT_ONCE)))]
    _idle.setdefault(os.getpid(), []).extend(started)


def end_processes() -> None:
    """Ends the processes of this one, whatever they do."""
    _idle.pop(os.getpid(), None)
    for each in _alive.pop(os.getpid(), set()):
        each.end()


# By the process that started them: a fork of it must not speak with them.
_alive: dict[int, set["_Process"]] = {}
_idle: dict[int, list["_Process"]] = {}


def _taken() -> "_Process":
    """A process that has nothing to do."""
    if os.getpid() not in _alive:
        atexit.register(end_processes)
    alive, idle = _alive.setdefault(os.getpid(), set()), _idle.setdefault(os.getpid(), [])
    try:
        return idle.pop()  # whatever other threads do meanwhile, they get another one
    except IndexError:
        process = _Process(LIMITS)
        alive.add(process)
        return process


class _Process:
    """One process that decodes. Used by one thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self._numbers = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        told = json.dumps([sys.path, limits.memory, limits.processor_seconds, self._numbers.fileno()])
        self._limits = limits
        self._buffer = bytearray()
        self._count = self._expected = 1
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
        self._ready = False

    def send(self, contents: Sequence[bytes], shape: ImageShape, resize: str) -> None:
        """Tells it what to decode. If it died meanwhile, that is told by `answers`."""
        backwards = contents[::-1]  # so that the process can take them off the end
        sizes = [len(content) for content in backwards]
        told = json.dumps([[shape.height, shape.width, shape.channels], resize, sizes]).encode() + b"\n"
        os.pwrite(self._numbers.fileno(), process.NUMBER.pack(0), 0)
        self._count, self._expected = len(contents), shape.height * shape.width * shape.channels
        with contextlib.suppress(BrokenPipeError):
            self._write(b"".join([told, *backwards]))  # at once, since each write wakes the process

    def answers(self) -> Iterator[bytes | UndecodableImage]:
        """Yields the pixels of each image that it was sent, or why it cannot be used.

        Raises:
            _Died: The process died of the image that comes next.
            TransientError: It never began.
        """
        if not self._ready:
            self._await_start()
        for _ in range(self._count):
            kind, length = process.ANSWER.unpack(self._read(process.ANSWER.size))
            if kind == process.DECODED and length == self._expected:
                yield self._read(length)
            elif kind == process.UNDECODABLE and length <= _LARGEST_REASON:
                yield UndecodableImage(self._read(length).decode("utf-8", "backslashreplace"))
            else:
                raise _Died("makes the decoder answer nonsense", self._number())

    def is_answering(self) -> bool:
        """Whether there is an answer, or none will come, once something can be read."""
        if self._ready:
            return True
        self._await_start()
        return bool(self._buffer)

    def _await_start(self) -> None:
        with contextlib.suppress(_Died):
            self._ready = self._read(len(process.READY), _SECONDS_TO_START) == process.READY
        if not self._ready:
            self.end()
            raise TransientError(
                f"the process that decodes images does not start: it ended with {self._ended_with()}; what it said is "
                "above, and a machine with more memory may help"
            )

    def answered_by(self) -> int:
        """The handle that can be read once it answers, or died."""
        return self._responses.fileno()

    def end(self) -> None:
        """Ends the process at once."""
        _alive.get(os.getpid(), set()).discard(self)
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
