"""The process that decodes image files for `pool`: it answers each batch of files with their pixels.

It ends when its parent closes the connection, or dies. A message is a line of JSON and then bytes. It receives shape,
resizing and sizes of files, then the files; it sends for each why it cannot be used, or whether much of it was cropped,
then the pixels.
"""

import json
import os
import resource
import signal
import warnings
from multiprocessing.connection import Connection

from components.core.artifacts.datasets import ImageShape
from components.preprocess.decode import pixels

READY = b"ready"
OUT_OF_MEMORY = 77  # exit status


def main(handle: int, memory: int, seconds: int) -> None:
    """Decode until the connection with this file descriptor is closed.

    Args:
        memory: Bytes that this process may take.
        seconds: Processor time that an image may take; SIGPROF then ends the process.
    """
    for meant_for_parent in (signal.SIGINT, signal.SIGTERM):  # the parent's end ends this process
        signal.signal(meant_for_parent, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    warnings.simplefilter("ignore")  # Pillow warns about odd but decodable files
    connection = Connection(handle)
    connection.send_bytes(READY)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            return
        connection.send_bytes(_answer(message, seconds))


def _answer(message: bytes, seconds: int) -> bytes:
    start = message.index(b"\n") + 1
    shape, resize, sizes = json.loads(message[:start])
    notes: list[str | bool] = []
    images = []
    for size in sizes:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            image, is_cropped = pixels.from_file(message[start : start + size], ImageShape(*shape), resize)
            images.append(image)
            notes.append(is_cropped)
        except pixels.UndecodableImage as error:
            notes.append(str(error))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        start += size
    return b"".join([json.dumps(notes).encode(), b"\n", *images])
