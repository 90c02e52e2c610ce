"""The registry: `versions/N/`, each a model as it was published, and `champion.json`, which names the one to serve.

Versions are counted from 1 without gaps and never change. `versions/` is laid out as TensorFlow Serving reads it. A
version's `evaluation/` is the evaluation by which it was promoted, and its card tells what that found.
"""

import dataclasses
from pathlib import Path

from components import evaluations, models, recipes, storage
from components.errors import DataError

CHAMPION = "champion.json"
SCHEMA_VERSION = 1
_VERSIONS, _EVALUATION = "versions", "evaluation"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Champion:
    """What `champion.json` says: a version, and the digests of its model, checkpoint and evaluation."""

    version: int
    model_digest: str
    checkpoint_digest: str
    evaluation_digest: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """A version that is whole: its number, its model, and the evaluation by which it was promoted."""

    number: int
    model: models.Description
    evaluation: evaluations.Description


def require_folder(registry: str | Path) -> None:
    """Refuses a registry that is no folder; one that is not there yet is empty.

    Raises:
        DataError: It is a file.
    """
    if Path(registry).exists() and not Path(registry).is_dir():
        raise DataError(f"registry {registry} is a file, not a folder")


def version_folder(registry: str | Path, version: int) -> Path:
    """Where a version is kept."""
    return Path(registry) / _VERSIONS / str(version)


def evaluation_folder(version: Path) -> Path:
    """Where a version keeps the evaluation by which it was promoted.

    Args:
        version: The version's folder.
    """
    return version / _EVALUATION


def versions(registry: str | Path) -> list[int]:
    """The versions there are, from the first on."""
    return sorted(int(path.name) for path in (Path(registry) / _VERSIONS).glob("[0-9]*") if path.name.isdecimal())


def read_champion(registry: str | Path) -> Champion | None:
    """Reads which version is champion and checks its model; None if nothing has been published yet.

    Raises:
        DataError: The champion or its model is missing, damaged or another than `champion.json` says.
    """
    require_folder(registry)
    path = Path(registry) / CHAMPION
    # Version 1 alone without a champion is a first publication that was interrupted.
    if not path.exists() and versions(registry) in ([], [1]):
        return None
    value = storage.read_json(path, "champion")
    try:
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise DataError(f"{path} is of another schema version; expected {SCHEMA_VERSION}")
        champion = Champion(**value)
        if not isinstance(champion.version, int):
            raise TypeError("version is not a whole number")
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} does not name a champion: {error!r}") from None
    models.describe(version_folder(registry, champion.version), champion.model_digest)
    return champion


def write_champion(registry: str | Path, champion: Champion) -> None:
    """Moves the champion; the caller holds the registry."""
    storage.write_json(Path(registry) / CHAMPION, {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(champion)})


def read_version(registry: str | Path, number: int, champion: Champion | None) -> Version:
    """Reads a version and checks every file of it.

    Args:
        registry: The registry's folder.
        number: The version.
        champion: The registry's champion; if it is this version, its evaluation must be the one that it names.

    Raises:
        DataError: There is no such version, or it is damaged.
    """
    folder = version_folder(registry, number)
    if number not in versions(registry):
        known = ", ".join(map(str, versions(registry))) or "none yet"
        raise DataError(f"registry {registry} has no version {number}; there are: {known}")
    is_champion = champion is not None and champion.version == number
    model = models.describe(folder, champion.model_digest if champion and is_champion else "")
    evaluation = evaluations.describe(
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
    storage.write_json(version / recipes.FILE, value)


def read_recipe(registry: str | Path, version: int) -> PublishedRecipe | None:
    """What a version was made from; None if it does not say so.

    Raises:
        DataError: It is not a recipe.
    """
    path = version_folder(registry, version) / recipes.FILE
    if not path.exists():
        return None
    value = storage.read_json(path, "recipe")
    recipe = recipes.from_json(value, str(path))
    return PublishedRecipe(recipe, str(value.get("checkpoint_uri", "")))


def find(registry: str | Path, model_digest: str) -> int | None:
    """The version that is this model, if it has been published.

    Raises:
        DataError: A version is damaged.
    """
    for version in reversed(versions(registry)):
        if models.describe(version_folder(registry, version)).digest == model_digest:
            return version
    return None
