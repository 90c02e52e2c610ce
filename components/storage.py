"""Files and folders that appear whole or not at all.

What is written here is first written aside, then synced to disk, then renamed: a reader, or the same command after a
crash, finds the old state or the new one and nothing between. Local paths only; buckets follow.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components import digests
from components.errors import ConfigError, DataError

log = logging.getLogger(__name__)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file by way of a temporary one beside it, synced, then renamed over the old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=f".tmp-{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()
        raise
    _sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Writes a value as readable JSON (sorted keys, two spaces), whole or not at all. Refuses NaN and infinity."""
    write_file(path, _readable(value))


def read_json(path: Path, what: str) -> Any:
    """Reads a JSON file.

    Args:
        path: The file.
        what: What the file describes, for the message ("dataset", "checkpoint", ...).

    Raises:
        DataError: The file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {what} at {path.parent}: {path.name} is missing") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number of thousands of digits, too deep
        raise DataError(f"{path} does not describe a {what}: {error}") from None


def write_sealed_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a manifest as `write_json` does, with the digest of all the rest of it as `sha256`."""
    write_json(path, {**value, digests.SEAL: digests.digest_of(value)})


def read_sealed_json(path: Path, what: str) -> Any:
    """Reads a manifest and takes its seal off; every byte of a sealed one is as it was written.

    One from before there were seals has none, and is returned as it is. So whoever reads refuses names that it does not
    know: what was once `sha256` is then no way around the seal.

    Args:
        path: The file.
        what: What the file describes, for the message ("dataset", "checkpoint", ...).

    Raises:
        DataError: The file is missing, is not JSON, or is not what was written.
    """
    value = read_json(path, what)
    if not isinstance(value, dict) or digests.SEAL not in value:
        return value
    content = {name: found for name, found in value.items() if name != digests.SEAL}
    try:
        whole = digests.digest_of(content) == value[digests.SEAL] and path.read_bytes() == _readable(value)
    except (ValueError, RecursionError):  # what no manifest is written with, such as NaN
        whole = False
    if not whole:
        raise DataError(f"{path} is damaged: it is not what its {digests.SEAL} was written for; make the {what} again")
    return content


def require_own_place(place: Path, what: str, former: dict[str, Any] | None, identity: dict[str, Any]) -> None:
    """Refuses a place that holds something else than what is about to be made or continued there.

    Args:
        place: The folder to make.
        what: What is made, for the message ("dataset", "training", ...).
        former: The identity (settings, digests of inputs) of what is there; None if nothing of the kind is.
        identity: The identity of what is about to be made.

    Raises:
        ConfigError: The folder holds other files, or the same kind of thing with another identity.
    """
    if former is None:
        if place.exists() and (not place.is_dir() or any(not entry.name.startswith(".") for entry in place.iterdir())):
            raise ConfigError(f"{place} holds something else than a {what}; give another folder")
        return
    changed = [
        f"{name} was {former.get(name)!r} there and is {identity.get(name)!r} now"
        for name in sorted(former.keys() | identity.keys())
        if former.get(name) != identity.get(name)
    ]
    if changed:
        raise ConfigError(f"{place} belongs to another {what}; give another folder, or the former settings:", *changed)


def require_writable(path: str | Path, setting: str) -> None:
    """Refuses a place where no file can be written, before the work that is to fill it.

    Args:
        path: The file to write.
        setting: The name of the setting that gives it, for the message.

    Raises:
        ConfigError: It is a folder, or its folder is missing.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f"{setting} {place} is a folder")
    if not place.parent.is_dir():
        raise ConfigError(f"{setting} {place} cannot be written: there is no folder {place.parent}")


def files_in(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder, by its path within it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digests.sha256_of_file(path) for path in files}


def require_files(folder: Path, listed: Mapping[str, str], what: str, manifest: str) -> None:
    """Checks the files of an artefact against what its manifest says of them.

    Args:
        folder: The artefact.
        listed: sha256 by path within the folder.
        what: What the artefact is, for the message ("model", ...).
        manifest: The name of its manifest, for the message.

    Raises:
        DataError: A file is missing or is another.
    """
    for name, sha256 in listed.items():
        path = folder / name
        if not path.is_file() or digests.sha256_of_file(path) != sha256:
            raise DataError(f"{what} {folder} is damaged: {name} is not the file that {manifest} describes")


@contextlib.contextmanager
def new_folder(place: Path, complete: str) -> Iterator[Path]:
    """A folder to fill, which appears at `place` only when the block ends without an error.

    Args:
        place: Where the folder will be.
        complete: The file whose presence means complete (its manifest), to be written last within the block.

    Yields:
        A temporary folder beside `place`, removed again if the block raises.

    If another process finished the same folder first, that one is kept: what is kept under a key has one content.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".tmp-{place.name}-", dir=place.parent))
    try:
        aside.chmod(0o755)
        yield aside
        if not (aside / complete).is_file():
            raise AssertionError(f"{complete} was not written")
        for folder, _, files in os.walk(aside):
            for name in files:
                _sync(Path(folder, name))
            _sync(Path(folder))
        try:
            aside.rename(place)
        except OSError:
            if not (place / complete).is_file():
                raise
        _sync(place.parent)
    except OSError as error:
        # A full disk is reported by whoever wrote, often without saying where.
        error.filename = error.filename or str(place)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds a folder against other processes of this machine; waits, and says so, while another one holds it.

    The system releases the lock of a process that dies, however it dies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process is at work in %s; waiting for it", folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _readable(value: Any) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
