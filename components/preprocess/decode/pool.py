"""Decode image files in processes with limits, so that a file that crashes, hangs or fills the memory costs one image.

A process decodes batch after batch. If one ends, each image of its batch is decoded alone in another process, and an
image that ends that one too is quarantined.
"""

import atexit
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import Pipe, wait
from typing import NamedTuple, TypeVar

from components.core.artifacts.datasets import ImageShape
from components.core.errors import TransientError
from components.core.sources import concurrent
from components.preprocess.decode import decoder_process as process
from components.preprocess.decode.pixels import UndecodableImage

Tag = TypeVar("Tag")
IMAGES_AT_ONCE = 50  # in a batch
_PIXEL_BYTES = 1 << 20
_LARGEST_REASON = 1 << 16
_SECONDS_TO_END = 10
_SECONDS_TO_START = 300.0
_FAILED = (EOFError, OSError, ValueError, struct.error)  # it died, does nothing, or answers nonsense
# A program of its own instead of `multiprocessing.Process`, which would import the main module and so Beam.
# `sys.path` is handed over, so that the process has this code in any working directory.
_PROGRAM = """
import json, sys
sys.path[:], handle, memory, seconds = json.loads(sys.argv[1])
from components.preprocess.decode import decoder_process
decoder_process.main(handle, memory, seconds)
"""


class Limits(NamedTuple):
    """What decoding one image may take: bytes of memory, seconds of processor time, seconds without an answer.

    Processor time decides, so that a busy machine quarantines no image; the last is for what waits and does nothing.
    """

    memory: int = 768 << 20
    processor_seconds: int = 60
    seconds: float = 300


LIMITS = Limits()


class Batch:
    """Image files that a process decodes, as `pixels.from_file` does, while their owner does something else.

    Raises:
        TransientError: No process can be started.
    """

    def __init__(self, contents: Sequence[bytes], shape: ImageShape, resize: str) -> None:
        self._contents, self._shape, self._resize = contents, shape, resize
        self.process = _idle_process()
        self.process.send(contents, shape, resize)

    def results(self) -> list[bytes | UndecodableImage]:
        """Returns the pixels of each image, or why it cannot be used; to be asked for once."""
        try:
            found = self.process.answers(len(self._contents), self._shape)
        except _FAILED:
            self.process.end()
            return [self._alone(content) for content in self._contents]
        _idle().append(self.process)
        return found

    def _alone(self, content: bytes) -> bytes | UndecodableImage:
        alone = _idle_process()
        try:
            alone.send([content], self._shape, self._resize)
            (found,) = alone.answers(1, self._shape)
        except _FAILED as error:
            reason = alone.reason(error)
            alone.end()
            return UndecodableImage(reason)
        _idle().append(alone)
        return found


def decode(contents: Sequence[bytes], shape: ImageShape, resize: str) -> list[bytes | UndecodableImage]:
    """Decodes image files, and does nothing else meanwhile; see `Batch`."""
    return Batch(contents, shape, resize).results()


def decode_all(
    batches: Iterable[tuple[Tag, Sequence[bytes]]], shape: ImageShape, resize: str, processes: int
) -> Generator[tuple[Tag, list[bytes | UndecodableImage]], None, None]:
    """Decode batches of image files, some at once, and yield what came of each as soon as it is done.

    Args:
        batches: The files of each, with what the caller knows it by.
        shape: The shape asked for.
        resize: As in `pixels.fitted`.
        processes: How many batches are decoded at once.

    Raises:
        TransientError: No process can be started.
    """
    running: dict[Batch, Tag] = {}

    def done(left: int) -> Iterator[tuple[Tag, list[bytes | UndecodableImage]]]:
        while len(running) > left:
            batch = first_answered([*running])
            yield running.pop(batch), batch.results()

    try:
        for tag, contents in batches:
            running[Batch(contents, shape, resize)] = tag
            yield from done(processes - 1)
        yield from done(0)
    finally:
        for batch in running:
            batch.process.end()


def first_answered(batches: Sequence[Batch]) -> Batch:
    """Returns the batch that is answered first, or the first one if none is for long."""
    by_connection = {batch.process.connection: batch for batch in batches}
    while answered := wait(by_connection, LIMITS.seconds):
        batch = by_connection[answered[0]]  # type: ignore[index]
        if batch.process.has_answered():
            return batch
    return batches[0]


def images_at_once(shape: ImageShape) -> int:
    """How many images a batch may have, so that its pixels take about a megabyte."""
    return max(1, min(IMAGES_AT_ONCE, _PIXEL_BYTES // (shape.height * shape.width * shape.channels)))


def wanted() -> int:
    """How many processes keep this machine at work: two more than processors, so that batches wait and not these."""
    return concurrent.processors() + 2


def start(images: int) -> None:
    """Starts as many processes as so many images will want, while their owner does something else."""
    _idle().extend([_idle_process() for _ in range(min(wanted(), -(-images // IMAGES_AT_ONCE)))])


def end_processes() -> None:
    """Ends the processes that this one has started."""
    _idle_of.pop(os.getpid(), None)
    for each in _alive_of.pop(os.getpid(), set()):
        each.end()


# By the process that started them: a fork of it must not speak with them.
_alive_of: dict[int, set["_Process"]] = {}
_idle_of: dict[int, list["_Process"]] = {}


def _idle() -> list["_Process"]:
    return _idle_of.setdefault(os.getpid(), [])


def _idle_process() -> "_Process":
    """Takes a process that has nothing to do, or starts one. Each thread gets another."""
    while True:
        try:
            found = _idle().pop()
        except IndexError:
            return _Process(LIMITS)
        if found.is_alive():
            return found
        found.end()


class _Process:
    """One process that decodes. Used by one thread at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ready = False
        self.connection, theirs = Pipe()
        with theirs:
            given = json.dumps([sys.path, theirs.fileno(), limits.memory, limits.processor_seconds])
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # which belongs to the results of the stage
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would take memory and have no use
                pass_fds=[theirs.fileno()],
            )
        if os.getpid() not in _alive_of:
            atexit.register(end_processes)
        _alive_of.setdefault(os.getpid(), set()).add(self)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, contents: Sequence[bytes], shape: ImageShape, resize: str) -> None:
        """Sends what to decode. If the process is dead, `answers` notices."""
        head = json.dumps([[shape.height, shape.width, shape.channels], resize, [len(each) for each in contents]])
        with contextlib.suppress(ConnectionError):
            self.connection.send_bytes(b"".join([head.encode(), b"\n", *contents]))

    def has_answered(self) -> bool:
        """Whether what can be received is an answer, or the end, and not the message that the process is ready."""
        self._require_ready()
        return self.connection.poll()

    def answers(self, count: int, shape: ImageShape) -> list[bytes | UndecodableImage]:
        """Receives the pixels of so many images, or why one cannot be used.

        Raises:
            _FAILED: Another process has to decode them.
            TransientError: It never began.
        """
        self._require_ready()
        if not self.connection.poll(self._limits.seconds):
            raise TimeoutError
        size = shape.height * shape.width * shape.channels
        answer = self.connection.recv_bytes(count * (process.ANSWER.size + max(size, _LARGEST_REASON)))
        found: list[bytes | UndecodableImage] = []
        at = 0
        while at < len(answer):
            kind, length = process.ANSWER.unpack_from(answer, at)
            start = at + process.ANSWER.size
            at = start + length
            content = answer[start:at]
            if kind == process.DECODED and len(content) == length == size:
                found.append(content)
            elif kind == process.UNDECODABLE and len(content) == length <= _LARGEST_REASON:
                found.append(UndecodableImage(content.decode("utf-8", "backslashreplace")))
            else:
                raise ValueError
        if len(found) != count:
            raise ValueError
        return found

    def end(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        self.connection.close()
        _alive_of.get(os.getpid(), set()).discard(self)

    def reason(self, error: Exception) -> str:
        """Says why an image cannot be used that brought this error about."""
        if isinstance(error, TimeoutError):
            return f"cannot be decoded: it does nothing for {self._limits.seconds:g} s"
        if not isinstance(error, EOFError | ConnectionError):
            return "makes the decoder answer nonsense"
        ended_with = self._ended_with()
        if self._process.returncode == -signal.SIGPROF:
            return f"cannot be decoded: it takes more than {self._limits.processor_seconds} s of processor time"
        if self._process.returncode == process.OUT_OF_MEMORY:
            return f"cannot be decoded: it takes more than {self._limits.memory >> 20} MiB of memory"
        return f"cannot be decoded: the decoder ended with {ended_with}"

    def _require_ready(self) -> None:
        if not self._ready:
            with contextlib.suppress(EOFError, OSError):
                started = self.connection.poll(_SECONDS_TO_START)
                self._ready = started and self.connection.recv_bytes(len(process.READY)) == process.READY
        if not self._ready:
            status = self._ended_with()
            self.end()
            raise TransientError(
                f"the process that decodes images does not start: it ended with {status}; what it said is above, and a "
                "machine with more memory may help"
            )

    def _ended_with(self) -> str:
        """The exit status, or the signal, of the process, which is about to end: it answers no more."""
        try:
            status = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"
