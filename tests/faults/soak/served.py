"""A server of buckets for this process, with short timeouts and its own mirrors."""

import contextlib
import gc
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from components.core.storage import buckets
from tests.fakes.gcs.server import Server, serving


@contextlib.contextmanager
def quick_server(folder: Path, **seconds: float) -> Iterator[Server]:
    """Serve until the block ends; mirrors are in the folder, and the given constants of `buckets` are replaced."""
    (folder / "scratch").mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        for name, value in seconds.items():
            stack.enter_context(mock.patch.object(buckets, name, value))
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(folder / "scratch")))
        server = stack.enter_context(serving())
        stack.enter_context(mock.patch.dict(os.environ, {"STORAGE_EMULATOR_HOST": server.url}))
        try:
            yield server
        finally:
            server.outage(True, refused=True)  # threads of pools keep their connections
            with warnings.catch_warnings():  # cut transfers are left to the garbage collector
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
