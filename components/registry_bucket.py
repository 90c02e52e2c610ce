"""Versions of a registry in a bucket: claimed, uploaded in an order that nobody can misread, verified, committed.

`claims/NNNNNNNN` says what a number is for: it is created only if there is none, and names the content of the version
by its digest, so that whoever publishes the same finds the claim of an attempt that died, or that is still at work,
and goes on with it. Both upload the same bytes, each object only if there is none. A claim is never deleted: no number
is given twice.

A version is uploaded with `saved_model.pb`, by which TensorFlow Serving knows a model, after all that a model needs;
then every object is compared with what was sent; then comes `MANIFEST.json`, without which nobody takes it for a
version. It is removed in the opposite order.
"""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from components import buckets, digests, models, storage
from components.buckets import Conflict, Stored
from components.errors import DataError, TransientError

SCHEMA_VERSION = 1
_CLAIMS, _VERSIONS = "claims", "versions"
_SERVABLE = "saved_model.pb"
_AT_ONCE = 8  # objects on their way


def add(registry: str, prepared: Path, taken: int, removed: Collection[int]) -> int:
    """Adds a version, or finishes what another attempt at the same one left.

    Args:
        registry: URI of the registry.
        prepared: A folder with all its files, which nobody writes any more.
        taken: The highest number that a version is known to have. It was found out before this is called.
        removed: Numbers that were given up.

    Returns:
        Its number.

    Raises:
        DataError: An object is there with other content.
        TransientError: It did not arrive, or was removed meanwhile; the same again goes on.
    """
    number = _claimed(registry, _claim(prepared), taken, removed)
    _upload(prepared, f"{registry}/{_VERSIONS}/{number}")
    return number


def committed(registry: str) -> list[int]:
    """Numbers of the versions whose manifest is there."""
    return sorted(number for number, names in _objects(registry).items() if models.MANIFEST in names)


def begun(registry: str) -> list[int]:
    """Numbers of the versions of which any object is there."""
    return sorted(_objects(registry))


def unfinished(registry: str) -> list[int]:
    """Numbers that are claimed, or of which an object is there, and that are no versions."""
    there = _objects(registry)
    done = {number for number, names in there.items() if models.MANIFEST in names}
    return sorted({*there, *_claims(registry)} - done)


def remove(registry: str, number: int) -> None:
    """Deletes the objects of a version: its manifest first, then what TensorFlow Serving knows it by, then the rest.

    So there is no moment at which somebody finds a version, or a server a model, of which something is missing.
    """
    place = f"{registry}/{_VERSIONS}/{number}"
    there = _below(place)
    for name in (models.MANIFEST, _SERVABLE):
        if name in there:
            buckets.delete(there.pop(name))
    _each(buckets.delete, there.values())


def _claim(prepared: Path) -> bytes:
    """What a claim says: the same for every attempt at the same version."""
    return digests.canonical_json(
        {
            "schema_version": SCHEMA_VERSION,
            "content_digest": digests.digest_of(storage.files_in(prepared)),
            "model_digest": models.Description.of(prepared).digest,
        }
    )


def _claimed(registry: str, claim: bytes, taken: int, removed: Collection[int]) -> int:
    """The number that is claimed for a version, by another attempt at it or now."""
    claims = _claims(registry)
    size, crc32c = len(claim), buckets.checksum(claim)
    for number, stored in sorted(claims.items()):
        if number not in removed and (stored.bytes, stored.crc32c) == (size, crc32c):
            found = buckets.read(stored.uri)
            if found is not None and found[0] == claim:
                return number
    # From here on no number is left out: another attempt at this version claims the same one, or meets ours.
    number = max([taken, *claims])
    while True:
        number += 1
        try:
            buckets.create(f"{registry}/{_CLAIMS}/{number:08d}", claim)
        except Conflict:
            continue
        return number


def _upload(prepared: Path, place: str) -> None:
    paths = {path.relative_to(prepared).as_posix(): path for path in sorted(prepared.rglob("*")) if path.is_file()}
    expected = {name: (path.stat().st_size, buckets.checksum_of_file(path)) for name, path in paths.items()}
    there = _compared(place, expected)

    def send(names: Iterable[str]) -> None:
        _each(lambda name: _create(f"{place}/{name}", paths[name]), [name for name in names if name not in there])

    send(name for name in paths if name not in (_SERVABLE, models.MANIFEST))
    send([_SERVABLE])
    lost = sorted(paths.keys() - _compared(place, expected) - {models.MANIFEST})
    if lost:
        raise TransientError(f"{place}/{lost[0]} was sent and is not there; try again")
    send([models.MANIFEST])


def _compared(place: str, expected: dict[str, tuple[int, str]]) -> set[str]:
    """Names of the objects of a version that are there, all as they are to be."""
    there = _below(place)
    for name, stored in there.items():
        if expected.get(name) != (stored.bytes, stored.crc32c):
            raise _in_the_way(stored.uri)
    return set(there)


def _create(uri: str, path: Path) -> None:
    try:
        buckets.create(uri, path)
    except Conflict:
        raise _in_the_way(uri) from None


def _in_the_way(uri: str) -> DataError:
    return DataError(
        f"{uri} is not what is published here, and nothing is overwritten; "
        "remove what is in the way (wgan models gc --uncommitted), and publish again"
    )


def _claims(registry: str) -> dict[int, Stored]:
    return {int(name): stored for name, stored in _below(f"{registry}/{_CLAIMS}").items() if name.isdecimal()}


def _objects(registry: str) -> dict[int, set[str]]:
    """Names of the objects of each version, by its number."""
    found: dict[int, set[str]] = {}
    for path in _below(f"{registry}/{_VERSIONS}"):
        number, _, name = path.partition("/")
        if name and number.isdecimal() and str(int(number)) == number:
            found.setdefault(int(number), set()).add(name)
    return found


def _below(place: str) -> dict[str, Stored]:
    """The objects below a place by their names within it, but for what stands for empty folders."""
    there = (stored for stored in buckets.below(place) if not stored.uri.endswith("/"))
    return {stored.uri.removeprefix(f"{place}/"): stored for stored in there}


def _each(act: Callable[[Any], None], these: Collection[Any]) -> None:
    if len(these) == 1:  # a thread of its own would need a client and credentials of its own
        act(*these)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(act, one) for one in these]:
            done.result()
