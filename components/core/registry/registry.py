"""The registry: `versions/N/`, each a model as it was published, and `champion.json`, which names the one to serve.

Versions are counted from 1 and never change; no number is used twice. `versions/` has the layout that TensorFlow
Serving reads. A version's `evaluation/` is the evaluation by which it was promoted. `champion.json` is written before
the first version, when it names none: versions without it have lost it. `champions/REVISION.json` is every content
that it has had, each written after it, so that a lost one is noticed, and an older one in its place.

A version is claimed, written in a safe order, verified, and committed by its manifest. `claims/NNNNNNNN` reserves a
number: a publication creates it only if it does not exist, with the digest of the version's content. Another attempt at
the same content finds the claim of one that died, or is still at work, and continues it. Both write the same bytes,
each file only if it does not exist. A claim is never deleted, so no number is used twice. `saved_model.pb`, by which
TensorFlow Serving finds a model, is written after all other files of the model. Then every file is compared with what
was sent. `MANIFEST.json`, which makes it a version, comes last. Removal begins with it.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Set
from contextlib import suppress
from pathlib import Path

from components.core import concurrent
from components.core.artifacts import evaluations, models, recipes
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, Incompatible, TransientError, naming
from components.core.storage import atomic_files, buckets, digests
from components.core.storage.buckets import Conflict
from components.core.storage.location import MANIFEST_ALONE, Location, LocationLike

CHAMPION = "champion.json"
EVALUATION, _VERSIONS, _CLAIMS, _HISTORY = "evaluation", "versions", "claims", "champions"
_SERVABLE = "saved_model.pb"
_CLAIM_VERSION = 1
_AT_ONCE = 8  # versions that are read at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion(Manifest):
    FILE = CHAMPION
    KIND = "champion"
    VERSION = 2

    version: int  # to serve; 0 before the first one
    model_digest: str
    checkpoint_digest: str
    evaluation_digest: str
    revision: int = 1  # number of writes of this file; grows even when the version goes back
    previous: tuple[int, ...] = ()  # earlier champions, oldest first; a rollback goes to the last
    rolled_back: tuple[int, ...] = ()  # publications never make these champion again
    removed: tuple[int, ...] = ()  # deleted, or abandoned before they were whole

    def __post_init__(self) -> None:
        if 0 in (*self.previous, *self.rolled_back, *self.removed):
            raise ValueError("a version is not a whole number from 1 on")

    @property
    def been(self) -> set[int]:
        """Every version that is or was champion, and 0 before the first one."""
        return {self.version, *self.previous, *self.rolled_back}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """A whole version, and the evaluation by which it was promoted."""

    number: int
    model: models.Manifest
    evaluation: evaluations.Manifest


NOBODY = Champion(
    version=0, model_digest=evaluations.NO_CHAMPION, checkpoint_digest="", evaluation_digest="", revision=0
)


@dataclasses.dataclass(frozen=True)
class Pointer:
    """`champion.json`, as read."""

    champion: Champion
    content: bytes | None = None  # of the file; None if there was none
    is_rebuilt: bool = False  # from the history, and not written yet


def crowned(before: Champion, version: Version) -> Champion:
    """Return the `champion.json` that makes a version champion, after another one or as the first."""
    was_same = before.version in (0, version.number)  # as after a loss of the file
    return Champion(
        version=version.number,
        model_digest=version.model.digest,
        checkpoint_digest=version.model.checkpoint_digest,
        evaluation_digest=version.evaluation.digest,
        revision=before.revision + 1,
        previous=before.previous if was_same else (*before.previous, before.version),
        rolled_back=tuple(number for number in before.rolled_back if number != version.number),
        removed=before.removed,
    )


def require_there(registry: LocationLike) -> None:
    """Raise `DataError` for a registry whose folder is missing."""
    if not Location.of(registry).is_folder:
        raise DataError(f"no registry at {registry}: there is no such folder; give --registry, or run the pipeline")


def version_location(registry: LocationLike, version: int) -> Location:
    return Location.of(registry) / _VERSIONS / str(version)


def begun(registry: LocationLike) -> dict[int, bool]:
    """Return the numbers of the versions with any files, and whether each is committed, by its manifest."""
    numbers: dict[int, bool] = {}
    for path in (Location.of(registry) / _VERSIONS).files():
        version, _, name = path.partition("/")
        if name and (number := _number_of(version)):
            numbers[number] = numbers.get(number, False) or name == models.MANIFEST
    return dict(sorted(numbers.items()))


def versions(registry: LocationLike, champion: Champion = NOBODY) -> list[int]:
    """Return the numbers of the versions, ascending, without those that `champion` lists as removed."""
    return [number for number, is_whole in begun(registry).items() if is_whole and number not in champion.removed]


def read_pointer(registry: LocationLike, rebuild: bool = False) -> Pointer:
    """Read which version is champion, without checking that version.

    A lost, damaged or outdated pointer is a `DataError`. To `rebuild` it, the last in the history is returned; without
    any, one that names none, and none of the versions for publications, because their order is lost.
    """
    location = Location.of(registry)
    problem, content = f"no champion at {location}: {CHAMPION} is missing", None
    # Listed first, as `champion.json` is written first.
    noted = _numbers_in(location / _HISTORY)
    try:
        if (content := location.content(CHAMPION)) is not None:
            champion = Champion.parse(content, location / CHAMPION)
            if not noted or champion.revision >= noted[-1]:
                return Pointer(champion, content)
            problem = f"{location / CHAMPION} is older than {_name_of(noted[-1])} in {_HISTORY}"
    except Incompatible:
        raise
    except DataError as error:
        problem = str(error)
    numbers, last = versions(location), _last(location, noted)
    if not rebuild and (numbers or noted or content is not None):
        number = last.version if last else "N"
        raise DataError(f"{problem}; restore the file, or choose a version to serve: `wgan registry promote {number}`")
    return Pointer(last or dataclasses.replace(NOBODY, rolled_back=tuple(numbers)), content, is_rebuilt=True)


def read_champion(registry: LocationLike) -> Champion:
    """Read which version is champion, 0 if nothing has been published yet, and check its model."""
    champion = read_pointer(registry).champion
    if champion.version:
        models.Manifest.fetch(version_location(registry, champion.version), champion.model_digest)
    return champion


def move_champion(registry: LocationLike, pointer: Pointer, champion: Champion) -> None:
    """Replace `champion.json` as it was read; `Conflict` if another process replaced it."""
    note(registry, pointer.champion)  # its writer may have died
    Location.of(registry).replace(CHAMPION, atomic_files.sealed_json(champion.to_json()), pointer.content)
    note(registry, champion)


def note(registry: LocationLike, champion: Champion) -> None:
    """Add a pointer to the history, unless it is there or names no version."""
    location, content = Location.of(registry), atomic_files.sealed_json(champion.to_json())
    if champion.version and champion.revision not in _numbers_in(location / _HISTORY):
        with suppress(Conflict):  # another process adds it
            location.replace(f"{_HISTORY}/{_name_of(champion.revision)}", content, None)


def add(registry: LocationLike, fill: Callable[[Path], None], model_digest: str, champion: Champion) -> int:
    """Return the version of a model, perhaps with another evaluation; add it by `fill`, or finish an attempt at it."""
    location, done = Location.of(registry), [*versions(registry), *champion.removed]
    if number := find(registry, model_digest, champion):
        return number
    with naming(location.scratch, "/.tmp-"), atomic_files.temporary_folder(location.scratch) as aside:
        prepared = aside / "version"
        fill(prepared)
        atomic_files.write_file(aside / "claim", _claim_of(prepared, model_digest))
        number = _claimed(location, aside / "claim", {0, *done, *champion.been})
        _write(prepared, location, f"{_VERSIONS}/{number}")
    return number


def read_version(registry: LocationLike, number: int, champion: Champion = NOBODY) -> Version:
    """Read a version and check every file of it; if it is the champion, its digests must be the champion's."""
    numbers = versions(registry, champion)
    if number not in numbers:
        raise no_version(registry, number, numbers)
    folder, is_champion = version_location(registry, number), champion.version == number
    model = models.Manifest.fetch(folder, champion.model_digest if is_champion else "")
    evaluation = evaluations.Manifest.of(folder / EVALUATION, champion.evaluation_digest if is_champion else "")
    if evaluation.checkpoint_digest != model.checkpoint_digest:
        raise DataError(
            f"version {number} of {registry} is damaged: its evaluation judges checkpoint "
            f"{evaluation.checkpoint_digest}, but its model comes from {model.checkpoint_digest}"
        )
    return Version(number=number, model=model, evaluation=evaluation)


def no_version(registry: LocationLike, number: int, numbers: Collection[int]) -> DataError:
    """Return the error about a version that a registry lacks."""
    existing = ", ".join(map(str, numbers)) or "none yet"
    return DataError(f"registry {registry} has no version {number}; there are: {existing}")


def read_recipe(registry: LocationLike, number: int) -> recipes.Recipe | None:
    """Read the recipe of a version; None if it has none, `DataError` if it is damaged."""
    version = version_location(registry, number)
    return recipes.Recipe.read(version) if (version / recipes.Recipe.FILE).path.exists() else None


def find(registry: LocationLike, model_digest: str, champion: Champion) -> int | None:
    """Return the last version of this model, by the manifests of the versions alone; None if absent."""

    def is_same(number: int) -> bool:
        version = version_location(registry, number)
        return version.fetch(models.MANIFEST, MANIFEST_ALONE) and models.Manifest.read(version).digest == model_digest

    numbers = versions(registry, champion)
    return max(itertools.compress(numbers, concurrent.in_threads(is_same, numbers, _AT_ONCE)), default=None)


def damage(registry: LocationLike, number: int, champion: Champion) -> list[str]:
    """Return what is wrong with a version: files that are missing, changed or added, or not what was published."""
    version = version_location(registry, number)
    try:
        folder = version.require(models.MANIFEST, "model").path
        if folder.is_symlink():
            return ["it is a symbolic link"]
        listed = models.Manifest.read(version).listed
        judged = evaluations.Manifest.read(version / EVALUATION).files
        listed |= {f"{EVALUATION}/{name}": sha256 for name, sha256 in judged.items()}
        manifests = {models.MANIFEST, recipes.Recipe.FILE, f"{EVALUATION}/{evaluations.MANIFEST}"}
        if lost := [*atomic_files.changed_files(folder, listed), *_added(folder, listed.keys() | manifests)]:
            return lost
        model = read_version(registry, number, champion).model
        read_recipe(registry, number)
    except DataError as error:
        return [str(error).replace(f"{version}/", "")]
    claim = f"{_CLAIMS}/{number:08d}"
    if Location.of(registry).content(claim) == _claim_of(folder, model.digest):
        return []
    return [f"{', '.join(sorted(manifests))} or {claim} is not what was published"]


def damage_of_history(registry: LocationLike) -> list[str]:
    """Return the names of the files of the champion's history that are missing or damaged."""
    location = Location.of(registry)
    noted = _numbers_in(location / _HISTORY)
    expected = range(noted[0], noted[-1] + 1) if noted else ()
    return [_name_of(revision) for revision in expected if not _last(location, [revision])]


def strays(registry: LocationLike) -> list[str]:
    """Return the names of the folders among the versions that are none, such as copies named 0 or 01."""
    return [folder.name for folder in (Location.of(registry) / _VERSIONS).children() if not _number_of(folder.name)]


def uncommitted(registry: LocationLike, champion: Champion) -> list[int]:
    """Return the numbers of unfinished publications, claimed or with files: interrupted ones, or ones at work now."""
    numbers = begun(registry)
    claimed = {*_numbers_in(Location.of(registry) / _CLAIMS), *numbers}
    return sorted(number for number in claimed - {*champion.removed} if not numbers.get(number))


def remove(registry: LocationLike, number: int) -> None:
    """Delete a version, or what there is of it; `champion.json` must list it as removed already."""
    version_location(registry, number).remove(models.MANIFEST, _SERVABLE)


def _numbers_in(folder: Location) -> list[int]:
    """Return the numbers that are names of files, ascending: of claims, or of revisions in the champion's history."""
    names = [name.removesuffix(".json") for name in folder.files()]
    return sorted(int(name) for name in names if name.isdecimal())


def _name_of(revision: int) -> str:
    return f"{revision:08d}.json"


def _last(location: Location, revisions: list[int]) -> Champion | None:
    """Return the last whole pointer among revisions of the history; None without one."""
    for revision in reversed(revisions):
        file = f"{_HISTORY}/{_name_of(revision)}"
        with suppress(DataError):
            if (content := location.content(file)) is not None:
                return Champion.parse(content, location / file)
    return None


def _number_of(folder: str) -> int:
    """Return the number of a version by the name of its folder; 0 for another name, such as 01."""
    return int(folder) if folder.isdecimal() and str(int(folder)) == folder else 0


def _added(folder: Path, expected: Set[str]) -> list[str]:
    """Return unknown files, and links, because the content behind them can change."""
    added = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            added.append(f"{name} (a symbolic link)")
        elif not path.is_dir() and name not in expected:
            added.append(f"{name} (added, or left out of {models.MANIFEST} or {evaluations.MANIFEST})")
    return sorted(added)


def _claim_of(version: Path, model_digest: str) -> bytes:
    """Return the content of the claim for a version, from all its files."""
    content = digests.digest_of(atomic_files.files_in(version))
    claim = {"schema_version": _CLAIM_VERSION, "content_digest": content, "model_digest": model_digest}
    return digests.canonical_json(claim)


def _claimed(location: Location, claim: Path, taken: set[int]) -> int:
    """Return the number that another attempt claimed for a version, but none that was `taken` before, or claim one."""
    claims = {*_numbers_in(location / _CLAIMS)}  # listed after the versions, so that no number is missed
    for number in sorted(claims - taken):
        if location.content(f"{_CLAIMS}/{number:08d}") == claim.read_bytes():
            return number
    # From here on no number is skipped, so that another attempt at this version claims the same one, or finds ours.
    number = max(claims | taken)
    while True:
        number += 1
        with suppress(Conflict):
            location.create({f"{_CLAIMS}/{number:08d}": claim})
            return number


def _write(prepared: Path, location: Location, folder: str) -> None:
    """Write the files of a version in a safe order; `DataError` if one of them has other content."""
    paths = {path.relative_to(prepared).as_posix(): path for path in sorted(prepared.rglob("*")) if path.is_file()}
    expected = {name: buckets.size_and_checksum(path) for name, path in paths.items()}

    def missing() -> set[str]:
        files = (location / folder).files(checksums=True)
        for name, file in files.items():
            if expected.get(name) != (file.bytes, file.crc32c):
                raise Conflict(f"{location}/{folder}/{name}")
        return paths.keys() - files.keys()

    def create(names: Set[str]) -> None:
        location.create({f"{folder}/{name}": paths[name] for name in sorted(names)})

    try:
        files = missing() - {models.MANIFEST}
        create(files - {_SERVABLE})
        create(files & {_SERVABLE})
        if lost := missing() - {models.MANIFEST}:
            raise TransientError(f"{location}/{folder}/{min(lost)} was written and is missing; try again")
        create({models.MANIFEST})
    except Conflict as conflict:
        raise DataError(
            f"{conflict} exists with other content and is not overwritten; remove it "
            "(wgan registry gc --uncommitted), and publish again"
        ) from None
