"""A registry in a bucket: a version is claimed, uploaded in a safe order, verified, and committed by its manifest.

`claims/NNNNNNNN` reserves a number: a publication creates it only if it does not exist, with the digest of the
version's content. Another attempt at the same content finds the claim of one that died, or is still at work, and
continues it. Both upload the same bytes, each object only if it does not exist. A claim is never deleted, so no number
is used twice.

`saved_model.pb`, by which TensorFlow Serving finds a model, is uploaded after all other files of the model. Then every
object is compared with what was sent. `MANIFEST.json`, which makes it a version, comes last. Removal begins with it.
"""

import contextlib
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from components.core.artifacts import models
from components.core.errors import DataError, TransientError
from components.core.registry.registry_folder import CHAMPION, VERSIONS, number_of
from components.core.storage import atomic_files, buckets, digests
from components.core.storage.buckets import Conflict, Stored
from components.core.storage.location import Location, at_once, files_below

SCHEMA_VERSION = 1
_CLAIMS = "claims"
_SERVABLE = "saved_model.pb"


def committed(registry: str | Location) -> list[int]:
    """Return the numbers of the versions: those with a manifest."""
    return sorted(number for number, names in _objects(registry).items() if models.MANIFEST in names)


def begun(registry: str | Location) -> list[int]:
    """Return the numbers of the versions with any objects."""
    return sorted(_objects(registry))


def unfinished(registry: str | Location, removed: Collection[int]) -> list[str]:
    """Return the numbers that are claimed or have objects, and are no versions."""
    names_by_version = _objects(registry)
    done = {number for number, names in names_by_version.items() if models.MANIFEST in names}
    return [str(number) for number in sorted({*names_by_version, *_claims(registry)} - done - {*removed})]


def read_champion(registry: str | Location) -> tuple[bytes, int] | None:
    """Return the content of `champion.json` and its generation; None if it does not exist."""
    answer = buckets.read(f"{registry}/{CHAMPION}")
    return (answer[0], answer[1].generation) if answer else None


def swap_champion(registry: str | Location, content: bytes, generation: int) -> None:
    """Replace `champion.json` as it was read; raise `Conflict` if another process replaced it."""
    buckets.replace(f"{registry}/{CHAMPION}", content, generation)


def add(
    registry: str | Location, fill: Callable[[Path], None], model_digest: str, taken: int, removed: Collection[int]
) -> int:
    """Add a version, or finish another attempt at the same one.

    The caller found `taken`, the highest number of a version, before this lists the claims, so no number is missed.
    """
    with tempfile.TemporaryDirectory() as prepared:
        fill(Path(prepared))
        number = _claimed(str(registry), _claim(Path(prepared)), taken, removed)
        _upload(Path(prepared), f"{registry}/{VERSIONS}/{number}")
    return number


def remove(registry: str | Location, name: str) -> None:
    """Delete a version's manifest, then `saved_model.pb`, then the rest: so nobody finds an incomplete one."""
    location = f"{registry}/{VERSIONS}/{name}"
    objects = files_below(location)
    for first in (models.MANIFEST, _SERVABLE):
        if first in objects:
            buckets.delete(objects.pop(first))
    at_once(buckets.delete, [(stored,) for stored in objects.values()])


def _claim(prepared: Path) -> bytes:
    """Return the content of a claim: the same for every attempt at the same version."""
    content = digests.digest_of(atomic_files.files_in(prepared))
    model = models.Description.of(prepared).digest
    claim = {"schema_version": SCHEMA_VERSION, "content_digest": content, "model_digest": model}
    return digests.canonical_json(claim)


def _claimed(registry: str, claim: bytes, taken: int, removed: Collection[int]) -> int:
    """Return the number that another attempt claimed for a version, or claim one."""
    claims = _claims(registry)
    size, crc32c = len(claim), buckets.checksum(claim)
    for number, stored in sorted(claims.items()):
        if number not in removed and (stored.bytes, stored.crc32c) == (size, crc32c):
            answer = buckets.read(stored.uri)
            if answer is not None and answer[0] == claim:
                return number
    # From here on no number is skipped, so that another attempt at this version claims the same one, or finds ours.
    number = max([taken, *claims])
    while True:
        number += 1
        with contextlib.suppress(Conflict):
            buckets.create(f"{registry}/{_CLAIMS}/{number:08d}", claim)
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


def _claims(registry: str | Location) -> dict[int, Stored]:
    return {int(name): stored for name, stored in files_below(f"{registry}/{_CLAIMS}").items() if name.isdecimal()}


def _objects(registry: str | Location) -> dict[int, set[str]]:
    """Return the names of the objects of each version, by its number."""
    names_by_version: dict[int, set[str]] = {}
    for path in files_below(f"{registry}/{VERSIONS}"):
        folder, _, name = path.partition("/")
        if name and (number := number_of(folder)):
            names_by_version.setdefault(number, set()).add(name)
    return names_by_version
