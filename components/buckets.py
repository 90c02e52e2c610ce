"""Objects in buckets of Google Cloud Storage: created only where there is none, replaced only as they were read.

Every write carries a generation precondition and the checksum of what is sent, every read is compared with the
checksum of what is stored. A refusal that follows a lost answer is told from a real one: what is there and equals what
was sent is ours.

google-cloud-storage is imported where it is needed, which takes a second.
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

from components.errors import ConfigError, DataError, StageError, TransientError

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

log = logging.getLogger(__name__)

SCHEME = "gs://"
# How long a request may go without an answer, and for how long all in all a failed one is sent again, in seconds.
REQUEST_SECONDS = 60.0
RETRY_SECONDS = 120.0
FIRST_DELAY_SECONDS = 1.0
_ATTEMPTS_AT_DAMAGE = 3
_POSITION = "position"
_OWN = threading.local()  # a client for each thread: its connections are not to be shared
_Made = TypeVar("_Made")


class Conflict(Exception):
    """An object is there already, with other content, or is no longer the one that was to be replaced."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a bucket says of an object.

    Attributes:
        uri: `gs://BUCKET/NAME`.
        bytes: Its size.
        crc32c: Checksum of its content, in base64 as the service writes it.
        generation: Which of the objects of this name it is; later ones have larger numbers.
        position: How far what is in it had come when it was written (see `advance`); -1 if it does not say.
    """

    uri: str
    bytes: int
    crc32c: str
    generation: int
    position: int = -1


def is_uri(place: str) -> bool:
    """Whether a place is in a bucket."""
    return place.startswith(SCHEME)


def split(uri: str) -> tuple[str, str]:
    """Bucket and name of a URI.

    Raises:
        ConfigError: It names no bucket, or its name has parts that are no names.
    """
    bucket, _, name = uri.removeprefix(SCHEME).rstrip("/").partition("/")
    if not bucket or any(part in ("", ".", "..") for part in name.split("/") if name):
        raise ConfigError(f"{uri} is no place in a bucket; expected {SCHEME}BUCKET/FOLDER without empty parts, . or ..")
    return bucket, name


def create(uri: str, source: Path | bytes) -> None:
    """Uploads an object, unless there is one of that name.

    Args:
        uri: Where.
        source: A file that nobody writes any more, or the content.

    Raises:
        Conflict: There is one with other content. One with the same content is as good as ours.
        ConfigError, TransientError: As the other functions here.
    """
    if not _upload(uri, source, generation=0):
        found = stat(uri)
        size, crc32c = _size_and_checksum(source)
        if found is None or (found.bytes, found.crc32c) != (size, crc32c):
            raise Conflict(uri)


def replace(uri: str, content: bytes, generation: int, position: int = -1) -> None:
    """Uploads an object in place of the one that was read.

    Args:
        uri: Where.
        content: What it is to hold.
        generation: That of the object that was read; 0 if there was none.
        position: As in `Stored`.

    Raises:
        Conflict: It is another one by now, with other content than this.
    """
    if not _upload(uri, content, generation, position):
        found = stat(uri)
        if found is None or (found.bytes, found.crc32c) != _size_and_checksum(content):
            raise Conflict(uri)


def put(uri: str, content: bytes, position: int = -1) -> None:
    """Uploads an object whatever was there; nothing is written if it holds the same already.

    Args:
        uri: Where.
        content: What it is to hold.
        position: As in `Stored`; it may be before the one there.
    """
    while True:
        found = stat(uri)
        if found and (found.bytes, found.crc32c, found.position) == (*_size_and_checksum(content), position):
            return
        with contextlib.suppress(Conflict):
            replace(uri, content, found.generation if found else 0, position)
            return


def advance(uri: str, content: bytes, position: int) -> bool:
    """Uploads an object unless the one there has come at least as far; so it never goes back.

    Returns:
        Whether the object is now this one.
    """
    while True:
        found = stat(uri)
        if found is not None and found.position >= position:
            return (found.bytes, found.crc32c) == _size_and_checksum(content)
        with contextlib.suppress(Conflict):
            replace(uri, content, found.generation if found else 0, position)
            return True


def stat(uri: str) -> Stored | None:
    """What there is of an object; None if there is none."""
    bucket, name = split(uri)

    def ask(client: "Client") -> Stored | None:
        blob = client.bucket(bucket).get_blob(name, timeout=REQUEST_SECONDS, retry=_retry())
        return None if blob is None else _stored(blob)

    return _asked(uri, "read", ask)


def read(uri: str) -> tuple[bytes, Stored] | None:
    """Content of an object, and what there is of it; None if there is none.

    Raises:
        DataError: It arrives damaged, again and again.
    """
    bucket, name = split(uri)

    def ask(client: "Client") -> tuple[bytes, Stored] | None:
        from google.api_core.exceptions import NotFound

        blob = client.bucket(bucket).get_blob(name, timeout=REQUEST_SECONDS, retry=_retry())
        if blob is None:
            return None
        same = client.bucket(bucket).blob(name, generation=blob.generation)
        try:
            content = same.download_as_bytes(**_reading())
        except NotFound:  # replaced or deleted since it was asked for
            return read(uri)
        _require_checksum(checksum(content), blob.crc32c)
        return content, _stored(blob)

    return _asked(uri, "read", ask)


def download(uri: str, path: Path) -> None:
    """Writes an object to a file, as it is at one moment; compared with its checksum.

    Raises:
        DataError: There is no such object, or it arrives damaged, again and again.
    """
    bucket, name = split(uri)

    def ask(client: "Client") -> None:
        from google.api_core.exceptions import NotFound

        blob = client.bucket(bucket).blob(name)
        try:
            blob.download_to_filename(str(path), **_reading())
        except NotFound:
            raise DataError(f"{uri} is missing") from None
        _require_checksum(checksum_of_file(path), blob.crc32c)

    _asked(uri, "read", ask)


def below(uri: str) -> list[Stored]:
    """All objects whose name begins with the URI's and a slash, by name."""
    return list(each_below(uri))


def each_below(uri: str) -> Iterator[Stored]:
    """Yields what `below` returns, a page at a time."""
    bucket, name = split(uri)
    with _failures_told(uri, "listed"):
        found = _client().list_blobs(
            bucket,
            prefix=f"{name}/" if name else "",
            fields="items(bucket,name,size,crc32c,generation,metadata),nextPageToken",
            timeout=REQUEST_SECONDS,
            retry=_retry(),
        )
        for blob in found:
            yield _stored(blob)


def delete(stored: Stored) -> None:
    """Deletes an object, if it is still the one that was asked for; one that is gone is as good as deleted."""
    bucket, name = split(stored.uri)

    def ask(client: "Client") -> None:
        from google.api_core.exceptions import NotFound, PreconditionFailed

        with contextlib.suppress(NotFound, PreconditionFailed):
            client.bucket(bucket).blob(name).delete(
                if_generation_match=stored.generation, timeout=REQUEST_SECONDS, retry=_retry()
            )

    _asked(stored.uri, "deleted", ask)


def require_writable(uri: str) -> None:
    """Finds out in seconds whether objects can be created and deleted below a place, rather than after hours.

    Writes and deletes a small object beside the place. Credentials that may create and not delete are told of and do.

    Raises:
        ConfigError: The bucket does not exist, or the credentials may not write there.
    """
    probe = f"{uri.rstrip('/')}/_probe/{uuid.uuid4().hex}"
    create(probe, b"")
    found = stat(probe)
    if found is None:
        return
    try:
        delete(found)
    except ConfigError as error:
        log.warning("%s; what is no longer needed there stays", error)


def checksum(content: bytes) -> str:
    """crc32c of some content, as the service writes it."""
    import google_crc32c

    return base64.b64encode(google_crc32c.value(content).to_bytes(4)).decode()


def checksum_of_file(path: Path) -> str:
    """crc32c of a file, as the service writes it."""
    import google_crc32c

    found = google_crc32c.Checksum()
    with open(path, "rb") as file:
        for _ in found.consume(file, 1 << 20):
            pass
    return base64.b64encode(found.digest()).decode()


def _size_and_checksum(source: Path | bytes) -> tuple[int, str]:
    if isinstance(source, bytes):
        return len(source), checksum(source)
    return source.stat().st_size, checksum_of_file(source)


def _upload(uri: str, source: Path | bytes, generation: int, position: int = -1) -> bool:
    """Uploads under a precondition; False if it did not hold."""
    bucket, name = split(uri)
    # Given beforehand, so that the service refuses what is damaged on its way also where it arrives in pieces.
    given: dict[str, Any] = {
        "if_generation_match": generation,
        "timeout": REQUEST_SECONDS,
        "retry": _retry(),
        "checksum": "crc32c",
        "crc32c_checksum_value": _size_and_checksum(source)[1],
    }

    def ask(client: "Client") -> bool:
        from google.api_core.exceptions import PreconditionFailed

        blob = client.bucket(bucket).blob(name)
        if position >= 0:
            blob.metadata = {_POSITION: str(position)}
        try:
            if isinstance(source, bytes):
                blob.upload_from_string(source, **given)
            else:
                blob.upload_from_filename(str(source), **given)
        except PreconditionFailed:
            return False
        return True

    return _asked(uri, "written", ask)


def _reading() -> dict[str, Any]:
    """How content is asked for: as it is stored, not unpacked on its way."""
    return {"raw_download": True, "timeout": REQUEST_SECONDS, "retry": _retry(), "checksum": "crc32c"}


def _require_checksum(found: str, told: str | None) -> None:
    """Compares again: the library does not, once it had to ask for the rest of an answer that was cut short."""
    if found != told:
        raise _DamagedOnItsWay(f"its crc32c is {found}, expected {told}")


def _stored(blob: "Blob") -> Stored:
    position = (blob.metadata or {}).get(_POSITION, "-1")
    return Stored(
        uri=f"{SCHEME}{blob.bucket.name}/{blob.name}",
        bytes=int(blob.size),
        crc32c=blob.crc32c or "",
        generation=int(blob.generation),
        position=int(position) if position.lstrip("-").isdigit() else -1,
    )


def _asked(uri: str, done: str, ask: Callable[["Client"], _Made]) -> _Made:
    """What a request answers; damage on the way is tried again, every other failure becomes one for the user."""
    from google.cloud.storage.exceptions import DataCorruption

    for attempt in range(1, _ATTEMPTS_AT_DAMAGE + 1):
        try:
            with _failures_told(uri, done):
                return ask(_client())
        except (DataCorruption, _DamagedOnItsWay) as error:
            log.warning("%s arrived damaged, attempt %d of %d: %s", uri, attempt, _ATTEMPTS_AT_DAMAGE, _one_line(error))
    raise DataError(f"{uri} cannot be {done}: it arrived damaged {_ATTEMPTS_AT_DAMAGE} times; check the network")


class _DamagedOnItsWay(Exception):
    """What arrived has another checksum than what was sent."""


@contextlib.contextmanager
def _failures_told(uri: str, done: str) -> Iterator[None]:
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

    try:
        yield
    except (StageError, Conflict, DataCorruption, exceptions.PreconditionFailed):
        raise
    except (TransportError, requests.RequestException, exceptions.RetryError, ConnectionError, TimeoutError) as error:
        raise _transient(uri, done, error) from None
    except (exceptions.GoogleAPICallError, InvalidResponse) as error:
        raise _refusal(uri, done, error) from None
    except (GoogleAuthError, OSError) as error:  # an OSError where there are credentials and no project
        if isinstance(error, OSError) and error.errno:
            raise
        raise ConfigError(
            f"{uri} cannot be {done}: there are no credentials for it ({_one_line(error)}); "
            "log in by `gcloud auth application-default login`, or give the stage a service account"
        ) from None


def _refusal(uri: str, done: str, error: Any) -> Exception:
    code = error.code if getattr(error, "code", None) else error.response.status_code
    said = _one_line(error)
    if code == 400 and "crc32c" in said.lower():
        return _DamagedOnItsWay(said)
    bucket = split(uri)[0]
    if code == 404:
        return ConfigError(f"{uri} cannot be {done}: there is no bucket {bucket}; create it, or give another ({said})")
    if code in (401, 403):
        return ConfigError(f"{uri} cannot be {done}: permission is missing ({said}); grant it, or log in anew")
    if code in (408, 429) or code >= 500:
        return _transient(uri, done, error)
    return ConfigError(f"{uri} cannot be {done}: {said}")


def _transient(uri: str, done: str, error: Exception) -> TransientError:
    return TransientError(f"{uri} cannot be {done}; check the network, and try again: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    """What the service said, or else the library."""
    try:
        said = error.response.json()["error"]["message"]  # type: ignore[attr-defined]
    except (AttributeError, ValueError, KeyError, TypeError, RuntimeError):
        said = str(error)
    return " ".join(str(said).split())[:500] or type(error).__name__


def _retry() -> Any:
    from google.api_core.retry import Retry
    from google.cloud.storage.retry import DEFAULT_RETRY

    told = False

    def tell(error: Exception) -> None:
        nonlocal told
        if not told:
            log.warning("a request is sent again, for up to %.0f s: %s", RETRY_SECONDS, _one_line(error)[:200])
            told = True

    predicate = DEFAULT_RETRY._predicate
    return Retry(predicate=predicate, initial=FIRST_DELAY_SECONDS, timeout=RETRY_SECONDS, on_error=tell)


def _client() -> "Client":
    """This thread's client."""
    key = (os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST", ""))
    if getattr(_OWN, "key", None) != key:
        _OWN.client, _OWN.key = _new_client(), key
        if key[1]:
            _tell_emulator(key[1])
    client: Client = _OWN.client
    return client


@functools.cache
def _tell_emulator(url: str) -> None:
    log.warning("buckets are those of the emulator at %s (STORAGE_EMULATOR_HOST)", url)


def _new_client() -> "Client":
    try:
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud.storage import Client
    except ImportError:
        raise ConfigError("buckets need google-cloud-storage: pip install google-cloud-storage") from None
    # Else it asks for the bucket itself, in a thread, for traces that nobody reads; not all may ask for that.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    try:
        return Client()
    except (DefaultCredentialsError, OSError):  # an OSError where there are credentials but no project
        return Client.create_anonymous_client()  # public data can be read without any
