"""A server of buckets for this process, with short timeouts and its own mirrors; and death at every request."""

import contextlib
import gc
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from components.core import concurrent
from components.core.errors import StageError, TransientError
from components.core.storage import buckets
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

    def transfers(function: Callable[[Any], Any], items: Iterable[Any], at_once: int = 1) -> Iterator[Any]:
        return map(function, items)

    with mock.patch.object(buckets, "RETRY_SECONDS", 0.0), mock.patch.object(concurrent, "transfers", transfers):
        yield


@contextlib.contextmanager
def hooked(server: Server, acted: bool, hook: Callable[[Request], None]) -> Iterator[None]:
    """Call a hook at each request of the block, before or after it is executed, besides the server's own hook."""
    moment = "after" if acted else "before"
    previous = getattr(server, moment)

    def both(request: Request) -> None:
        if previous is not None:
            previous(request)
        hook(request)

    with mock.patch.object(server, moment, both):
        yield


def dies(server: Server, at: int, acted: bool, action: Callable[..., object], *arguments: object) -> bool:
    """Act until so many requests were answered; return whether another came, which and all later ones hang up.

    That request is executed if `acted`.
    """
    count = itertools.count()

    def die(request: Request) -> None:
        if next(count) >= at:
            raise HangUp

    with hooked(server, acted, die), without_retries():
        try:
            action(*arguments)
        except StageError as error:
            return isinstance(error, TransientError)
    return False


def die_at_every_request(trial: Callable[[int, bool], bool]) -> int:
    """Try a death at each request, before and after it is executed, until none is left; return their number.

    A trial calls `dies` with its arguments, checks what is left, and returns whether it died.
    """
    deaths = 0
    for acted in (False, True):
        for at in itertools.count():
            if not trial(at, acted):
                break
            deaths += 1
    return deaths
