"""The process that decodes image files for `components.preprocess.decoder`: what a file does to it, it does to nothing
else.

It is told batches on its standard input and answers on its standard output, many images at once, since every wake-up of
the other side costs as much as a small image. Before an image it notes the number of that in a file, so that whoever
started it knows which one it died of. It ends with its input.
"""

import json
import os
import resource
import signal
import struct
import sys
import warnings

from components.preprocess import pixels
from components.records import ImageShape

READY = b"decoder\n"
DECODED, UNDECODABLE = 0, 1
ANSWER = struct.Struct("<BI")  # which of the two, bytes that follow: pixels, or the reason
NUMBER = struct.Struct("<I")  # of the image within its batch
_READ_AT_ONCE = 1 << 20  # bytes
_ANSWERED_AT_ONCE = 1 << 20  # bytes
OUT_OF_MEMORY = 77  # exit status


def main(memory: int, seconds: int, numbers: int) -> None:
    """Decodes until the input ends.

    Args:
        memory: Bytes that this process may take.
        seconds: Processor time that an image may take; with more, SIGPROF ends the process.
        numbers: The open file that says which image is being decoded.
    """
    for meant_for_parent in (signal.SIGINT, signal.SIGTERM):  # whose end ends this
        signal.signal(meant_for_parent, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    warnings.simplefilter("ignore")  # Pillow's remarks on odd but decodable files
    requests, answers = open(sys.stdin.fileno(), "rb", _READ_AT_ONCE, closefd=False), sys.stdout.fileno()  # noqa: SIM115
    _write(answers, READY)
    while line := requests.readline():
        shape, resize, sizes = json.loads(line)
        contents = [requests.read(size) for size in sizes]  # all of it, so that neither side waits for the other
        kept = bytearray()
        for number in range(len(sizes)):
            os.pwrite(numbers, NUMBER.pack(number), 0)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            kept += _answer(contents.pop(), ImageShape(*shape), resize)
            if len(kept) >= _ANSWERED_AT_ONCE:
                _write(answers, kept)
                kept.clear()
        _write(answers, kept)


def _answer(content: bytes, shape: ImageShape, resize: str) -> bytes:
    try:
        found = pixels.from_file(content, shape, resize)
        return ANSWER.pack(DECODED, len(found)) + found
    except pixels.UndecodableImage as error:
        reason = str(error).encode()
        return ANSWER.pack(UNDECODABLE, len(reason)) + reason
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _write(handle: int, content: bytes | bytearray) -> None:
    with memoryview(content) as whole:
        written = 0
        while written < len(whole):
            written += os.write(handle, whole[written:])
