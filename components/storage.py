"""Files and folders that appear whole or not at all.

What is written here is first written aside, then synced to disk, then renamed: a reader, or the same command after a
crash, finds the old state or the new one and nothing between. Local paths only; buckets follow.

What is aside is called `.tmp-NAME-...` beside the place that it is for. Its maker holds a lock on it, which the system
releases when the process dies, however it dies; whoever makes something for the same place removes what nobody holds.

Files get the mode 0666 and folders 0777, both without the bits of the umask.
"""

import contextlib
import fcntl
import glob
import json
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components import digests
from components.errors import ConfigError, DataError, naming

log = logging.getLogger(__name__)

_DEAD = "-dead"


def write_file(path: Path, content: bytes) -> None:
    """Writes a file by way of a temporary one beside it, synced, then renamed over the old.

    Raises:
        OSError: It cannot be written; the error names the file, and what was there before still is.
    """
    write_parts(path, [content])


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file as `write_file` does, one part after another, so that they need not be in memory together."""
    with _naming(path):
        make_folder(path.parent)
        with _aside(path, is_folder=False) as aside:
            with open(aside, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        _sync(path.parent)


def make_folder(place: Path) -> None:
    """Makes a folder, and those above it that are missing, each synced into the one above."""
    if not place.is_dir():
        make_folder(place.parent)
        with naming(place):
            place.mkdir(exist_ok=True)
            _sync(place.parent)


def make_unique(folder: Path, prefix: str, suffix: str = "", is_folder: bool = False) -> Path:
    """Make an empty file or folder with an unused name. Unlike `tempfile`, this respects the umask."""
    while True:
        path = folder / f"{prefix}{secrets.token_hex(4)}{suffix}"
        with contextlib.suppress(FileExistsError):
            if is_folder:
                path.mkdir()
            else:
                path.touch(exist_ok=False)
            return path


def remove_folder(place: Path) -> None:
    """Removes a folder, whole or not at all: what a crash leaves of it is aside. One that is gone is no error."""
    with contextlib.suppress(FileNotFoundError), _naming(place):
        aside = make_unique(place.parent, _prefix(place), _DEAD, is_folder=True)
        try:
            place.rename(aside)
            _sync(place.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path, names: str) -> None:
    """Removes what is aside and held by nobody.

    Args:
        folder: Where to look.
        names: What it was for: a pattern of names, as for `Path.glob`.
    """
    for path in folder.glob(f".tmp-{names}-*"):
        with contextlib.suppress(OSError):  # it is held, or gone, or another user's
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Under another name first: should its maker live after all, it cannot give it its place half removed.
                _remove(path if path.name.endswith(_DEAD) else path.rename(f"{path}{_DEAD}"))
            finally:
                os.close(handle)


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
    return _parsed(_content(path, what), path, what)


def write_sealed_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a manifest as `write_json` does, with the digest of all the rest of it as `sha256`."""
    write_file(path, sealed_json(value))


def sealed_json(value: dict[str, Any]) -> bytes:
    """What `write_sealed_json` writes."""
    return _readable({**value, digests.SEAL: digests.digest_of(value)})


def read_sealed_json(path: Path, what: str) -> Any:
    """Reads a manifest as `unsealed` does.

    Raises:
        DataError: The file is missing, is not JSON, or is not what was written.
    """
    return unsealed(_content(path, what), path, what)


def unsealed(content: bytes, path: str | Path, what: str) -> Any:
    """What a manifest says, without its seal; every byte of a sealed one is as it was written.

    One from before there were seals has none, and is returned as it is. So whoever reads refuses names that it does not
    know: what was once `sha256` is then no way around the seal.

    Args:
        content: The file's bytes.
        path: The file, for the message.
        what: What the file describes, for the message ("dataset", "checkpoint", ...).

    Raises:
        DataError: It is not JSON, or not what was written.
    """
    value = _parsed(content, path, what)
    if not isinstance(value, dict) or digests.SEAL not in value:
        return value
    said = {name: found for name, found in value.items() if name != digests.SEAL}
    try:
        whole = digests.digest_of(said) == value[digests.SEAL] and content == _readable(value)
    except (ValueError, RecursionError):  # what no manifest is written with, such as NaN
        whole = False
    if not whole:
        raise DataError(f"{path} is damaged: it is not what its {digests.SEAL} was written for; make the {what} again")
    return said


def _content(path: Path, what: str) -> bytes:
    try:
        with naming(path):
            return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {what} at {path.parent}: {path.name} is missing") from None


def _parsed(content: bytes, path: str | Path, what: str) -> Any:
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number of thousands of digits, too deep
        raise DataError(f"{path} does not describe a {what}: {error}") from None


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
    with _naming(place):
        make_folder(place.parent)
        with _aside(place, is_folder=True) as aside:
            mode = stat.S_IMODE(aside.stat().st_mode)
            yield aside
            if not (aside / complete).is_file():
                raise AssertionError(f"{complete} was not written")
            # Libraries make folders and files with modes of their own.
            for folder, _, files in os.walk(aside):
                for name in files:
                    _sync(Path(folder, name), mode & 0o666)
                _sync(Path(folder), mode)
            try:
                aside.rename(place)
            except OSError:
                if not (place / complete).is_file():
                    raise
        _sync(place.parent)


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder in another one, locked for the block and removed after it; removes those of dead processes."""
    make_folder(parent)
    with _aside(parent / "run", is_folder=True) as folder:
        yield folder


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds a folder against other processes of this machine; waits, and says so, while another one holds it.

    The system releases the lock of a process that dies, however it dies.
    """
    make_folder(folder)
    place = folder / ".lock"
    handle = os.open(place, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        with naming(place):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("another process is at work in %s; waiting for it", folder)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with naming(place):
            os.close(handle)


@contextlib.contextmanager
def _aside(place: Path, is_folder: bool) -> Iterator[Path]:
    """An empty file or folder beside a place, held for the block and gone after it, unless it was given its place."""
    sweep(place.parent, glob.escape(place.name))
    aside, handle = _held(place, is_folder)
    try:
        yield aside
    finally:
        _remove(aside)
        os.close(handle)


def _held(place: Path, is_folder: bool) -> tuple[Path, int]:
    while True:
        aside = make_unique(place.parent, _prefix(place), is_folder=is_folder)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(aside, os.O_RDONLY)
            with contextlib.suppress(OSError):  # where there are no locks, nothing is swept either
                fcntl.flock(handle, fcntl.LOCK_SH)
            if aside.exists():
                return aside, handle
            os.close(handle)  # it was swept before it was held


def _remove(aside: Path) -> None:
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(place: Path) -> Iterator[None]:
    """Within the block an error names the place, not what is aside for it, where nothing is any more."""
    try:
        yield
    except OSError as error:
        names = [error.filename or place, error.filename2]  # a copy or a rename fails with two
        first, second = (str(place) if _prefix(place) in str(name) else name for name in names)
        error.filename, error.filename2 = str(first), None if second == str(first) else second
        raise


def _prefix(place: Path) -> str:
    return f".tmp-{place.name}-"


def _readable(value: Any) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _sync(path: Path, mode: int | None = None) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if mode is not None and stat.S_IMODE(os.fstat(handle).st_mode) != mode:
            with contextlib.suppress(PermissionError):  # another user's, such as a Beam worker's
                os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)
