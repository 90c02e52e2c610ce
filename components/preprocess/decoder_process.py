"""The process that decodes image files for `components.preprocess.decoder`: what a file does to it, it does to nothing
else.

It is told batches on its standard input and answers each image on its standard output as soon as it is done, so that
whoever started it knows which one it died of. It ends with its input.
"""

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO

from components.preprocess import pixels
from components.records import ImageShape

READY = b"decoder\n"
DECODED, UNDECODABLE = 0, 1
ANSWER = struct.Struct("<BI")  # which of the two, bytes that follow: pixels, or the reason
OUT_OF_MEMORY = 77  # exit status


def main(memory: int, seconds: int) -> None:
    """Decodes until the input ends.

    Args:
        memory: Bytes that this process may take.
        seconds: Processor time that an image may take; with more, SIGPROF ends the process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for whoever started it, and the end of that ends this
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    requests, answers = sys.stdin.buffer, sys.stdout.fileno()
    _write(answers, READY)
    while line := requests.readline():
        shape, resize, sizes = json.loads(line)
        for answer in _answers(_contents(requests, sizes), ImageShape(*shape), resize, seconds):
            _write(answers, answer)


def _contents(requests: BinaryIO, sizes: list[int]) -> list[bytes]:
    """All of a batch, read before anything is answered, so that neither side waits for the other."""
    return [requests.read(size) for size in sizes]


def _answers(contents: list[bytes], shape: ImageShape, resize: str, seconds: int) -> Iterator[bytes]:
    """Answers to images, the last one first; each is let go before the next."""
    while contents:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            found = pixels.from_file(contents.pop(), shape, resize).tobytes()
            yield ANSWER.pack(DECODED, len(found)) + found
        except pixels.UndecodableImage as error:
            reason = str(error).encode()
            yield ANSWER.pack(UNDECODABLE, len(reason)) + reason
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def _write(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
