"""Files and folders that appear whole or not at all.

Content is written to a temporary file, synced to disk, then renamed: a reader, or the same command after a crash, finds
the old state or the new one. Temporary files and folders, `.tmp-NAME-...`, are beside their target. Their maker holds a
lock, which the system releases when the process dies; the next writer in the same folder removes unlocked ones.

Files get the mode 0666 and folders 0777, both without the bits of the umask.
"""

import contextlib
import fcntl
import json
import logging
import os
import reprlib
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.core.errors import ConfigError, DataError, naming
from components.core.storage import digests

log = logging.getLogger(__name__)

_DEAD = "-dead"


def write_file(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file of some bytes, or of parts that are made one after another, whole or not at all."""
    with naming(path, _prefix(path)):
        make_folder(path.parent)
        with aside(path, is_folder=False) as written:
            with open(written, "wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            written.replace(path)
        _sync(path.parent)


def link_new(source: Path, path: Path) -> bool:
    """Give a finished file of the same file system a second name that no file has; return False if one has it."""
    with naming(path, "/.tmp-"):
        make_folder(path.parent)
        _sync(source)
        try:
            os.link(source, path)
        except FileExistsError:
            return False
        _sync(path.parent)
    return True


def make_folder(location: Path) -> None:
    """Make a folder, and missing ones above it, each synced into the one above."""
    if not location.is_dir():
        make_folder(location.parent)
        with naming(location):
            location.mkdir(exist_ok=True)
            _sync(location.parent)


def make_unique(folder: Path, prefix: str, suffix: str = "", is_folder: bool = False) -> Path:
    """Make an empty file or folder with a random name. Unlike `tempfile`, this respects the umask."""
    path = folder / f"{prefix}{secrets.token_hex(8)}{suffix}"
    if is_folder:
        path.mkdir()
    else:
        path.touch(exist_ok=False)
    return path


def remove_folder(location: Path) -> None:
    """Remove a folder, or a file in its place, if it exists, whole or not at all."""
    with contextlib.suppress(FileNotFoundError), naming(location, _prefix(location)):
        if location.is_symlink() or location.is_file():
            location.unlink()
            return
        with aside(location, is_folder=True) as emptied:
            location.rename(emptied)
            _sync(location.parent)


def remove_opened(location: Path, handle: int) -> None:
    """Remove a folder that a handle was opened for, but not what another process has put there since."""
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_EX)  # so that of several processes one removes it
    if location.exists() and os.path.samestat(os.fstat(handle), location.stat()):
        remove_folder(location)


def sweep(folder: Path) -> None:
    """Remove unlocked temporary files and folders in a folder, for any target."""
    for path in folder.glob(".tmp-*-*"):
        with contextlib.suppress(OSError):  # it is locked, gone, another user's, or a link that is being made
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Renamed first: if its maker is alive after all, it cannot publish a half removed folder.
                _remove(path if path.name.endswith(_DEAD) else path.rename(f"{path}{_DEAD}"))
            finally:
                os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write readable JSON, whole or not at all; refuse NaN and infinity."""
    write_file(path, readable_json(value))


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Read the JSON manifest of a dataset, a checkpoint, ...; `DataError` if it is missing or no object of JSON."""
    return parse_json(read(path, kind, path.parent), path, kind)


def read(path: Path, kind: str, folder: object) -> bytes:
    """Read a file of a folder, as messages name it, with the errors of `read_json`, without parsing it."""
    try:
        with naming(path):
            return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        inner = next((f"; {folder}/{other.parent.name} has it" for other in path.parent.glob(f"*/{path.name}")), "")
        raise DataError(f"no {kind} at {folder}: {path.name} is missing{inner}") from None


def sealed_json(value: dict[str, Any]) -> bytes:
    """Return the content of a manifest, sealed: the digest of its other fields is its `sha256`."""
    return readable_json({**value, digests.SEAL: digests.digest_of(value)})


def unsealed(content: bytes, path: object, kind: str) -> dict[str, Any]:
    """Verify the seal of a manifest, and return its other fields."""
    value = parse_json(content, path, kind)
    if digests.SEAL not in value:
        raise DataError(f"{path} does not describe the {kind}: it has no {digests.SEAL}; make the {kind} again")
    fields = {name: field for name, field in value.items() if name != digests.SEAL}
    with contextlib.suppress(ValueError, RecursionError):  # no manifest is written with NaN
        if content == sealed_json(fields):
            return fields
    raise DataError(f"{path} is damaged: it is not what its {digests.SEAL} was written for; make the {kind} again")


def parse_json(content: bytes, path: object, kind: str) -> dict[str, Any]:
    """Return the object that is the content of a file; `DataError` if it is no object of JSON."""
    try:
        value = json.loads(content.decode())
        if b"\\u" in content:
            json.dumps(value, ensure_ascii=False).encode()  # raises for half a character
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number of thousands of digits, too deep
        raise DataError(f"{path} does not describe the {kind}: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} does not describe the {kind}: it holds {reprlib.repr(value)}")
    return value


def require_writable(path: str | Path, setting: str) -> None:
    """Refuse a file, given by a setting, that is a folder or whose folder is missing."""
    location = Path(path)
    if location.is_dir():
        raise ConfigError(f"{setting} {location} is a folder")
    if not location.parent.is_dir():
        raise ConfigError(f"{setting} {location} cannot be written: there is no folder {location.parent}")


def require_within(names: Iterable[str]) -> None:
    """Raise `ValueError` for names of files, as a manifest lists them, that lead out of its folder on any system."""
    for name in names:
        if any(part in ("", ".", "..") for part in name.split("/")) or "\\" in name or "\0" in name or name[1:2] == ":":
            raise ValueError(f"a file is {reprlib.repr(name)}, expected a path within the folder")


def files_in(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder, by its path within it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digests.sha256_of_file(path) for path in files}


def changed_files(folder: Path, listed: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the files that are missing or have another sha256 than listed."""
    for name, sha256 in listed.items():
        path = folder / name
        if not path.is_file() or digests.sha256_of_file(path) != sha256:
            yield name


@contextlib.contextmanager
def new_folder(location: Path, complete: str) -> Iterator[Path]:
    """Yield a temporary folder to fill, which becomes `location` when the block ends without an error.

    The block writes `complete`, the manifest, last. If another process finished the same folder first, that one is
    kept, as both have the same content.
    """
    with naming(location, _prefix(location)):
        make_folder(location.parent)
        with aside(location, is_folder=True) as unfinished:
            mode = stat.S_IMODE(unfinished.stat().st_mode)
            yield unfinished
            if not (unfinished / complete).is_file():
                raise AssertionError(f"{complete} was not written")
            # Libraries choose their own modes for folders and files.
            for folder, _, files in os.walk(unfinished):
                for name in files:
                    _sync(Path(folder, name), mode & 0o666)
                _sync(Path(folder), mode)
            try:
                unfinished.rename(location)
            except OSError:
                if not (location / complete).is_file():
                    raise
        _sync(location.parent)


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in another one, removed after the block; remove those of dead processes."""
    make_folder(parent)
    with aside(parent / "run", is_folder=True) as folder:
        yield folder
    _sync(parent)  # so that what is written next cannot outlast its removal


@contextlib.contextmanager
def only_one(folder: Path, shared: bool = False) -> Iterator[None]:
    """Lock a folder against other processes of this machine; wait, and log it, while another one holds the lock.

    Those that share the lock keep out only one that does not.
    """
    make_folder(folder)
    location, lock = folder / ".lock", fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    handle = os.open(location, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        with naming(location):
            try:
                fcntl.flock(handle, lock | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("another process is at work in %s; waiting for it", folder)
                fcntl.flock(handle, lock)
        yield
    finally:
        with naming(location):
            os.close(handle)


@contextlib.contextmanager
def aside(location: Path, is_folder: bool) -> Iterator[Path]:
    """Yield an empty file or folder beside a location, swept before, locked for the block, and removed if left."""
    sweep(location.parent)
    while True:
        path = make_unique(location.parent, _prefix(location), is_folder=is_folder)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks, where nothing is swept
                fcntl.flock(handle, fcntl.LOCK_SH)
            if path.exists():
                break
            os.close(handle)  # it was swept before it was locked
    try:
        yield path
    finally:
        _remove(path)
        os.close(handle)


def _remove(aside: Path) -> None:
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


def _prefix(location: Path) -> str:
    return f".tmp-{location.name}-"


def readable_json(value: Any) -> bytes:
    """Return readable JSON; refuse NaN and infinity."""
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
