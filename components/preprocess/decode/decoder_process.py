"""The process that decodes image files for `decoder`: it answers one message of files with one of pixels or reasons.

It ends when its parent closes the connection, or dies.
"""

import json
import os
import resource
import signal
import struct
import warnings
from multiprocessing.connection import Connection

from components.core.artifacts.datasets import ImageShape
from components.preprocess.decode import pixels

READY = b"ready"
DECODED, UNDECODABLE = 0, 1
ANSWER = struct.Struct("<BI")  # which of the two, bytes that follow: pixels, or the reason
OUT_OF_MEMORY = 77  # exit status


def main(handle: int, memory: int, seconds: int) -> None:
    """Decodes until the connection is closed.

    Args:
        handle: File descriptor of the connection.
        memory: Bytes that this process may take.
        seconds: Processor time that an image may take; SIGPROF then ends the process.
    """
    for meant_for_parent in (signal.SIGINT, signal.SIGTERM):  # whose end ends this
        signal.signal(meant_for_parent, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    warnings.simplefilter("ignore")  # Pillow's remarks on odd but decodable files
    connection = Connection(handle)
    connection.send_bytes(READY)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            return
        connection.send_bytes(_answers(message, seconds))


def _answers(message: bytes, seconds: int) -> bytearray:
    start = message.index(b"\n") + 1
    shape, resize, sizes = json.loads(message[:start])
    answers = bytearray()
    for size in sizes:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answers += _answer(message[start : start + size], ImageShape(*shape), resize)
        start += size
    return answers


def _answer(content: bytes, shape: ImageShape, resize: str) -> bytes:
    try:
        found = pixels.from_file(content, shape, resize)
        return ANSWER.pack(DECODED, len(found)) + found
    except pixels.UndecodableImage as error:
        reason = str(error).encode()
        return ANSWER.pack(UNDECODABLE, len(reason)) + reason
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
