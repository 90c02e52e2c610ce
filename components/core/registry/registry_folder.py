"""A registry in a folder of this machine, locked while it changes; a version appears by one rename."""

import contextlib
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from components.core.artifacts import models
from components.core.storage import atomic_files
from components.core.storage.location import Location

CHAMPION = "champion.json"
VERSIONS = "versions"


def committed(registry: Location) -> list[int]:
    """Return the numbers of the versions."""
    return [number for path in _versions(registry).glob("*") if (number := number_of(path.name))]


def begun(registry: Location) -> list[int]:
    """Return the numbers of the versions with any files."""
    return committed(registry) + [_number_aside(path) for path in _aside(registry)]


def unfinished(registry: Location, removed: Collection[int]) -> list[str]:
    """Return the names of the folders of interrupted or current publications."""
    return sorted(path.name for path in _aside(registry) if _number_aside(path) not in removed)


def read_champion(registry: Location) -> tuple[bytes, int] | None:
    """Return the content of `champion.json`, and 1, because only the holder of the lock replaces it."""
    file = registry / CHAMPION
    return (atomic_files.read(file, "champion"), 1) if file.path.exists() else None


def swap_champion(registry: Location, content: bytes, generation: int) -> None:
    """Replace `champion.json`; the caller has held the lock since it was read."""
    atomic_files.write_file(registry.path / CHAMPION, content)


def add(
    registry: Location, fill: Callable[[Path], None], model_digest: str, taken: int, removed: Collection[int]
) -> int:
    """Add a version with the next number; the caller holds the lock."""
    while True:
        taken += 1
        location = _versions(registry) / str(taken)
        with atomic_files.new_folder(location, models.MANIFEST) as folder:
            fill(folder)
        # On shared volumes without working locks another publication may have taken the number.
        if models.Description.of(location).digest == model_digest:
            return taken


def remove(registry: Location, name: str) -> None:
    """Delete a version, by its number, or the folder of an interrupted publication, by its name."""
    folder = _versions(registry) / name
    if name.isdecimal():
        atomic_files.remove_folder(folder)  # gone at once for readers and servers
        atomic_files.sweep(folder.parent)
        return
    with contextlib.suppress(FileNotFoundError):  # the publication has ended
        shutil.rmtree(folder)


def number_of(folder: str) -> int:
    """Return the number of a version by the name of its folder; 0 for another name, such as 01."""
    return int(folder) if folder.isdecimal() and str(int(folder)) == folder else 0


def _versions(registry: Location) -> Path:
    return registry.path / VERSIONS


def _aside(registry: Location) -> list[Path]:
    return list(_versions(registry).glob(".tmp-*"))


def _number_aside(aside: Path) -> int:
    """Return the number of the version that a temporary folder is for; 0 if it is for none."""
    return number_of(aside.name.removeprefix(".tmp-").partition("-")[0])
