"""The process that decodes image files for `pool`: it answers each batch of files with their pixels.

It ends when its parent closes the connection, or dies. It receives contents, shape, resizing and colors, and sends a
line of JSON and then bytes: for each file why it cannot be used, or whether much of it was cropped, then the pixels.
"""

import json
import os
import resource
import signal
import warnings
from multiprocessing.connection import Connection

from components.core.data import pixels

READY = b"ready"
OUT_OF_MEMORY = 77  # exit status


def main(handle: int, memory: int, seconds: int) -> None:
    """Decode until the connection with this file descriptor is closed.

    The process may take so many bytes of memory, and an image so many seconds of processor time; SIGPROF then ends it.
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
            contents, shape, resize, colors = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        notes, images = list[str | bool](), list[bytes]()
        for content in contents:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                image, is_cropped = pixels.from_file(content, shape, resize, colors)
                images.append(image)
                notes.append(is_cropped)
            except pixels.UndecodableImage as error:
                notes.append(str(error))
            except MemoryError:
                os._exit(OUT_OF_MEMORY)
        connection.send_bytes(b"".join([json.dumps(notes).encode(), b"\n", *images]))
