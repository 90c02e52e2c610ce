"""Locations of artifacts: local folders, or folders of a bucket with a local mirror.

The mirror of `gs://b/x` is TMPDIR/wgan-UID/buckets/b/x: a stage reads and writes there as in any folder.

An artifact's folder in a bucket, `gs://b/x`, holds `committed.json`, which is created last and only if absent. It names
a folder beside it with all files and their sha256: `gs://b/x/DIGEST/...`. Attempts with different bytes write to
different folders; the first to commit is the artifact. A folder with the files themselves in it is read too: a user
copied it there, or it is a version in a registry.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.core import concurrent
from components.core.errors import ConfigError, DataError, StageError, TransientError, naming
from components.core.storage import atomic_files, buckets, digests
from components.core.storage.buckets import Conflict, Stored
from components.core.storage.json_values import typed

log = logging.getLogger(__name__)

COMMITTED = "committed.json"
# Variable: folder of mirrors. A run's own TMPDIR is removed with it; mirrors save the next run the download.
MIRRORS = "WGAN_MIRRORS"
ATTEMPT = "attempt-"  # begins the name of the folder of an artifact's files whose digest is not known when it begins
SCHEMA_VERSION = 1
_UNCOMMITTED = re.compile(f"({ATTEMPT})?[0-9a-f]{{16}}")  # a folder of an artifact's files; nothing else is swept
_SECONDS_BETWEEN_LINES = 5
_UPLOADS = 8  # at once; each holds a chunk in memory
Wanted = Callable[[str], bool] | None  # which files to fetch, beside the manifest: None for all
MANIFEST_ALONE: Wanted = frozenset[str]().__contains__


@dataclasses.dataclass(frozen=True)
class Written:
    """A file of an artifact."""

    bytes: int
    sha256: str
    crc32c: str  # as the storage of a bucket writes it; empty in a folder


@dataclasses.dataclass(frozen=True)
class Location:
    """A folder or file: `str` gives its URI, for messages; `path` is on this machine, and needs a fetch in a bucket."""

    uri: str  # from users: gs://..., or a path
    path: Path  # the mirror, for a bucket

    @classmethod
    def of(cls, location: "LocationLike") -> "Location":
        """Return the location of a path or URI; `ConfigError` for other schemes than gs://, and for `~`."""
        if isinstance(location, Location):
            return location
        text = str(location)
        if buckets.is_uri(text):
            bucket, name = buckets.split(text)
            return cls(text.rstrip("/"), private("buckets") / bucket / name)
        if "://" in text:
            raise ConfigError(f"{text} is neither a folder of this machine nor in a bucket, {buckets.SCHEME}...")
        if text.partition("/")[0] == "~":  # which would become a folder of this name
            raise ConfigError(f"{text} begins with ~, which your shell did not expand; write $HOME, or the whole path")
        return cls(str(Path(text)), Path(text))

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "Location":
        if buckets.is_uri(name):  # as `Path` does with an absolute path
            return Location.of(name)
        path = self.path / name
        return Location(f"{self.uri}/{name}" if self.in_bucket else str(path), path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def parent(self) -> "Location":
        return Location(self.uri.rpartition("/")[0] if self.in_bucket else str(self.path.parent), self.path.parent)

    @property
    def in_bucket(self) -> bool:
        return buckets.is_uri(self.uri)

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder that exists here, or any in a bucket, where they exist by their files alone."""
        return self.in_bucket or self.path.is_dir()

    def resolved(self) -> "Location":
        """Return this location by a full path without links, or as it is in a bucket."""
        return self if self.in_bucket else Location.of(self.path.resolve())

    @property
    def own(self) -> Path:
        """The folder for this machine's own notes on a location: itself, or a folder beside all mirrors."""
        return private("own") / self.uri.removeprefix(buckets.SCHEME) if self.in_bucket else self.path

    def note(self, location: "LocationLike") -> str:
        """Return how a file below this root names a location: by its path within the root, so that both can move."""
        root, path = (uri if buckets.is_uri(uri) else str(Path(uri).absolute()) for uri in (self.uri, str(location)))
        return path.removeprefix(f"{root}/")

    def fetch(self, manifest: str, wanted: Wanted = None) -> bool:
        """Update an artifact's manifest, and the wanted files, from the bucket.

        Files of an earlier, interrupted fetch are kept. Return whether the artifact is complete. `DataError` if a file
        is missing or damaged in the bucket, `TransientError` if the files do not fit on the disk or the network fails.
        """
        if not self.in_bucket:
            return (self.path / manifest).exists()
        if committed := self.committed():
            folder, listed = committed
            objects = folder.files()
            for name, file in sorted(listed.items()):
                if not _is_whole(objects.get(name), file):
                    raise DataError(f"{self} is damaged: {name} in {folder} is not the file that {COMMITTED} describes")
            files = {name: (objects[name], self.path / name, file.sha256) for name, file in listed.items()}
        else:
            files = {name: (stored, self.path / name, "") for name, stored in self.files().items()}
            if manifest not in files:
                return False
        chosen = [copy for name, copy in files.items() if wanted is None or name == manifest or wanted(name)]
        are_here = concurrent.transfers(_is_same, chosen)
        missing = [file for file, is_here in zip(chosen, are_here, strict=True) if not is_here]
        self._download(missing, self.path / manifest)
        if wanted is None and not committed:  # copied by a user, who may remove files
            for path in self.path.rglob("*"):
                name = path.relative_to(self.path).as_posix()
                if path.is_file() and name not in files and not path.name.startswith(".tmp-"):  # a current download
                    path.unlink(missing_ok=True)
        return True

    def _download(self, missing: list[tuple[Stored, Path, str]], manifest: Path) -> None:
        """Download files if they fit on the disk, the manifest last; log progress every few seconds."""
        needed = sum(stored.bytes for stored, _, _ in missing)
        folder = next(parent for parent in self.path.parents if parent.exists())
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise TransientError(
                f"{self}: {needed / 1e6:,.1f} MB must be downloaded, and {folder} has {free / 1e6:,.1f} MB free; free "
                f"some, or set {MIRRORS} to a folder on a larger disk"
            )
        # Otherwise another process would take the mirror for complete too early.
        files = [file for file in missing if file[1] != manifest]
        size = sum(stored.bytes for stored, _, _ in files)
        if files:
            log.info("downloading %s: %d files, %.1f MB", self, len(files), size / 1e6)
        began = logged = time.monotonic()
        done = 0
        for (stored, _, _), _ in zip(files, concurrent.transfers(_download, files), strict=True):
            done += stored.bytes
            now = time.monotonic()
            if now - logged > _SECONDS_BETWEEN_LINES and done < size:
                rate, logged = done / (now - began), now
                message = "downloaded %.1f of %.1f MB of %s, %.1f MB/s, %.0f s left"
                log.info(message, done / 1e6, size / 1e6, self, rate / 1e6, (size - done) / rate)
        for file in missing:
            if file[1] == manifest:
                _download(file)

    def require(self, manifest: str, kind: str, wanted: Wanted = None) -> "Location":
        """Fetch files of an artifact as `fetch` does; `DataError` if the bucket has none."""
        if self.in_bucket and not self.fetch(manifest, wanted):
            raise DataError(f"no {kind} at {self}: neither {COMMITTED} nor {manifest} is there")
        return self

    def fetch_files(self, suffix: str) -> None:
        """Update the files in this folder whose names end in a suffix from the bucket."""
        if not self.in_bucket:
            return
        wanted = {name: stored for name, stored in self.files().items() if "/" not in name and name.endswith(suffix)}
        for path in self.path.glob(f"*{suffix}"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)
        copies = [(stored, self.path / name, "") for name, stored in wanted.items()]
        list(concurrent.transfers(_download, [copy for copy in copies if not _is_same(copy)]))

    def content(self, name: str) -> bytes | None:
        """Return the content of a file below this folder, without the mirror; None if it is absent."""
        path = self.path / name
        if self.in_bucket:
            answer = buckets.read(f"{self}/{name}")
            return answer and answer[0]
        with naming(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return path.read_bytes()
        return None

    def write_file(self, content: bytes | Iterable[bytes]) -> None:
        """Write one file, which has no other writers, as `atomic_files` does; in a bucket over the one there too."""
        atomic_files.write_file(self.path, content)
        if self.in_bucket:
            buckets.put(self.uri, self.path.read_bytes())

    def files(self, checksums: bool = False) -> dict[str, Stored]:
        """Return the files below this folder, which need not exist, by their paths within it.

        Left out are placeholders of empty folders in a bucket, and hidden files here, which are being written. Files
        here have a checksum only if `checksums`.
        """
        files = {}
        if self.in_bucket:
            for stored in buckets.below(self.uri):
                if not stored.uri.endswith("/"):
                    buckets.split(stored.uri)  # refuse names that lead out of the mirror
                    files[stored.uri.removeprefix(f"{self}/")] = stored
            return files
        with naming(self.path):
            for folder, _, names in os.walk(self.path, onerror=_raise_unless_gone, followlinks=True):
                for path in [Path(folder, name) for name in names if not name.startswith(".")]:
                    with contextlib.suppress(FileNotFoundError):  # it is deleted meanwhile
                        crc32c = buckets.checksum(path) if checksums else ""
                        stored = Stored(str(path), path.stat().st_size, crc32c, 0)
                        files[path.relative_to(self.path).as_posix()] = stored
        return files

    @property
    def scratch(self) -> Path:
        """The folder of this machine for files before `create` makes them here."""
        return private("aside") if self.in_bucket else self.path

    def create(self, sources: Mapping[str, Path]) -> None:
        """Make new files below this folder of finished ones in `scratch`, by name; `Conflict` if one has other content.

        The same content that is there already stays.
        """
        if self.in_bucket:
            list(concurrent.transfers(lambda name: buckets.create(f"{self}/{name}", sources[name]), sources, _UPLOADS))
            return
        for name, source in sources.items():
            if not atomic_files.link_new(source, self.path / name) and self.content(name) != source.read_bytes():
                raise Conflict(f"{self}/{name}")

    def replace(self, name: str, content: bytes, previous: bytes | None) -> None:
        """Write a file below this folder in place of its previous content, None for none; `Conflict` for another.

        The same content that is there already stays.
        """
        if self.in_bucket:
            current, stored = buckets.read(f"{self}/{name}") or (None, None)
            if current == previous:
                buckets.create(f"{self}/{name}", content, over=stored.generation if stored else 0)
            elif current != content:
                raise Conflict(f"{self}/{name}")
            return
        with atomic_files.only_one(self.path):
            current = self.content(name)
            if current == previous:
                atomic_files.write_file(self.path / name, content)
            elif current != content:
                raise Conflict(f"{self}/{name}")

    def children(self) -> list["Location"]:
        """Return the folders in this one, whose mirrors may be empty; no hidden ones."""
        if self.in_bucket:
            names = {name.partition("/")[0] for name in self.files() if "/" in name}
        else:
            names = {path.name for path in self.path.glob("*") if path.is_dir()}
        return [self / name for name in sorted(names) if not name.startswith(".")]

    def file(self, name: str) -> str:
        """Return the path or URI of a file of this artifact, for people: in a bucket the committed folder has it."""
        if not self.in_bucket:
            return str(self.path / name)
        folder, _ = self.committed() or (self, {})
        return f"{folder}/{name}"

    @contextlib.contextmanager
    def new_folder(self, complete: str) -> Iterator[Path]:
        """Do what `atomic_files.new_folder` does, and commit the folder to the bucket; the first one counts."""
        if self.in_bucket:
            atomic_files.remove_folder(self.path)  # a mirror of what is no longer there
        with atomic_files.new_folder(self.path, complete) as folder:
            yield folder
        if self.in_bucket:
            log.info("sending %s", self)
            if not self.commit(self.path, complete):
                log.info("another process made %s first; its result is used", self)

    def commit(self, folder: Path, manifest: str) -> bool:
        """Commit a complete folder, which nobody writes to any more, as this artifact in the bucket.

        Return False as `publish` does. After a failure the next attempt continues with the uploaded files.
        """
        # Checksums are read before sending, and compared with the bucket's afterwards.
        files = {
            name: Written((folder / name).stat().st_size, sha256, buckets.checksum(folder / name))
            for name, sha256 in atomic_files.files_in(folder).items()
        }
        if manifest not in files:
            raise FileNotFoundError(f"{folder} is gone or incomplete")
        if committed := self.committed():
            return committed[1].get(manifest) == files[manifest]
        contents = {name: {"bytes": file.bytes, "sha256": file.sha256} for name, file in files.items()}
        attempt = digests.digest_of(contents)[:16]
        target = self / attempt
        for name, stored in target.files().items():
            if name in files and not _is_whole(stored, files[name]):
                buckets.delete(stored)  # damaged, as the folder's name is the digest of its files
        target.create({name: folder / name for name in files})
        return self.publish(attempt, files, manifest)

    def publish(self, folder: str, files: Mapping[str, Written], manifest: str) -> bool:
        """Make complete files of a folder within this one this artifact.

        Return False if one with another manifest was committed before; `TransientError` if the files in the bucket
        are others.
        """
        objects = (self / folder).files()
        for name, file in files.items():
            if not _is_whole(objects.get(name), file):
                raise TransientError(f"{self}/{folder}/{name} is not what was sent; try again")
        listed = {name: vars(file) for name, file in files.items()}
        content = digests.canonical_json({"schema_version": SCHEMA_VERSION, "folder": folder, "files": listed})
        try:
            buckets.create(f"{self}/{COMMITTED}", content)
            return True
        except Conflict:
            committed = self.committed()
            return committed is not None and committed[1].get(manifest) == files[manifest]

    def committed(self) -> tuple["Location", dict[str, Written]] | None:
        """Return the committed folder in the bucket, and its files by name; None without one."""
        if (answer := buckets.read(f"{self}/{COMMITTED}")) is None:
            return None
        try:
            value: dict[str, Any] = json.loads(answer[0])
            if value["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"its schema version is not {SCHEMA_VERSION}")
            files: dict[str, Written] = typed(dict[str, Written], value["files"], "files")
            atomic_files.require_within([value["folder"], *files])
            return self / value["folder"], files
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{self}/{COMMITTED} does not describe what was committed: {error!r}") from None

    @contextlib.contextmanager
    def removed_if_damaged(self, warning: str = "made again, as %s") -> Iterator[None]:
        """Remove an artifact if the block raises a `DataError` about it, and warn; go on after the block.

        What another process has made since stays. In a bucket, what `committed.json` names then counts as never
        committed.
        """
        stored = buckets.stat(f"{self}/{COMMITTED}") if self.in_bucket else None
        handle = None
        with contextlib.suppress(FileNotFoundError):
            handle = None if self.in_bucket else os.open(self.path, os.O_RDONLY)
        try:
            yield
        except DataError as error:
            if stored:
                buckets.delete(stored)
            if handle is not None:
                atomic_files.remove_opened(self.path, handle)
            log.warning(warning, error)
        finally:
            if handle is not None:
                os.close(handle)

    def sweep(self, attempt: str = "") -> None:
        """Delete files of attempts that were not committed from the bucket; before any commit, only those of `attempt`.

        A failure is logged, and the next run of the stage tries again. In a folder nothing is left to sweep.
        """
        if not self.in_bucket:
            return
        try:
            committed = self.committed()
            folder, files = committed or (self, {})
            kept = {f"{folder}/{name}" for name in files}
            for name, stored in self.files().items():
                within = name.partition("/")[0]
                is_over = _UNCOMMITTED.fullmatch(within) if committed else within == attempt
                if is_over and stored.uri not in kept:
                    buckets.delete(stored)
        except StageError as error:
            log.warning("files that are no longer needed stay below %s until this runs again: %s", self, error)

    def remove(self, *first: str) -> None:
        """Remove this folder: first `committed.json` and these files, so that nobody takes the rest for an artifact."""
        files = self.files()
        for name in dict.fromkeys([COMMITTED, *first, *files]):
            if not self.in_bucket:
                (self.path / name).unlink(missing_ok=True)
            elif name in files:
                buckets.delete(files[name])
        if not self.in_bucket:
            shutil.rmtree(self.path, ignore_errors=True)  # folders, and what killed processes left

    def require_writable(self) -> None:
        """Fail if the location cannot be written to, before the work to fill it; make the folder around it."""
        if self.in_bucket:
            buckets.require_writable(self.parent.uri)
            return
        atomic_files.make_folder(self.path.parent)
        with tempfile.TemporaryFile(dir=self.path.parent):
            pass


LocationLike = str | Path | Location  # a path or URI from users, or a `Location`


def private(name: str) -> Path:
    """Return a folder below TMPDIR, or `WGAN_MIRRORS`; it must be this user's, as its content is trusted."""
    root = Path(os.environ.get(MIRRORS) or tempfile.gettempdir(), f"wgan-{os.getuid()}")
    for folder in (root, root / name):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise ConfigError(f"{folder} belongs to another user; set TMPDIR to a folder of your own")
    return root / name


def _is_whole(stored: Stored | None, file: Written) -> bool:
    return stored is not None and (stored.bytes, stored.crc32c) == (file.bytes, file.crc32c)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_same(copy: tuple[Stored, Path, str]) -> bool:
    stored, path, sha256 = copy
    if not path.is_file() or path.stat().st_size != stored.bytes:
        return False
    if sha256:
        return digests.sha256_of_file(path) == sha256
    return buckets.checksum(path) == stored.crc32c


def _download(copy: tuple[Stored, Path, str]) -> None:
    stored, path, sha256 = copy
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_files.aside(path, is_folder=False) as aside:
        buckets.download(stored.uri, aside)
        if sha256 and digests.sha256_of_file(aside) != sha256:
            raise DataError(f"{stored.uri} is damaged: it is not the file that {COMMITTED} describes")
        aside.replace(path)
