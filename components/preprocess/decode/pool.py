"""Decode image files in processes with limits, so that a file that crashes, loops or fills the memory costs one image.

A process decodes batch after batch. If one ends, each image of its batch is decoded alone in another process, and an
image that ends that one too is quarantined.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import TypeVar

from components.core import concurrent
from components.core.artifacts.datasets import ImageShape
from components.core.data.pixels import Colors, Decoded, UndecodableImage
from components.core.errors import TransientError
from components.preprocess.decode import decoder_process

Tag = TypeVar("Tag")
IMAGES_AT_ONCE = 50  # in a batch
_LARGEST_REASON = 1 << 16
_SECONDS_TO_END = 10.0
# Limits for decoding one image. One of elapsed time would quarantine images on a busy machine, and decoding waits for
# nothing.
MEMORY = 768 << 20  # bytes
PROCESSOR_SECONDS = 60
# The process died, or answers nonsense.
_FAILED = (EOFError, OSError, ValueError, TypeError, AttributeError, RecursionError)
# A separate program instead of `multiprocessing.Process`, which would import the main module and so Beam.
# `sys.path` is handed over, so that the process has this code in any working directory.
_PROGRAM = """
import json, sys
sys.path[:], handle, memory, seconds = json.loads(sys.argv[1])
from components.preprocess.decode import decoder_process
decoder_process.main(handle, memory, seconds)
"""
_idle: list["_Process"] = []


def decode_all(
    batches: Iterable[tuple[Tag, Sequence[bytes]]],
    shape: ImageShape,
    resize: str,
    processes: int,
    colors: Colors = ("white", 0),
    is_retry: bool = False,
) -> Generator[tuple[Tag, list[Decoded | UndecodableImage]], None, None]:
    """Decode several batches of image files at once; yield the result of each as soon as it is ready.

    For each file it has what `pixels.from_file` returns, or why the file cannot be used. `is_retry` tries none again.
    """
    running: dict[Connection, tuple[_Process, Tag, Sequence[bytes]]] = {}

    def done(left: int) -> Iterator[tuple[Tag, list[Decoded | UndecodableImage]]]:
        while len(running) > left:
            # `wait` returns one of these connections; its stub says anything to wait for.
            process, tag, contents = running[wait(running)[0]]  # type: ignore[index]
            process.require_ready()
            if not process.connection.poll():
                continue  # that it is ready was all it sent
            del running[process.connection]
            try:
                images = process.answer(len(contents), shape.size)
                _idle.append(process)
            except _FAILED as error:
                images = [UndecodableImage(process.end_after(error))]
                if not is_retry:
                    alone = ((None, [content]) for content in contents)
                    images = [image for _, [image] in decode_all(alone, shape, resize, 1, colors, is_retry=True)]
            yield tag, images

    try:
        for tag, contents in batches:
            process = _idle_or_new()
            with contextlib.suppress(ConnectionError):  # if it is dead, its answer is missing
                process.connection.send((contents, shape, resize, colors))
            running[process.connection] = process, tag, contents
            yield from done(processes - 1)
        yield from done(0)
    finally:
        for process, _, _ in running.values():
            process.end()


def wanted() -> int:
    """Return how many processes keep this machine busy: two more than processors, so that work always waits."""
    return concurrent.processors() + 2


def start(images: int) -> None:
    """Start as many processes as so many images need, while the caller does something else."""
    _idle.extend([_Process() for _ in range(min(wanted(), -(-images // IMAGES_AT_ONCE)))])


def _idle_or_new() -> "_Process":
    """Return a process that waits for work. Each thread gets another."""
    try:
        while (process := _idle.pop()).process.poll() is not None:
            process.end()
    except IndexError:
        process = _Process()
    return process


class _Process:
    """One decoder process. Used by one thread at a time."""

    def __init__(self) -> None:
        self._ready = False
        self.connection, child_end = Pipe()
        with child_end:
            arguments = json.dumps([sys.path, child_end.fileno(), MEMORY, PROCESSOR_SECONDS])
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # stdout is for the stage's results
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would take memory and are useless here
                pass_fds=[child_end.fileno()],
            )
        atexit.register(self.end)

    def require_ready(self) -> None:
        """Wait until the process has started; `TransientError` if it cannot."""
        with contextlib.suppress(EOFError, OSError):
            ready = decoder_process.READY
            self._ready = self._ready or self.connection.recv_bytes(len(ready)) == ready
        if not self._ready:
            raise TransientError(
                f"the process that decodes images does not start: it ended with {_name(self.end(_SECONDS_TO_END))}; "
                "its output is above, and a machine with more memory may help"
            )

    def answer(self, count: int, size: int) -> list[Decoded | UndecodableImage]:
        """Receive the pixels of `count` images, or why one cannot be decoded; raise one of `_FAILED` otherwise."""
        head, _, pixels = self.connection.recv_bytes(count * (size + _LARGEST_REASON)).partition(b"\n")
        notes = json.loads(head)
        if len(notes) != count or len(pixels) != size * sum(isinstance(note, bool) for note in notes):
            raise ValueError
        images = (pixels[start : start + size] for start in range(0, len(pixels), size))
        return [Decoded(next(images), note) if isinstance(note, bool) else UndecodableImage(note) for note in notes]

    def end(self, seconds: float = 0) -> int:
        """End the process, unless it does so itself within some seconds; return its exit status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.process.kill()
        self.connection.close()
        return self.process.wait()

    def end_after(self, error: Exception) -> str:
        """End the process after an error, and return why the image that caused it cannot be decoded."""
        if not isinstance(error, EOFError | ConnectionError):
            self.end()
            return "makes the decoder return garbage"
        status = self.end(_SECONDS_TO_END)
        if status == -signal.SIGPROF:
            return f"cannot be decoded: it takes more than {PROCESSOR_SECONDS} s of processor time"
        if status == decoder_process.OUT_OF_MEMORY:
            return f"cannot be decoded: it takes more than {MEMORY >> 20} MiB of memory"
        return f"cannot be decoded: the decoder ended with {_name(status)}"


def _name(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"
