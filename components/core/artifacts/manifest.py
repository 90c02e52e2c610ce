"""The manifest of an artifact: a frozen dataclass, kept beside the artifact's files as sealed JSON, written last."""

import dataclasses
import logging
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

from components.core.errors import DataError, Incompatible
from components.core.stage import cache_key
from components.core.storage import atomic_files, digests
from components.core.storage.json_values import typed
from components.core.storage.location import MANIFEST_ALONE, Location, LocationLike

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The manifest of an artifact. Each field is in the file under its name; reading checks its type."""

    FILE: ClassVar[str]
    KIND: ClassVar[str]  # the kind of artifact, for messages
    VERSION: ClassVar[int]
    NOT_IN_DIGEST: ClassVar[tuple[str, ...]] = (digests.MADE_WITH,)
    # Fields that older artifacts do not have: not written while empty, so that those keep their digest.
    LEFT_OUT_IF_EMPTY: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON value of the file, without its seal."""
        value = {"schema_version": self.VERSION, **dataclasses.asdict(self)}
        return {name: field for name, field in value.items() if field or name not in self.LEFT_OUT_IF_EMPTY}

    @property
    def content(self) -> dict[str, Any]:
        """The part of the JSON value that decides the digest."""
        return {name: value for name, value in self.to_json().items() if name not in self.NOT_IN_DIGEST}

    @property
    def digest(self) -> str:
        """sha256 that names the artifact's content."""
        return digests.digest_of(self.content)

    @property
    def listed(self) -> dict[str, str]:
        """The sha256 of each file that `of` checks, by its path within the artifact."""
        files: dict[str, str] = vars(self).get("files", {})
        return files

    def write(self, folder: Path) -> None:
        atomic_files.write_file(folder / self.FILE, atomic_files.sealed_json(self.to_json()))

    @classmethod
    def read(cls, folder: LocationLike) -> Self:
        """Read the manifest of an artifact, and no other file of it; `DataError` if it is missing or damaged."""
        location = Location.of(folder)
        return cls.parse(atomic_files.read(location.path / cls.FILE, cls.KIND, location), location / cls.FILE)

    @classmethod
    def parse(cls, content: bytes, path: Location) -> Self:
        """Convert the content of the file, as `read` does."""
        value = atomic_files.unsealed(content, path, cls.KIND)
        try:
            return cls.from_json(value, str(path))
        except DataError as error:  # by its seal it is as it was written
            raise Incompatible(str(error)) from None

    @classmethod
    def from_json(cls, value: Any, where: str) -> Self:
        """Convert the JSON value of `to_json`, as `read` does."""
        try:
            version = value.pop("schema_version")
            if version != cls.VERSION:
                raise Incompatible(
                    f"{where} has schema version {reprlib.repr(version)}, expected {cls.VERSION}: make the {cls.KIND} "
                    "again, or use the version of this program that made it"
                )
            manifest: Self = typed(cls, value, "")
            _ = manifest.digest  # raises for values that our files never hold, such as NaN
            atomic_files.require_within(manifest.listed)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise DataError(f"{where} does not describe the {cls.KIND}: {reason}") from None
        return manifest

    @classmethod
    def fetch(cls, folder: LocationLike, expected_digest: str = "", whole: bool = True) -> Self:
        """Read an artifact as `of` does, after fetching it from its bucket: all of it or its manifest alone."""
        location = Location.of(folder).require(cls.FILE, cls.KIND, None if whole else MANIFEST_ALONE)
        return cls.of(location, expected_digest, whole)

    @classmethod
    def of(cls, folder: LocationLike, expected_digest: str = "", whole: bool = True) -> Self:
        """Read the manifest of an artifact and check the listed files, and its digest if one is expected.

        Unless `whole`, the files are left to the caller: those of a bucket were checked by its listing.
        """
        manifest = cls.read(folder)
        for changed in atomic_files.changed_files(Location.of(folder).path, manifest.listed if whole else {}):
            raise DataError(f"{cls.KIND} {folder} is damaged: {changed} is not the file that {cls.FILE} describes")
        if expected_digest and manifest.digest != expected_digest:
            raise DataError(f"{cls.KIND} {folder} has digest {manifest.digest}, expected {expected_digest}")
        return manifest

    @classmethod
    def made_once(
        cls, where: str, parts: dict[str, Any], make: Callable[[Location], object], whole: bool = True
    ) -> tuple[Location, Self, bool]:
        """Return where an artifact is, its manifest, and whether it existed; make it if it did not, or was damaged.

        The key of `parts` names its folder in `where`. Unless `whole`, only the manifest is fetched from a bucket,
        whose listing then shows damage.
        """
        location = Location.of(where) / cache_key.key_of(parts)
        with location.removed_if_damaged():
            is_there = location.fetch(cls.FILE, None if whole else MANIFEST_ALONE)
            if is_there or (not location.in_bucket and location.path.exists()):
                manifest = cls.of(location, whole=whole or not location.in_bucket)
                log.info("%s: already complete at %s", cls.KIND, location)
                return location, manifest, True
        location.require_writable()
        make(location)
        return location, cls.fetch(location, whole=whole), False
