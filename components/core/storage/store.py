"""Files by name, in a folder of this machine or of a bucket: who uses them does not know which.

A file appears whole or not at all. It is created only if absent, or replaced only as it was read: `Conflict` otherwise.
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

from components.core import concurrent
from components.core.errors import naming
from components.core.storage import atomic_files, buckets
from components.core.storage.buckets import Conflict
from components.core.storage.location import Location, private


@dataclasses.dataclass(frozen=True)
class Store:
    """The files below a folder, which need not exist."""

    root: Location

    @property
    def scratch(self) -> Path:
        """A folder of this machine for files before they are created."""
        return private("aside") if self.root.in_bucket else self.root.path

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
            list(concurrent.transfers(lambda name: buckets.create(f"{self.root}/{name}", sources[name]), sources))
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
