"""Objects in buckets of Google Cloud Storage: created only if absent, replaced only as read.

Every write carries a generation precondition and a checksum; every read is compared with the object's checksum. When a
precondition fails and the object equals our content, our write succeeded and only the answer was lost.

All functions raise `ConfigError` where retries cannot help (no such bucket, no permission), `TransientError` where they
may, and `DataError` for content that arrives damaged repeatedly. google-cloud-storage is imported on first use, which
takes a second.
"""

import base64
import contextlib
import dataclasses
import functools
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from components.core.errors import ConfigError, DataError, TransientError

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

log = logging.getLogger(__name__)

SCHEME = "gs://"
# Seconds to wait for an answer, and to retry a failed request.
REQUEST_SECONDS = 60.0
RETRY_SECONDS = 120.0
FIRST_DELAY_SECONDS = 1.0
_CHUNK_BYTES = 16 << 20  # of an upload, held in memory; the library would take 100 MiB
_ATTEMPTS_AT_DAMAGE = 3
_NO_CREDENTIALS, _NO_ANSWER = 0, 500  # in place of an answer's HTTP status; from 500 on the server is at fault
_THREAD = threading.local()  # one client per thread, because connections must not be shared
_Answer = TypeVar("_Answer")


class Conflict(Exception):
    """There is an object with other content, or the object to replace has changed."""


class _DamagedOnItsWay(Exception):
    """Content arrived with another checksum than it was sent with."""


class _Missing(DataError):
    """There is no such object."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """An object in a bucket."""

    uri: str
    bytes: int
    crc32c: str  # of its content, in base64 as in the service's answers
    generation: int  # larger for later objects of this name


def is_uri(location: str) -> bool:
    return location.startswith(SCHEME)


def split(uri: str) -> tuple[str, str]:
    """Return bucket and name of a URI; `ConfigError` if it has no bucket, or empty parts, . or .. in its name."""
    bucket, _, name = uri.removeprefix(SCHEME).rstrip("/").partition("/")
    if not bucket or any(part in ("", ".", "..") for part in name.split("/") if name):
        raise ConfigError(f"{uri} is no place in a bucket; expected {SCHEME}BUCKET/FOLDER without empty parts, . or ..")
    return bucket, name


def create(uri: str, source: Path | bytes, over: int = 0) -> None:
    """Upload content, or a finished file, over an object's generation, 0 for none; `Conflict` if another differs."""
    size, crc32c = size_and_checksum(source)
    # Given the checksum beforehand, the service refuses damaged content even in a resumed upload.
    options: dict[str, Any] = {
        "if_generation_match": over,
        "timeout": REQUEST_SECONDS,
        "retry": _retry(),
        "checksum": "crc32c",
        "crc32c_checksum_value": crc32c,
    }

    def ask(blob: "Blob") -> None:
        blob.chunk_size = _CHUNK_BYTES
        if isinstance(source, bytes):
            blob.upload_from_string(source, **options)
        else:
            blob.upload_from_filename(str(source), **options)

    try:
        _request(uri, "written", ask)
    except Conflict:  # the answer to our own upload may have been lost
        stored = stat(uri)
        if stored is None or (stored.bytes, stored.crc32c) != (size, crc32c):
            raise


def put(uri: str, content: bytes) -> None:
    """Upload an object over the existing one, unless they are equal."""
    while True:
        stored = stat(uri)
        if stored and (stored.bytes, stored.crc32c) == size_and_checksum(content):
            return
        with contextlib.suppress(Conflict):
            create(uri, content, over=stored.generation if stored else 0)
            return


def stat(uri: str) -> Stored | None:
    """Return the object; None if absent."""

    def ask(blob: "Blob") -> Stored:
        blob.reload(timeout=REQUEST_SECONDS, retry=_retry())
        return _stored(blob, blob.size)

    with contextlib.suppress(_Missing):
        return _request(uri, "read", ask)
    return None


def read(uri: str) -> tuple[bytes, Stored] | None:
    """Return content of an object, and the object; None if absent."""
    with contextlib.suppress(_Missing):
        return _request(uri, "read", _get)
    return None


def read_range(uri: str, start: int, size: int, crc32c: int) -> bytes:
    """Return part of an object, not empty, with this checksum; `DataError` if it is missing or cut short."""
    import google_crc32c

    def ask(blob: "Blob") -> bytes:
        content = _content(blob, start=start, end=start + size - 1)
        actual = google_crc32c.value(content)
        if len(content) != size or actual != crc32c:
            raise _DamagedOnItsWay(f"{len(content):,} bytes with crc32c {actual}, expected {size:,} with {crc32c}")
        return content

    return _request(uri, "read", ask)


def download(uri: str, path: Path) -> None:
    """Write an object to a file; `DataError` if it is absent."""

    def ask(blob: "Blob") -> None:
        with open(path, "wb") as file:  # given a name, the library would replace the file, with any lock on it
            # As stored, not decompressed on the way.
            blob.download_to_file(file, raw_download=True, timeout=REQUEST_SECONDS, retry=_retry(), checksum="crc32c")
        # Again, because the library does not after it had to request the rest of an answer.
        if checksum(path) != blob.crc32c:
            raise _DamagedOnItsWay(f"its crc32c is {checksum(path)}, expected {blob.crc32c}")

    _request(uri, "read", ask)


def below(uri: str) -> Iterator[Stored]:
    """Yield all objects below a folder, by name, a page at a time."""
    bucket, name = split(uri)
    with _our_errors(uri, "listed"):
        blobs = _client().list_blobs(
            bucket,
            prefix=f"{name}/" if name else "",
            fields="items(bucket,name,size,crc32c,generation),nextPageToken",
            timeout=REQUEST_SECONDS,
            retry=_retry(),
        )
        for blob in blobs:
            yield _stored(blob, blob.size)


def delete(stored: Stored) -> None:
    """Delete an object, unless it is gone or has been replaced."""

    def ask(blob: "Blob") -> None:
        blob.delete(if_generation_match=stored.generation, timeout=REQUEST_SECONDS, retry=_retry())

    with contextlib.suppress(_Missing, Conflict):
        _request(stored.uri, "deleted", ask)


def require_writable(uri: str) -> None:
    """Write a small object, so that a missing permission shows before hours of work; warn if it cannot be deleted."""
    probe = f"{uri.rstrip('/')}/_probe/{uuid.uuid4().hex}"
    create(probe, b"")
    if (stored := stat(probe)) is None:
        return
    try:
        delete(stored)
    except ConfigError as error:
        log.warning("%s; objects that are no longer needed stay there", error)


def checksum(source: Path | bytes) -> str:
    """Return the crc32c of a file, or of some content, in base64."""
    import google_crc32c

    crc = google_crc32c.Checksum(source if isinstance(source, bytes) else b"")
    if isinstance(source, Path):
        with open(source, "rb") as file:
            for _ in crc.consume(file, 1 << 20):
                pass
    return base64.b64encode(crc.digest()).decode()


def size_and_checksum(source: Path | bytes) -> tuple[int, str]:
    """Return the bytes and the crc32c of a file, or of some content."""
    return len(source) if isinstance(source, bytes) else source.stat().st_size, checksum(source)


def _get(blob: "Blob") -> tuple[bytes, Stored]:
    content = _content(blob)
    return content, _stored(blob, len(content))


def _content(blob: "Blob", start: int | None = None, end: int | None = None) -> bytes:
    """Return the content of an object as it is stored, or a span of it, both ends included.

    The checksum of a span is not compared. The library's own retries would end at a broken answer on a missing object.
    """
    options: dict[str, Any] = {"raw_download": True, "timeout": REQUEST_SECONDS, "retry": None, "checksum": "crc32c"}
    content: bytes = _retry()(blob.download_as_bytes)(start=start, end=end, **options)
    return content


def _stored(blob: "Blob", size: int) -> Stored:
    return Stored(f"{SCHEME}{blob.bucket.name}/{blob.name}", size, blob.crc32c or "", int(blob.generation))


def _request(uri: str, done: str, ask: Callable[["Blob"], _Answer]) -> _Answer:
    """Send a request; retry damaged answers, and turn every other failure into one of our errors."""
    from google.cloud.storage.exceptions import DataCorruption

    bucket, name = split(uri)
    for attempt in range(1, _ATTEMPTS_AT_DAMAGE + 1):
        try:
            with _our_errors(uri, done):
                return ask(_client().bucket(bucket).blob(name))
        except (DataCorruption, _DamagedOnItsWay) as error:
            log.warning("%s arrived damaged, attempt %d of %d: %s", uri, attempt, _ATTEMPTS_AT_DAMAGE, _one_line(error))
    raise DataError(f"{uri} cannot be {done}: it arrived damaged {_ATTEMPTS_AT_DAMAGE} times; check the network")


@contextlib.contextmanager
def _our_errors(uri: str, done: str) -> Iterator[None]:
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.cloud.storage.exceptions import InvalidResponse

    try:
        yield
        return
    except (TransportError, requests.RequestException, exceptions.RetryError, ConnectionError, TimeoutError) as error:
        status, reason = _NO_ANSWER, _one_line(error)
    except (exceptions.GoogleAPICallError, InvalidResponse) as error:
        status, reason = getattr(error, "code", None) or error.response.status_code, _one_line(error)
    except (GoogleAuthError, OSError) as error:  # an OSError if there are credentials and no project
        if isinstance(error, OSError) and error.errno:
            raise
        status, reason = _NO_CREDENTIALS, _one_line(error)
    if status == 400 and "crc32c" in reason.lower():
        raise _DamagedOnItsWay(reason)
    if status == 412:
        raise Conflict(uri)
    if status == 416:
        raise DataError(f"{uri} is cut short")
    if status == 404 and done in ("read", "deleted"):
        raise _Missing(f"{uri} is missing")
    if status in (408, 429) or status >= _NO_ANSWER:
        raise TransientError(f"{uri} cannot be {done}; check the network, and try again: {reason}")
    no_permission = f"permission is missing ({reason}); grant it, or log in again"
    causes = {
        _NO_CREDENTIALS: f"there are no credentials for it ({reason}); log in by `gcloud auth application-default "
        "login`, or give the stage a service account",
        401: no_permission,
        403: no_permission,
        404: f"there is no bucket {split(uri)[0]}; create it, or give another ({reason})",
    }
    raise ConfigError(f"{uri} cannot be {done}: {causes.get(status, reason)}")


def _one_line(error: Exception) -> str:
    """Return the service's message, else the library's."""
    try:
        message = error.response.json()["error"]["message"]  # type: ignore[attr-defined]
    except (AttributeError, ValueError, KeyError, TypeError, RuntimeError):
        message = str(error)
    return " ".join(str(message).split())[:500] or type(error).__name__


def _retry() -> Any:
    from google.api_core.retry import Retry
    from google.cloud.storage.retry import DEFAULT_RETRY

    warned = False

    def warn_once(error: Exception) -> None:
        nonlocal warned
        if not warned:
            log.warning("a request is sent again, for up to %.0f s: %s", RETRY_SECONDS, _one_line(error)[:200])
            warned = True

    predicate = DEFAULT_RETRY._predicate
    return Retry(predicate=predicate, initial=FIRST_DELAY_SECONDS, timeout=RETRY_SECONDS, on_error=warn_once)


def _client() -> "Client":
    """Return this thread's client."""
    key = (os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST", ""))
    if getattr(_THREAD, "key", None) != key:
        try:
            from google.auth.exceptions import DefaultCredentialsError
            from google.cloud.storage import Client
        except ImportError:
            raise ConfigError("buckets need google-cloud-storage: pip install google-cloud-storage") from None
        # Otherwise a thread requests the bucket's metadata, for unused traces; not everybody may do that.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        try:
            _THREAD.client = Client()
        except (DefaultCredentialsError, OSError):  # an OSError if there are credentials but no project
            _THREAD.client = Client.create_anonymous_client()  # enough to read public data
        _THREAD.key = key
        _warn_of_emulator(key[1])
    client: Client = _THREAD.client
    return client


@functools.cache
def _warn_of_emulator(url: str) -> None:
    if url:
        log.warning("buckets are those of the emulator at %s (STORAGE_EMULATOR_HOST)", url)
