"""Where artefacts are: folders of this machine, or of a bucket.

A folder in a bucket has a mirror on this machine, `gs://b/x` as TMPDIR/wgan-UID/buckets/b/x, in which a stage reads and
writes as in any folder. Nothing is mirrored by itself: what is in the bucket is fetched, and what was made is sent,
whole or not at all.

An artefact's folder in a bucket, `gs://b/x`, holds `committed.json`, which is created last and only if there is none,
and names a folder beside it with all the files and their sha256: `gs://b/x/DIGEST/...`. Attempts that make different
bytes write to different folders and never into one another's; the one that commits first is the artefact. A folder
without `committed.json` whose files lie in it as they are, copied there by a user or published in a registry, is read
too.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from components import buckets, digests, storage
from components.buckets import Conflict, Stored
from components.errors import ConfigError, DataError, TransientError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)

COMMITTED = "committed.json"
# Variable: where mirrors are kept. A run's own TMPDIR is removed with it; mirrors save the next run the download.
MIRRORS = "WGAN_MIRRORS"
SCHEMA_VERSION = 1
_AT_ONCE = 8  # files on their way
_Config = TypeVar("_Config", bound="DataclassInstance")


def local(place: str | Path) -> Path:
    """The folder itself, or the mirror of one in a bucket. Nothing is fetched.

    Raises:
        ConfigError: It names no place in a bucket, or is of another scheme than gs://.
    """
    text = str(place)
    if not buckets.is_uri(text):
        if "://" in text:
            raise ConfigError(f"{text} is neither a folder of this machine nor in a bucket, {buckets.SCHEME}...")
        return Path(place)
    bucket, name = buckets.split(text)
    return private("buckets") / bucket / name


def given(place: str | Path) -> str:
    """The place as users know it: a mirror as the URI that it mirrors."""
    return told(str(place))


def told(text: str) -> str:
    """A text with the URIs of all mirrors in it in place of their paths."""
    return text.replace(f"{_root()}/", buckets.SCHEME)


def beside(place: Path) -> Path:
    """Where this machine keeps what is its own about a place: there, or for one in a bucket beside all mirrors."""
    return private("own") / place.relative_to(_root()) if in_bucket(place) else place


def file_of(place: str, name: str) -> str:
    """Where a file of an artefact lies, for people: in a bucket the folder that was committed has it."""
    if not in_bucket(place):
        return str(Path(place, name))
    found = buckets.read(f"{place}/{COMMITTED}")
    folder = _said(place, found[0])[0] if found else place
    return f"{folder}/{name}"


def in_bucket(place: str | Path) -> bool:
    """Whether a place, or what it mirrors, is in a bucket."""
    return buckets.is_uri(given(place))


def holds(place: Path, manifest: str, whole: bool = True) -> bool:
    """Whether an artefact is there and complete; one in a bucket is fetched.

    Args:
        place: Its folder, or the mirror of it.
        manifest: The name of its description.
        whole: Whether all of it is wanted, or its description alone.

    Raises:
        DataError: It is damaged.
    """
    if not in_bucket(place):
        return (place / manifest).exists()
    return _fetch(given(place), manifest, ("",) if whole else ())


def fetched(place: str | Path, manifest: str, what: str, whole: bool = True) -> Path:
    """The folder of an artefact on this machine, with what is in the bucket.

    Args:
        place: Its folder.
        manifest: The name of its description.
        what: What it is, for the message ("dataset", "checkpoint", ...).
        whole: Whether all of it is wanted, or its description alone.

    Raises:
        DataError: There is none in the bucket, or it is damaged. A folder of this machine is not looked at.
    """
    folder = local(place)
    if in_bucket(folder) and not holds(folder, manifest, whole):
        raise DataError(f"no {what} at {given(folder)}: neither {COMMITTED} nor {manifest} is there")
    return folder


def with_mirrors(config: _Config, *outputs: str, **inputs: str) -> _Config:
    """A stage's configuration with folders of this machine in place of those in buckets.

    Args:
        config: The configuration, a dataclass.
        *outputs: Names of the settings that say where something is to be made. They may have a `{key}`.
        **inputs: By the names of those that say where an artefact is, the name of its description; it is fetched. An
            empty setting stays empty.

    Raises:
        ConfigError: One names no place.
        DataError: An artefact is missing or damaged.
    """
    named = {name: str(local(getattr(config, name))) for name in outputs if getattr(config, name)}
    for name, manifest in inputs.items():
        if getattr(config, name):
            named[name] = str(fetched(getattr(config, name), manifest, name.replace("_", " ")))
    return dataclasses.replace(config, **named)


def fetch_file(path: Path) -> bool:
    """Brings one file of a mirror to the state of the bucket; tells whether it is there."""
    if not in_bucket(path):
        return path.exists()
    found = buckets.read(given(path))
    if found is None:
        path.unlink(missing_ok=True)
        return False
    storage.write_file(path, found[0])
    return True


def fetch_files(folder: Path, suffix: str) -> None:
    """Brings the files that lie in one folder of a mirror, and end in a suffix, to the state of the bucket."""
    if not in_bucket(folder):
        return
    uri = given(folder)
    there = _files_below(uri)
    wanted = {name: stored for name, stored in there.items() if "/" not in name and name.endswith(suffix)}
    for path in folder.glob(f"*{suffix}"):
        if path.name not in wanted:
            path.unlink(missing_ok=True)
    _each([(stored, folder / name, "") for name, stored in wanted.items() if not _is_same(folder / name, stored, "")])


def fetch_all(folder: Path, manifest: str, suffixes: tuple[str, ...] = ("",)) -> None:
    """Brings every artefact that lies in one folder of a mirror to the state of the bucket; damaged ones are told.

    Args:
        folder: The folder that holds their folders.
        manifest: The name of their descriptions.
        suffixes: Besides the descriptions only files whose names end in one of these are fetched.
    """
    for place in artefacts(folder, manifest):
        fetch_part(place, manifest, suffixes)


def fetch_part(place: Path, manifest: str, suffixes: tuple[str, ...]) -> None:
    """Brings the files of an artefact whose names end in one of some suffixes; a damaged artefact is told."""
    try:
        if in_bucket(place):
            _fetch(given(place), manifest, suffixes)
    except DataError as error:
        log.error("passed over: %s", error)


def artefacts(folder: Path, manifest: str) -> list[Path]:
    """The mirrors of the artefacts that lie in one folder of a bucket, by name; none for a folder of this machine.

    Args:
        folder: The folder that holds their folders.
        manifest: The name of their descriptions.
    """
    if not in_bucket(folder):
        return []
    uri = given(folder)
    parts = [name.split("/") for name in _files_below(uri)]
    return sorted({folder / names[0] for names in parts if len(names) == 2 and names[1] in (COMMITTED, manifest)})


def folders(place: Path) -> list[Path]:
    """The folders that lie in one, by name, but for hidden ones; mirrors of those in a bucket, which may be empty."""
    if in_bucket(place):
        names = {name.partition("/")[0] for name in _files_below(given(place)) if "/" in name}
    else:
        names = {path.name for path in place.glob("*") if path.is_dir()}
    return [place / name for name in sorted(names) if not name.startswith(".")]


def send_file(path: Path) -> None:
    """Puts one file of a mirror, which one writer has, into the bucket, whatever was there."""
    if in_bucket(path):
        buckets.put(given(path), path.read_bytes())


def send(folder: Path, uri: str) -> bool:
    """Commits a folder of this machine to a bucket.

    Args:
        folder: A complete artefact that nobody writes to any more.
        uri: Where it is to be.

    Returns:
        Whether it is the one that is there now; False if another was committed before.

    Raises:
        ConfigError, TransientError, DataError: It cannot be sent; what has been is used when it is tried again.
    """
    # Of one moment: what is sent later is compared with this.
    found = storage.files_in(folder)
    checksums = {name: buckets.checksum_of_file(folder / name) for name in found}
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256} for name, sha256 in found.items()}
    attempt = digests.digest_of(files)[:16]
    content = digests.canonical_json({"schema_version": SCHEMA_VERSION, "folder": attempt, "files": files})
    there = buckets.read(f"{uri}/{COMMITTED}")
    if there is not None:
        return there[0] == content
    place = f"{uri}/{attempt}"
    _all_done([_pool().submit(buckets.create, f"{place}/{name}", folder / name) for name in files])
    _require_sent(place, checksums)
    try:
        buckets.create(f"{uri}/{COMMITTED}", content)
    except Conflict:
        return False
    return True


def remove(uri: str) -> None:
    """Removes an artefact from a bucket: first what says that it is there, then its files."""
    found = buckets.below(uri)
    for stored in sorted(found, key=lambda each: each.uri != f"{uri}/{COMMITTED}"):
        buckets.delete(stored)


@contextlib.contextmanager
def new_folder(place: Path, complete: str) -> Iterator[Path]:
    """As `storage.new_folder`; what becomes of a mirror is committed to the bucket first.

    If another process committed the same folder first, in the bucket as on this machine, that one is kept.
    """
    if not in_bucket(place):
        with storage.new_folder(place, complete) as folder:
            yield folder
        return
    uri = given(place)
    with storage.temporary_folder(private("aside")) as aside:
        yield aside
        if not (aside / complete).is_file():
            raise AssertionError(f"{complete} was not written")
        log.info("sending %s", uri)
        if send(aside, uri):
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another process of this machine fetched the same meanwhile
                aside.rename(place)
        else:
            log.info("another process made %s first; that one is kept", uri)
    _fetch(uri, complete)


def require_writable(place: Path) -> None:
    """Refuses a place in a bucket where nothing can be written, before the work that is to fill it.

    Raises:
        ConfigError: The bucket does not exist, or the credentials may not write there.
    """
    if in_bucket(place):
        buckets.require_writable(given(place).rpartition("/")[0])


@dataclasses.dataclass(frozen=True)
class _Content:
    """What is at a place in a bucket: its files, each with its sha256 where that is known, else empty."""

    files: dict[str, tuple[Stored, str]]


def _fetch(uri: str, manifest: str, suffixes: tuple[str, ...] = ("",)) -> bool:
    """Brings a mirror to the state of the bucket: the description, and files whose names end in one of the suffixes.

    Returns:
        False if there is no complete artefact.
    """
    content = _content(uri, manifest)
    if content is None:
        return False
    mirror = local(uri)
    missing = [
        (stored, mirror / name, sha256)
        for name, (stored, sha256) in content.files.items()
        if (name == manifest or name.endswith(suffixes)) and not _is_same(mirror / name, stored, sha256)
    ]
    if missing:
        log.info("fetching %s: %d files, %.1f MB", uri, len(missing), sum(each[0].bytes for each in missing) / 1e6)
    # The description last, so that nobody on this machine takes a mirror for complete that is not.
    _each([each for each in missing if each[1] != mirror / manifest])
    _each([each for each in missing if each[1] == mirror / manifest])
    if "" in suffixes and not any(sha256 for _, sha256 in content.files.values()):
        _drop_others(mirror, content.files)
    return True


def _drop_others(mirror: Path, names: Collection[str]) -> None:
    """Deletes from a mirror what is no more in the bucket, so that it is missed; but not what is on its way."""
    for path in mirror.rglob("*"):
        if path.is_file() and path.relative_to(mirror).as_posix() not in names and not path.name.startswith(".tmp-"):
            path.unlink(missing_ok=True)


def _content(uri: str, manifest: str) -> _Content | None:
    found = buckets.read(f"{uri}/{COMMITTED}")
    if found is None:
        plain = {name: (stored, "") for name, stored in _files_below(uri).items()}
        return _Content(plain) if manifest in plain else None
    place, listed = _said(uri, found[0])
    there = _files_below(place)
    lost = sorted(name for name, (size, _) in listed.items() if name not in there or there[name].bytes != size)
    if lost:
        raise DataError(f"{uri} is damaged: {lost[0]} in {place} is missing or of another size")
    return _Content({name: (there[name], sha256) for name, (_, sha256) in listed.items()})


def _said(uri: str, committed: bytes) -> tuple[str, dict[str, tuple[int, str]]]:
    """The folder that was committed, and bytes and sha256 of its files."""
    try:
        said: dict[str, Any] = json.loads(committed)
        if said["schema_version"] != SCHEMA_VERSION:
            raise DataError(f"{uri} is of another schema version; expected {SCHEMA_VERSION}")
        files = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in said["files"].items()}
        return f"{uri}/{said['folder']}", files
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{uri}/{COMMITTED} does not describe what was committed: {error!r}") from None


def _files_below(uri: str) -> dict[str, Stored]:
    """The objects below a place by their names within it, but for what stands for empty folders."""
    found = {}
    for stored in buckets.below(uri):
        if not stored.uri.endswith("/"):
            buckets.split(stored.uri)  # no name leads out of the mirror
            found[stored.uri.removeprefix(f"{uri}/")] = stored
    return found


def _is_same(path: Path, stored: Stored, sha256: str) -> bool:
    try:
        if path.stat().st_size != stored.bytes:
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    if sha256:
        return digests.sha256_of_file(path) == sha256
    return buckets.checksum_of_file(path) == stored.crc32c


def _each(files: list[tuple[Stored, Path, str]]) -> None:
    """Downloads objects to files, each whole or not at all."""
    _all_done([_pool().submit(_download, *file) for file in files])


def _pool() -> ThreadPoolExecutor:
    """Threads that last, as each has a client of its own, with credentials and connections."""
    return _pool_of(os.getpid(), _AT_ONCE)


@functools.cache
def _pool_of(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "transfers")


def _all_done(transfers: list[Future[None]]) -> None:
    """Waits for all, whether or not one fails; raises what the first raised that did."""
    wait(transfers)
    for transfer in transfers:
        transfer.result()


def _download(stored: Stored, path: Path, sha256: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=f".tmp-{path.name}-", dir=path.parent)
    os.close(handle)
    try:
        buckets.download(stored.uri, Path(aside))
        if sha256 and digests.sha256_of_file(Path(aside)) != sha256:
            raise DataError(f"{stored.uri} is damaged: it is not the file that {COMMITTED} describes")
        Path(aside).replace(path)
    finally:
        Path(aside).unlink(missing_ok=True)


def _require_sent(place: str, checksums: dict[str, str]) -> None:
    there = _files_below(place)
    for name, checksum in checksums.items():
        if name not in there or there[name].crc32c != checksum:
            raise TransientError(f"{place}/{name} is not what was sent; try again")


def _root() -> Path:
    return Path(os.environ.get(MIRRORS) or tempfile.gettempdir(), f"wgan-{os.getuid()}", "buckets")


def private(name: str) -> Path:
    """Return a folder of this user's alone below TMPDIR, or below `WGAN_MIRRORS`: its content is trusted.

    Raises:
        ConfigError: It belongs to another user.
    """
    folder = _root().parent / name
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise ConfigError(f"{each} belongs to another user; set TMPDIR to a folder of your own")
    return folder
