"""A server of buckets for this process, with short timeouts and its own mirrors; and death at every request."""

import contextlib
import gc
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from components.core.errors import StageError
from components.core.storage import buckets, location
from tests.fakes.gcs.server import HangUp, Request, Server, serving


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


@contextlib.contextmanager
def without_retries() -> Iterator[None]:
    """Send one request after another, and none again."""
    with mock.patch.object(buckets, "RETRY_SECONDS", 0.0), mock.patch.object(location, "_AT_ONCE", 1):
        yield


def death(at: int) -> Callable[[Request], None]:
    """Return a hook that lets nothing be answered from so many requests on."""
    seen = itertools.count()

    def die(request: Request) -> None:
        if next(seen) >= at:
            raise HangUp

    return die


def die_at_every_request(
    server: Server, prepare: Callable[[], object], action: Callable[[], object], check: Callable[[], object]
) -> int:
    """Act until a request, before or after it is executed, from which on nothing is answered; check what is left.

    Return the number of deaths. A retry comes in `check`, and each prepared state is that before the first attempt.
    """
    deaths = 0
    with without_retries():
        for moment in ("before", "after"):
            for at in itertools.count():
                prepare()
                setattr(server, moment, death(at))
                try:
                    action()
                    break
                except StageError:
                    deaths += 1
                finally:
                    setattr(server, moment, None)
                check()
    return deaths
