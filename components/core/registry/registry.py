"""The registry: `versions/N/`, each a model as it was published, and `champion.json`, which names the one to serve.

Versions are counted from 1 and never change; no number is used twice. `versions/` has the layout that TensorFlow
Serving reads. A version's `evaluation/` is the evaluation by which it was promoted.

`champion.json` is written before the first version, when it names none: versions without it have lost it.

`stores` is what differs between folders and buckets.
"""

import dataclasses
from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from components.core.artifacts import evaluations, models, recipes
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, Incompatible
from components.core.registry import stores
from components.core.storage import atomic_files, buckets
from components.core.storage.location import DESCRIPTION_ALONE, Location, LocationLike

CHAMPION = "champion.json"
_EVALUATION = "evaluation"
_AT_ONCE = 8  # versions that are read at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion(Manifest):
    """The content of `champion.json`."""

    FILE = CHAMPION
    WHAT = "champion"
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
    model: models.Description
    evaluation: evaluations.Description


NOBODY = Champion(
    version=0, model_digest=evaluations.NO_CHAMPION, checkpoint_digest="", evaluation_digest="", revision=0
)


@dataclasses.dataclass(frozen=True)
class Pointer:
    """`champion.json`, as read."""

    champion: Champion
    generation: int = 0  # of the object in a bucket, 1 in folders of this machine; 0 if there was none


def crowned(before: Champion, version: Version) -> Champion:
    """Return the `champion.json` that makes a version champion, after another one or as the first."""
    return Champion(
        version=version.number,
        model_digest=version.model.digest,
        checkpoint_digest=version.model.checkpoint_digest,
        evaluation_digest=version.evaluation.digest,
        revision=before.revision + 1,
        previous=tuple(number for number in (*before.previous, before.version) if number),
        rolled_back=tuple(number for number in before.rolled_back if number != version.number),
        removed=before.removed,
    )


def require_there(registry: LocationLike) -> None:
    """Raise `DataError` for a registry whose folder is missing; in a bucket there are no folders."""
    location = Location.of(registry)
    if not location.in_bucket and not location.path.exists():
        raise DataError(f"no registry at {registry}: there is no such folder; give --registry, or run the pipeline")
    _require_folder(location)


def _require_folder(location: Location) -> None:
    if not location.in_bucket and location.path.exists() and not location.path.is_dir():
        raise DataError(f"registry {location} is a file, not a folder")


def held(registry: LocationLike) -> AbstractContextManager[None]:
    """Lock a local folder against other processes; in a bucket, champions are replaced only as read."""
    location = Location.of(registry)
    return nullcontext() if location.in_bucket else atomic_files.only_one(location.path)


def version_location(registry: LocationLike, version: int) -> Location:
    """Return the location of a version; fetch nothing."""
    return Location.of(registry) / stores.VERSIONS / str(version)


def version_folder(registry: LocationLike, version: int) -> Path:
    """Return the folder of a version on this machine; fetch nothing."""
    return version_location(registry, version).path


def evaluation_folder(version: Path) -> Path:
    """Return the folder of a version's evaluation, by the version's folder."""
    return version / _EVALUATION


def versions(registry: LocationLike, champion: Champion | None = None) -> list[int]:
    """Return the numbers of the versions, ascending, without those that `champion`, if given, lists as removed."""
    committed = {number for number, is_committed in stores.of(registry).begun().items() if is_committed}
    return sorted(committed.difference(_removed(champion)))


def read_pointer(registry: LocationLike, rebuild: bool = False) -> Pointer:
    """Read which version is champion, without checking that version.

    A lost or damaged pointer is a `DataError`. To `rebuild` it, one is returned that names none, and none of the
    versions for publications, because their order is lost with it.
    """
    location = Location.of(registry)
    _require_folder(location)
    problem, generation = f"no champion at {location}: {CHAMPION} is missing", 0
    try:
        content, generation = (location / CHAMPION).read_file()
        return Pointer(Champion.parse(content, location / CHAMPION), generation)
    except FileNotFoundError:
        pass
    except Incompatible:
        raise
    except DataError as error:
        problem = str(error)
    numbers = versions(location)
    if not rebuild and (numbers or generation):
        raise DataError(f"{problem}; restore the file, or choose the version to serve: `wgan registry promote N`")
    return Pointer(dataclasses.replace(NOBODY, rolled_back=tuple(numbers)), generation)


def read_champion(registry: LocationLike) -> Champion | None:
    """Read which version is champion and check its model; None if nothing has been published yet."""
    champion = read_pointer(registry).champion
    if not champion.version:
        return None
    models.Description.of(_fetched(registry, champion.version), champion.model_digest)
    return champion


def move_champion(registry: LocationLike, pointer: Pointer, champion: Champion) -> None:
    """Replace `champion.json` as it was read under the lock; `buckets.Conflict` if another process replaced it."""
    file, content = Location.of(registry) / CHAMPION, atomic_files.sealed_json(champion.to_json())
    if file.in_bucket:
        buckets.replace(file.uri, content, pointer.generation)
    else:
        atomic_files.write_file(file.path, content)


def add(registry: LocationLike, fill: Callable[[Path], None], model_digest: str, champion: Champion | None) -> int:
    """Add a version under the lock, or finish an attempt at it; `fill` writes all its files. Return its number."""
    removed = _removed(champion)
    taken = max([0, *versions(registry), *(champion.been if champion else ()), *removed])
    return stores.of(registry).add(fill, model_digest, taken, removed)


def read_version(registry: LocationLike, number: int, champion: Champion | None) -> Version:
    """Read a version and check every file of it; if it is the champion, its digests must be the champion's."""
    numbers = versions(registry, champion)
    if number not in numbers:
        existing = ", ".join(map(str, numbers)) or "none yet"
        raise DataError(f"registry {registry} has no version {number}; there are: {existing}")
    folder = _fetched(registry, number)
    expected = champion if champion and champion.version == number else None
    model = models.Description.of(folder, expected.model_digest if expected else "")
    evaluation = evaluations.Description.of(folder / _EVALUATION, expected.evaluation_digest if expected else "")
    if evaluation.checkpoint_digest != model.checkpoint_digest:
        raise DataError(
            f"version {number} of {registry} is damaged: its evaluation judges checkpoint "
            f"{evaluation.checkpoint_digest}, but its model comes from {model.checkpoint_digest}"
        )
    return Version(number=number, model=model, evaluation=evaluation)


def read_digests(registry: LocationLike, number: int) -> tuple[str, str]:
    """Read the digests of the model and of the evaluation of a fetched version, without checking its files."""
    version = version_location(registry, number)
    return models.Description.read(version).digest, evaluations.Description.read(version / _EVALUATION).digest


def read_recipe(registry: LocationLike, number: int) -> recipes.Recipe | None:
    """Read the recipe of a version; None if it has none, `DataError` if it is damaged."""
    version = version_location(registry, number)
    return recipes.Recipe.read(version) if (version / recipes.Recipe.FILE).path.exists() else None


def find(registry: LocationLike, model_digest: str, champion: Champion | None) -> int | None:
    """Return the last version of this model, by the manifests of the versions alone; None if absent."""
    numbers = versions(registry, champion)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        digests = pool.map(lambda number: _recorded_digest(version_location(registry, number)), numbers)
        same = (number for number, digest in zip(numbers, digests, strict=True) if digest == model_digest)
        return max(same, default=None)


def damage(registry: LocationLike, number: int, champion: Champion | None) -> list[str]:
    """Return what is wrong with a version: files that are missing, changed or added, or contradict each other."""
    version = version_location(registry, number)
    try:
        folder = _fetched(registry, number).path
        if folder.is_symlink():
            return ["it is a symbolic link"]
        listed = models.Description.read(version).listed
        judged = evaluations.Description.read(version / _EVALUATION).files
        listed |= {f"{_EVALUATION}/{name}": sha256 for name, sha256 in judged.items()}
        descriptions = {models.MANIFEST, recipes.Recipe.FILE, f"{_EVALUATION}/{evaluations.MANIFEST}"}
        lost = [*atomic_files.changed_files(folder, listed), *_added(folder, listed.keys() | descriptions)]
        if lost:
            return lost
        read_version(registry, number, champion)
        read_recipe(registry, number)
    except DataError as error:
        return [str(error).replace(f"{version}/", "")]
    return []


def strays(registry: LocationLike) -> list[str]:
    """Return the names of the folders among the versions that are none, such as copies named 0 or 01."""
    folders = (Location.of(registry) / stores.VERSIONS).children()
    return [folder.name for folder in folders if not stores.number_of(folder.name)]


def uncommitted(registry: LocationLike, champion: Champion | None) -> list[str]:
    """Return the names of unfinished publications: interrupted ones, or ones at work now."""
    removed = _removed(champion)
    return [name for name, number in stores.of(registry).unfinished().items() if number not in removed]


def left_over(registry: LocationLike, champion: Champion | None) -> list[int]:
    """Return the removed versions with leftover files."""
    return sorted(set(stores.of(registry).begun()).intersection(_removed(champion)))


def remove(registry: LocationLike, name: str) -> None:
    """Delete a version by number, or an item of `uncommitted`; `champion.json` must list it as removed already."""
    stores.of(registry).remove(name)


def _removed(champion: Champion | None) -> tuple[int, ...]:
    return champion.removed if champion else ()


def _fetched(registry: LocationLike, number: int) -> Location:
    return version_location(registry, number).require(models.MANIFEST, "model")


def _added(folder: Path, expected: Set[str]) -> list[str]:
    """Return unknown files, and links, because the content behind them can change."""
    added = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            added.append(f"{name} (a symbolic link)")
        elif not path.is_dir() and name not in expected:
            added.append(f"{name} (added)")
    return sorted(added)


def _recorded_digest(version: Location) -> str:
    """Return the digest of a version's model from its manifest alone; empty if the manifest is gone."""
    return models.Description.read(version).digest if version.fetch(models.MANIFEST, DESCRIPTION_ALONE) else ""
