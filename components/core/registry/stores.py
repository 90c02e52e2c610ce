"""How versions are listed, added and removed where a registry lies: in a folder of this machine, or in a bucket.

A folder is locked while it changes; a version appears by one rename.

In a bucket a version is claimed, uploaded in a safe order, verified, and committed by its manifest. `claims/NNNNNNNN`
reserves a number: a publication creates it only if it does not exist, with the digest of the version's content. Another
attempt at the same content finds the claim of one that died, or is still at work, and continues it. Both upload the
same bytes, each object only if it does not exist. A claim is never deleted, so no number is used twice.

`saved_model.pb`, by which TensorFlow Serving finds a model, is uploaded after all other files of the model. Then every
object is compared with what was sent. `MANIFEST.json`, which makes it a version, comes last. Removal begins with it.
"""

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from components.core.artifacts import models
from components.core.errors import DataError, TransientError
from components.core.storage import atomic_files, buckets, digests
from components.core.storage.buckets import Conflict, Stored
from components.core.storage.location import Location, LocationLike, at_once, files_below

VERSIONS = "versions"
SCHEMA_VERSION = 1
_CLAIMS = "claims"
_SERVABLE = "saved_model.pb"


def of(registry: LocationLike) -> "Folder | Bucket":
    """Return the store of a registry."""
    location = Location.of(registry)
    return Bucket(location) if location.in_bucket else Folder(location)


def number_of(folder: str) -> int:
    """Return the number of a version by the name of its folder; 0 for another name, such as 01."""
    return int(folder) if folder.isdecimal() and str(int(folder)) == folder else 0


@dataclasses.dataclass(frozen=True)
class Folder:
    """A registry in a folder of this machine."""

    registry: Location

    @property
    def _versions(self) -> Path:
        return self.registry.path / VERSIONS

    def begun(self) -> dict[int, bool]:
        """Return the numbers of the versions with any files, and whether each is committed."""
        committed = {number: True for path in self._versions.glob("*") if (number := number_of(path.name))}
        return dict.fromkeys(self.unfinished().values(), False) | committed

    def unfinished(self) -> dict[str, int]:
        """Return the interrupted or current publications by name, with their numbers, 0 for none."""
        names = sorted(path.name for path in self._versions.glob(".tmp-*"))
        return {name: number_of(name.removeprefix(".tmp-").partition("-")[0]) for name in names}

    def add(self, fill: Callable[[Path], None], model_digest: str, taken: int, removed: Collection[int]) -> int:
        """Add a version with the next number after the highest `taken` one; the caller holds the lock."""
        while True:
            taken += 1
            location = self._versions / str(taken)
            with atomic_files.new_folder(location, models.MANIFEST) as folder:
                fill(folder)
            # On shared volumes without working locks another publication may have taken the number.
            if models.Description.of(location).digest == model_digest:
                return taken

    def remove(self, name: str) -> None:
        """Delete a version, by its number, or an unfinished publication, by its name."""
        folder = self._versions / name
        if name.isdecimal():
            atomic_files.remove_folder(folder)  # gone at once for readers and servers
            atomic_files.sweep(folder.parent)
            return
        with contextlib.suppress(FileNotFoundError):  # the publication has ended
            shutil.rmtree(folder)


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A registry in a bucket."""

    registry: Location

    def begun(self) -> dict[int, bool]:
        """Do as a folder does: a version with a manifest is committed."""
        begun: dict[int, bool] = {}
        for path in files_below(f"{self.registry}/{VERSIONS}"):
            folder, _, name = path.partition("/")
            if name and (number := number_of(folder)):
                begun[number] = begun.get(number, False) or name == models.MANIFEST
        return dict(sorted(begun.items()))

    def unfinished(self) -> dict[str, int]:
        """Do as a folder does: they are claimed or have objects, and are no versions."""
        begun = self.begun()
        return {str(number): number for number in sorted({*begun, *self._claims()}) if not begun.get(number)}

    def add(self, fill: Callable[[Path], None], model_digest: str, taken: int, removed: Collection[int]) -> int:
        """Add a version, or finish another attempt at the same one.

        The caller found `taken`, the highest number of a version, before this lists the claims, so no number is missed.
        """
        with tempfile.TemporaryDirectory() as name:
            prepared = Path(name)
            fill(prepared)
            content = digests.digest_of(atomic_files.files_in(prepared))
            claim = {"schema_version": SCHEMA_VERSION, "content_digest": content, "model_digest": model_digest}
            number = self._claimed(digests.canonical_json(claim), taken, removed)
            _upload(prepared, f"{self.registry}/{VERSIONS}/{number}")
        return number

    def remove(self, name: str) -> None:
        """Delete a version's manifest, then `saved_model.pb`, then the rest: so nobody finds an incomplete one."""
        objects = files_below(f"{self.registry}/{VERSIONS}/{name}")
        for first in (models.MANIFEST, _SERVABLE):
            if first in objects:
                buckets.delete(objects.pop(first))
        at_once(buckets.delete, [(stored,) for stored in objects.values()])

    def _claims(self) -> dict[int, Stored]:
        claims = files_below(f"{self.registry}/{_CLAIMS}")
        return {int(name): stored for name, stored in claims.items() if name.isdecimal()}

    def _claimed(self, claim: bytes, taken: int, removed: Collection[int]) -> int:
        """Return the number that another attempt claimed for a version, or claim one."""
        claims = self._claims()
        for number, stored in sorted(claims.items()):
            if number not in removed and (stored.bytes, stored.crc32c) == (len(claim), buckets.checksum(claim)):
                answer = buckets.read(stored.uri)
                if answer is not None and answer[0] == claim:
                    return number
        # From here on no number is skipped, so that another attempt at this version claims the same one, or finds ours.
        number = max([taken, *claims])
        while True:
            number += 1
            with contextlib.suppress(Conflict):
                buckets.create(f"{self.registry}/{_CLAIMS}/{number:08d}", claim)
                return number


def _upload(prepared: Path, location: str) -> None:
    paths = {path.relative_to(prepared).as_posix(): path for path in sorted(prepared.rglob("*")) if path.is_file()}
    expected = {name: (path.stat().st_size, buckets.checksum_of_file(path)) for name, path in paths.items()}
    uploaded = _compared(location, expected)

    def send(names: Collection[str]) -> None:
        at_once(_create, [(f"{location}/{name}", paths[name]) for name in names if name not in uploaded])

    send(sorted(paths.keys() - {_SERVABLE, models.MANIFEST}))
    send([_SERVABLE])
    lost = sorted(paths.keys() - _compared(location, expected) - {models.MANIFEST})
    if lost:
        raise TransientError(f"{location}/{lost[0]} was uploaded and is missing; try again")
    send([models.MANIFEST])


def _compared(location: str, expected: dict[str, tuple[int, str]]) -> set[str]:
    """Return the names of the objects of a version; raise `DataError` if one has other content."""
    objects = files_below(location)
    for name, stored in objects.items():
        if expected.get(name) != (stored.bytes, stored.crc32c):
            raise _in_the_way(stored.uri)
    return set(objects)


def _create(uri: str, path: Path) -> None:
    try:
        buckets.create(uri, path)
    except Conflict:
        raise _in_the_way(uri) from None


def _in_the_way(uri: str) -> DataError:
    return DataError(
        f"{uri} exists with other content and is not overwritten; remove it "
        "(wgan registry gc --uncommitted), and publish again"
    )
