"""Files by name, in a folder of this machine or of a bucket: who uses them does not know which.

A file appears whole or not at all. It is created only if absent, or replaced only as it was read: `Conflict` otherwise.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from components.core import concurrent
from components.core.errors import naming
from components.core.storage import atomic_files, buckets
from components.core.storage.buckets import Conflict
from components.core.storage.location import Location, create_all, files_below, private


@dataclasses.dataclass(frozen=True)
class Store:
    """The files below a folder, which need not exist; hidden ones, which are being written here, do not count."""

    root: Location

    @property
    def scratch(self) -> Path:
        """A folder of this machine for files before they are created."""
        return private("aside") if self.root.in_bucket else self.root.path

    def names(self, below: str) -> list[str]:
        """Return the files below a folder, by their paths within it."""
        return sorted(self.sizes(below))

    def sizes(self, below: str) -> dict[str, int]:
        """Return the bytes of the files below a folder, by their paths within it."""
        if self.root.in_bucket:
            return {name: file.bytes for name, file in files_below(f"{self.root}/{below}".rstrip("/")).items()}
        folder, sizes = self.root.path / below, {}
        with naming(folder):
            for parent, _, names in os.walk(folder, onerror=_raise_unless_gone, followlinks=True):
                for file in [Path(parent, name) for name in names if not name.startswith(".")]:
                    with contextlib.suppress(FileNotFoundError):  # it is deleted meanwhile
                        sizes[file.relative_to(folder).as_posix()] = file.stat().st_size
        return sizes

    def checksums(self, below: str) -> dict[str, tuple[int, str]]:
        """Return the bytes and the crc32c, in base64, of the files below a folder, by their paths within it."""
        if self.root.in_bucket:
            return {name: (file.bytes, file.crc32c) for name, file in files_below(f"{self.root}/{below}").items()}
        folder = self.root.path / below
        with naming(folder):
            return {name: (size, buckets.checksum_of_file(folder / name)) for name, size in self.sizes(below).items()}

    def read(self, name: str) -> tuple[bytes, int] | None:
        """Return the content of a file and its generation, another number for another content; None if absent."""
        if self.root.in_bucket:
            answer = buckets.read(f"{self.root}/{name}")
            return answer and (answer[0], answer[1].generation)
        path = self.root.path / name
        with naming(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            content = path.read_bytes()
            return content, int.from_bytes(hashlib.sha256(content).digest()) + 1
        return None

    def create(self, sources: Mapping[str, Path]) -> None:
        """Make new files of finished ones in `scratch`, by name. The same content that is there already stays."""
        if self.root.in_bucket:
            create_all({f"{self.root}/{name}": source for name, source in sources.items()})
            return
        for name, source in sources.items():
            if not atomic_files.link_new(source, self.root.path / name):
                stored_content, _ = self.read(name) or (None, 0)
                if stored_content != source.read_bytes():
                    raise Conflict(f"{self.root}/{name}")

    def replace(self, name: str, content: bytes, generation: int) -> None:
        """Write a file in place of the one of a generation, 0 for none."""
        if self.root.in_bucket:
            buckets.replace(f"{self.root}/{name}", content, generation)
            return
        with atomic_files.only_one(self.root.path):
            stored_content, stored_generation = self.read(name) or (None, 0)
            if stored_content == content:
                return
            if stored_generation != generation:
                raise Conflict(f"{self.root}/{name}")
            atomic_files.write_file(self.root.path / name, content)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files that exist, and the folders that are empty then."""
        if self.root.in_bucket:
            for stored in concurrent.transfers(buckets.stat, [f"{self.root}/{name}" for name in names]):
                if stored:
                    buckets.delete(stored)
            return
        for name in names:
            (self.root.path / name).unlink(missing_ok=True)
            for folder in Path(name).parents[:-1]:
                with contextlib.suppress(OSError):  # it is not empty, or gone
                    atomic_files.sweep(self.root.path / folder)
                    (self.root.path / folder).rmdir()


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
