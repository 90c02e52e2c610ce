"""The registry: `versions/N/`, each a model as it was published, and `champion.json`, which names the one to serve.

Versions are counted from 1 and never change; no number is given twice. `versions/` is laid out as TensorFlow Serving
reads it. A version's `evaluation/` is the evaluation by which it was promoted, and its card tells what that found.

It is a folder of this machine, held by a lock while it changes, or one in a bucket, which nobody holds: there a version
is claimed before it is uploaded (`components.registry_bucket`), and `champion.json` is replaced only as it was read.
"""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from components import buckets, digests, evaluations, models, places, recipes, registry_bucket, storage
from components.errors import DataError

CHAMPION = "champion.json"
SCHEMA_VERSION = 1
_VERSIONS, _EVALUATION = "versions", "evaluation"
_AT_ONCE = 8  # versions that are looked at


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion:
    """What `champion.json` says: a version, and the digests of its model, checkpoint and evaluation.

    Attributes:
        version: The one to serve.
        model_digest, checkpoint_digest, evaluation_digest: Of that version.
        revision: How often the file has been written; it only grows, while the version may go back.
        former: The champions before it, the last one last: where a rollback goes.
        rolled_back: Versions that were champion and were taken back; no publication makes them champion again.
        removed: Versions that are no more, or were given up before they were whole.
    """

    version: int
    model_digest: str
    checkpoint_digest: str
    evaluation_digest: str
    revision: int = 1
    former: tuple[int, ...] = ()
    rolled_back: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    @property
    def been(self) -> set[int]:
        """Every version that is or was champion."""
        return {self.version, *self.former, *self.rolled_back}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """A version that is whole: its number, its model, and the evaluation by which it was promoted."""

    number: int
    model: models.Description
    evaluation: evaluations.Description


@dataclasses.dataclass(frozen=True)
class Pointer:
    """What `champion.json` said when it was read.

    Attributes:
        champion: None if nothing has been published yet.
        generation: Which object of that name it was; 0 if there was none, and in folders of this machine.
    """

    champion: Champion | None
    generation: int = 0


def crowned(before: Champion | None, version: Version) -> Champion:
    """The champion that follows another one.

    Args:
        before: The one until now; None for the first.
        version: Who is to be champion.
    """
    first = Champion(
        version=version.number,
        model_digest=version.model.digest,
        checkpoint_digest=version.model.checkpoint_digest,
        evaluation_digest=version.evaluation.digest,
    )
    if before is None:
        return first
    return dataclasses.replace(
        first,
        revision=before.revision + 1,
        former=(*before.former, before.version),
        rolled_back=tuple(number for number in before.rolled_back if number != version.number),
        removed=before.removed,
    )


def require_folder(registry: str | Path) -> None:
    """Refuses a registry that is no folder; one that is not there yet is empty.

    Raises:
        DataError: It is a file.
        ConfigError: It is neither a folder of this machine nor in a bucket.
    """
    place = places.local(registry)
    if not places.in_bucket(place) and place.exists() and not place.is_dir():
        raise DataError(f"registry {registry} is a file, not a folder")


def require_there(registry: str | Path) -> None:
    """Refuses a registry whose folder is missing. In a bucket there are no folders that could be.

    Raises:
        DataError: There is no such folder.
    """
    require_folder(registry)
    place = places.local(registry)
    if not places.in_bucket(place) and not place.exists():
        raise DataError(f"no registry at {registry}: there is no such folder; give --registry, or run the pipeline")


@contextlib.contextmanager
def held(registry: str | Path) -> Iterator[None]:
    """Holds a folder of this machine against other processes that change it; a bucket needs no holding."""
    place = places.local(registry)
    with contextlib.nullcontext() if places.in_bucket(place) else storage.only_one(place):
        yield


def version_folder(registry: str | Path, version: int) -> Path:
    """Where a version is kept, or the mirror of it on this machine; nothing is fetched."""
    return places.local(registry) / _VERSIONS / str(version)


def evaluation_folder(version: Path) -> Path:
    """Where a version keeps the evaluation by which it was promoted.

    Args:
        version: The version's folder.
    """
    return version / _EVALUATION


def versions(registry: str | Path, champion: Champion | None = None) -> list[int]:
    """The versions there are, from the first on.

    Args:
        registry: The registry's folder.
        champion: If it is given, those that it says were removed do not count.
    """
    place = places.local(registry)
    if places.in_bucket(place):
        found = registry_bucket.committed(places.given(place))
    else:
        found = [int(path.name) for path in (place / _VERSIONS).glob("[0-9]*") if path.name.isdecimal()]
    return sorted(set(found).difference(champion.removed if champion else ()))


def read_pointer(registry: str | Path) -> Pointer:
    """Reads which version is champion, and does not look at that version.

    Raises:
        DataError: `champion.json` is missing or damaged.
    """
    require_folder(registry)
    place = places.local(registry)
    path = place / CHAMPION
    if places.in_bucket(place):
        found = buckets.read(places.given(path))
        if found is not None:
            value = storage.unsealed(found[0], places.given(path), "champion")
            return Pointer(_champion_of(value, path), found[1].generation)
    elif path.exists():
        return Pointer(_champion_of(storage.read_sealed_json(path, "champion"), path))
    # First publications that were interrupted leave versions without a champion.
    numbers = versions(registry)
    if numbers not in ([], [1]) and not all(_is_first(place, number) for number in numbers):
        raise DataError(f"no champion at {places.given(place)}: {CHAMPION} is missing")
    return Pointer(None)


def read_champion(registry: str | Path) -> Champion | None:
    """Reads which version is champion and checks its model; None if nothing has been published yet.

    Raises:
        DataError: The champion or its model is missing, damaged or another than `champion.json` says.
    """
    champion = read_pointer(registry).champion
    if champion is not None:
        models.Description.of(_fetched(registry, champion.version), champion.model_digest)
    return champion


def write_champion(registry: str | Path, champion: Champion) -> None:
    """Moves the champion of a folder of this machine; the caller holds it."""
    value = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(champion)}
    storage.write_sealed_json(Path(registry) / CHAMPION, value)


def move_champion(registry: str | Path, pointer: Pointer, champion: Champion) -> None:
    """Replaces `champion.json` as it was read; a caller in a folder of this machine holds it since then.

    Raises:
        buckets.Conflict: It is another one by now.
    """
    place = places.local(registry)
    if not places.in_bucket(place):
        write_champion(place, champion)
        return
    value = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(champion)}
    buckets.replace(places.given(place / CHAMPION), storage.sealed_json(value), pointer.generation)


def add(registry: str | Path, fill: Callable[[Path], None], model_digest: str, champion: Champion | None) -> int:
    """Adds a version, or finishes what an earlier attempt at the same one left.

    Args:
        registry: The registry's folder, held by the caller.
        fill: Puts all files of the version into a folder, its manifest among them.
        model_digest: The digest of its model.
        champion: The registry's champion.

    Returns:
        Its number.

    Raises:
        DataError: Something else is where it should be.
        TransientError: It did not arrive; the same again goes on.
    """
    place = places.local(registry)
    there = versions(registry)
    taken = max([0, *there, *((champion.been | set(champion.removed)) if champion else ())])
    if places.in_bucket(place):
        with tempfile.TemporaryDirectory() as prepared:
            fill(Path(prepared))
            removed = champion.removed if champion else ()
            return registry_bucket.add(places.given(place), Path(prepared), taken, removed)
    while True:
        taken += 1
        with storage.new_folder(version_folder(place, taken), models.MANIFEST) as folder:
            fill(folder)
        # Where the lock holds nobody off, on some shared volumes, the name is another's: a folder is renamed once.
        if models.Description.of(version_folder(place, taken)).digest == model_digest:
            return taken


def read_version(registry: str | Path, number: int, champion: Champion | None) -> Version:
    """Reads a version and checks every file of it.

    Args:
        registry: The registry's folder.
        number: The version.
        champion: The registry's champion; if it is this version, its evaluation must be the one that it names.

    Raises:
        DataError: There is no such version, or it is damaged.
    """
    there = versions(registry, champion)
    if number not in there:
        known = ", ".join(map(str, there)) or "none yet"
        raise DataError(f"registry {registry} has no version {number}; there are: {known}")
    folder = _fetched(registry, number)
    is_champion = champion is not None and champion.version == number
    model = models.Description.of(folder, champion.model_digest if champion and is_champion else "")
    evaluation = evaluations.Description.of(
        evaluation_folder(folder), champion.evaluation_digest if champion and is_champion else ""
    )
    if evaluation.checkpoint_digest != model.checkpoint_digest:
        raise DataError(
            f"version {number} of {registry} is damaged: its evaluation judges checkpoint "
            f"{evaluation.checkpoint_digest}, but its model comes from {model.checkpoint_digest}"
        )
    return Version(number=number, model=model, evaluation=evaluation)


@dataclasses.dataclass(frozen=True)
class PublishedRecipe:
    """What a version was made from, and where the checkpoint lay that its model comes from; empty if it is unknown."""

    recipe: recipes.Recipe
    checkpoint_uri: str


def write_recipe(version: Path, published: PublishedRecipe) -> None:
    """Writes what a version was made from.

    Args:
        version: The version's folder.
        published: The recipe.
    """
    value = {**published.recipe.to_json(), "checkpoint_uri": published.checkpoint_uri}
    storage.write_sealed_json(version / recipes.FILE, value)


def read_recipe(registry: str | Path, version: int) -> PublishedRecipe | None:
    """What a version was made from; None if it does not say so. The version has been read before.

    Raises:
        DataError: It is not a recipe, or is damaged.
    """
    path = version_folder(registry, version) / recipes.FILE
    if not path.exists():
        return None
    value = storage.read_sealed_json(path, "recipe")
    recipe = recipes.from_json(value, str(path))
    return PublishedRecipe(recipe, str(value.get("checkpoint_uri", "")))


def find(registry: str | Path, model_digest: str, champion: Champion | None) -> int | None:
    """The last version that is this model, by what the versions say of themselves, if it has been published.

    Raises:
        DataError: What a version says of itself is damaged.
    """
    numbers = versions(registry, champion)
    if not numbers:
        return None
    with ThreadPoolExecutor(min(_AT_ONCE, len(numbers))) as pool:
        found = pool.map(lambda number: _said_digest(version_folder(registry, number)), numbers)
        same = [number for number, digest in zip(numbers, found, strict=True) if digest == model_digest]
    return max(same, default=None)


def damage(registry: str | Path, number: int, champion: Champion | None) -> list[str]:
    """What is wrong with a version: each file that is missing, another or added; else what does not belong together.

    Args:
        registry: The registry's folder.
        number: A version of it.
        champion: Its champion.

    Returns:
        Nothing if the version is whole.
    """
    place = places.local(registry)
    try:
        folder = _fetched(registry, number)
        if folder.is_symlink():
            return ["it is a symbolic link"]
        listed = models.Description.read(folder).listed
        judged = evaluations.Description.read(evaluation_folder(folder)).files
        listed |= {f"{_EVALUATION}/{name}": sha256 for name, sha256 in judged.items()}
        own = {models.MANIFEST, recipes.FILE, f"{_EVALUATION}/{evaluations.MANIFEST}"}
        lost = [*_changed(folder, listed), *_added(folder, listed.keys() | own)]
        if lost:
            return lost
        read_version(registry, number, champion)
        read_recipe(registry, number)
    except DataError as error:
        return [places.told(str(error)).replace(f"{places.given(version_folder(place, number))}/", "")]
    return []


def uncommitted(registry: str | Path, champion: Champion | None) -> list[str]:
    """What publications left that were interrupted, or are at work now: numbers of versions, or names of folders."""
    place = places.local(registry)
    given_up = set(champion.removed if champion else ())
    if not places.in_bucket(place):
        return sorted(path.name for path in (place / _VERSIONS).glob(".tmp-*") if _number_aside(path) not in given_up)
    return [str(number) for number in sorted(set(registry_bucket.unfinished(places.given(place))) - given_up)]


def left_over(registry: str | Path, champion: Champion | None) -> list[int]:
    """Versions that were removed, and of which something is there all the same."""
    place = places.local(registry)
    if places.in_bucket(place):
        there = registry_bucket.begun(places.given(place))
    else:
        there = versions(registry) + [_number_aside(path) for path in (place / _VERSIONS).glob(".tmp-*")]
    return sorted(set(there).intersection(champion.removed if champion else ()))


def remove(registry: str | Path, name: str) -> None:
    """Deletes what is there of a version, or what an interrupted publication left; `champion.json` says so already.

    Args:
        registry: The registry's folder, held by the caller.
        name: Its number, or the name of a folder that `uncommitted` told.
    """
    place = places.local(registry)
    if places.in_bucket(place):
        registry_bucket.remove(places.given(place), int(name))
        return
    folder = place / _VERSIONS / name
    if name.isdecimal():
        storage.remove_folder(folder)  # gone at once, whoever reads or serves it
        storage.sweep(folder.parent, name)
        return
    with contextlib.suppress(FileNotFoundError):  # a publication that has ended meanwhile
        shutil.rmtree(folder)


def _number_aside(aside: Path) -> int:
    """The version that something in the registry's folder is aside for; 0 if it is for none."""
    number = aside.name.removeprefix(".tmp-").partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _fetched(registry: str | Path, number: int) -> Path:
    return places.fetched(version_folder(registry, number), models.MANIFEST, "model")


def _changed(folder: Path, listed: dict[str, str]) -> list[str]:
    """Names of the files that are missing or have another sha256 than is listed."""
    paths = {name: folder / name for name in listed}
    return [name for name, path in paths.items() if not path.is_file() or digests.sha256_of_file(path) != listed[name]]


def _added(folder: Path, known: Set[str]) -> list[str]:
    """Files that are not known, and links, which others can change the content of."""
    found = []
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found.append(f"{name} (a symbolic link)")
            elif not path.is_dir() and name not in known:
                found.append(f"{name} (added)")
    return sorted(found)


def _said_digest(version: Path) -> str:
    """The digest of a version's model by its manifest alone."""
    if not places.holds(version, models.MANIFEST, whole=False):
        return ""
    return models.Description.read(version).digest


def _is_first(place: Path, number: int) -> bool:
    """Whether a version was published when there was no champion."""
    folder = evaluation_folder(version_folder(place, number))
    if not places.holds(folder, evaluations.MANIFEST, whole=False):
        return False
    return evaluations.Description.read(folder).champion_digest == evaluations.NO_CHAMPION


def _champion_of(value: Any, path: Path) -> Champion:
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise DataError(f"{places.given(path)} is of another schema version; expected {SCHEMA_VERSION}")
        if "revision" not in value:  # from before there were rollbacks: every version was champion in turn
            value |= {"revision": value["version"], "former": list(range(1, value["version"]))}
        for name in ("former", "rolled_back", "removed"):
            value[name] = tuple(value.get(name, ()))
        champion = Champion(**value)
        numbers = (champion.version, champion.revision, *champion.former, *champion.rolled_back, *champion.removed)
        if not all(isinstance(number, int) and number > 0 for number in numbers):
            raise TypeError("a version is not a whole number from 1 on")
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{places.given(path)} does not name a champion: {error!r}") from None
    return champion
