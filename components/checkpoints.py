"""The checkpoint artefact: `step-NNNNNNNNNN/` with everything that training needs to go on, and `checkpoint.json`.

`state.npz` holds every variable as an array under its name: both networks, the generator's average, every optimiser
slot and counter. `checkpoint.json` is written last and names the sha256 of the state, and that of all else in itself.
Nothing here needs TensorFlow.
"""

import dataclasses
import logging
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from components import array_files, digests, storage
from components.errors import DataError, TrainingDiverged, describe_os_error
from components.manifest import Incompatible, Manifest

log = logging.getLogger(__name__)

MANIFEST = "checkpoint.json"
_STATE = "state.npz"
_STEP_FOLDER = re.compile(r"step-(\d{10})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description(Manifest):
    """What `checkpoint.json` says.

    Attributes:
        step: Generator updates done.
        network: What the networks were built from (`networks.NetworkConfig` as JSON).
        settings: The training settings that decide the result.
        classes: Names of the dataset's classes.
        dataset_digest: Digest of the dataset trained on.
        state_sha256: sha256 of `state.npz`.
        made_with: Code, image, libraries, hardware, and settings that decide no weight: for the record; not part of
            the digest.
        class_counts: Training images of each class, if the generator takes a class; else empty, and not written.
    """

    FILE = MANIFEST
    WHAT = "checkpoint"
    VERSION = 1
    LEFT_OUT_IF_EMPTY = ("class_counts",)

    step: int
    network: dict[str, Any]
    settings: dict[str, Any]
    classes: list[str]
    dataset_digest: str
    state_sha256: str
    made_with: dict[str, Any]
    class_counts: list[int] = dataclasses.field(default_factory=list)

    @property
    def listed(self) -> dict[str, str]:
        """sha256 of the state."""
        return {_STATE: self.state_sha256}


def step_folder(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of one step is kept."""
    return checkpoints / f"step-{step:010d}"


def steps(checkpoints: Path) -> list[int]:
    """The steps of which there is a checkpoint, whole or not, from the first on."""
    return steps_named(path.name for path in checkpoints.glob("step-*"))


def steps_named(folders: Iterable[str]) -> list[int]:
    """The steps that the names of folders stand for, from the first on; other names do not count."""
    return sorted(int(found[1]) for name in folders if (found := _STEP_FOLDER.fullmatch(name)))


def save(checkpoints: Path, description: Description, state: Mapping[str, np.ndarray]) -> Description:
    """Writes one checkpoint, whole or not at all, in place of one of that step that is damaged.

    Args:
        checkpoints: The folder of all checkpoints of one training.
        description: What to say of it; `state_sha256` is filled in.
        state: Every variable by name.

    Returns:
        The description as it was written. Where there is a checkpoint of this step already that one stays, unless it is
        damaged.

    Raises:
        TrainingDiverged: A variable is not finite; nothing was written.
    """
    wrong = not_finite(state)
    if wrong:
        raise TrainingDiverged(
            f"{_listed(wrong)} is not finite at step {description.step}, and no checkpoint is made of that; start "
            "again to go on from the newest one"
        )
    place = step_folder(checkpoints, description.step)
    _remove_damaged(place)
    with storage.new_folder(place, MANIFEST) as folder:
        array_files.write_arrays(folder / _STATE, state)
        description = dataclasses.replace(description, state_sha256=digests.sha256_of_file(folder / _STATE))
        description.write(folder)
    return description


def not_finite(state: Mapping[str, np.ndarray]) -> list[str]:
    """The names of the arrays that hold NaN or infinity."""
    return [
        name
        for name, array in sorted(state.items())
        if np.issubdtype(np.asarray(array).dtype, np.inexact) and not np.isfinite(array).all()
    ]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


def _remove_damaged(place: Path) -> None:
    """Makes room for a checkpoint where one was found damaged; a whole one stays."""
    if not place.exists():
        return
    try:
        Description.of(place)
    except Incompatible:
        raise
    except DataError as error:
        log.error("made again, as %s", error)
        storage.remove_folder(place) if place.is_dir() else place.unlink()


def newest(checkpoints: Path, at_most: int | None = None) -> tuple[Path, Description] | None:
    """The newest checkpoint that is whole, of those up to a step if one is given.

    Damaged ones are reported and passed over.

    Raises:
        DataError: There are such checkpoints and every one of them is damaged: never a silent start from nothing; or
            one that is whole is of another version of this program.
    """
    found_steps = [step for step in steps(checkpoints) if at_most is None or step <= at_most]
    found = next(_whole(checkpoints, reversed(found_steps)), None)
    if found_steps and found is None:
        raise DataError(
            f"none of the {len(found_steps)} checkpoints in {checkpoints} is whole; remove them to start again"
        )
    return found


def all_whole(checkpoints: Path) -> list[tuple[Path, Description]]:
    """Every checkpoint that is whole, by step; damaged ones are reported and passed over."""
    return list(_whole(checkpoints, steps(checkpoints)))


def _whole(checkpoints: Path, some_steps: Iterable[int]) -> Iterator[tuple[Path, Description]]:
    for step in some_steps:
        folder = step_folder(checkpoints, step)
        try:
            yield folder, Description.of(folder)
        except Incompatible:
            raise
        except DataError as error:
            log.error("passed over: %s", error)


def load_state(checkpoint: str | Path, prefix: str = "") -> dict[str, np.ndarray]:
    """The variables of a checkpoint, by name, those only whose name begins with the prefix.

    Raises:
        DataError: The state cannot be read.
    """
    path = Path(checkpoint) / _STATE
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name.startswith(prefix)}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def kept(found: list[int], count: int, good: int | None = None, back: Iterable[int] = ()) -> list[int]:
    """Which checkpoints are still needed.

    Args:
        found: The steps of all, from the first on.
        count: How many of the newest; 0 for all.
        good: If given, the last step up to which checkpoints are known to be good; of later ones only the newest is
            needed, beside the `count`.
        back: Steps to which training may have to go back: for each, the newest checkpoint up to it is needed as well.

    Returns:
        Their steps.
    """
    if count == 0:
        return found
    sure = [step for step in found if good is None or step <= good]
    needed = {*sure[-count:], *found[len(sure) :][-1:]}
    for target in back:
        needed |= {*[step for step in sure if step <= target][-1:]}
    return sorted(needed)


def keep(checkpoints: Path, needed: Callable[[list[int]], list[int]]) -> None:
    """Removes all checkpoints but those that are needed of what there is; what cannot be removed is told and stays."""
    found = steps(checkpoints)
    for step in sorted({*found} - {*needed(found)}):
        try:
            storage.remove_folder(step_folder(checkpoints, step))
        except OSError as error:
            log.warning("an old checkpoint stays: %s", describe_os_error(error))
    storage.sweep(checkpoints, "step-*")


def remove_after(checkpoints: Path, step: int) -> None:
    """Removes every checkpoint later than a step, the last first."""
    for found in reversed(steps(checkpoints)):
        if found > step:
            storage.remove_folder(step_folder(checkpoints, found))


def differences(wanted: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> list[str]:
    """How the variables of a checkpoint differ from those wanted, in names, shapes and types."""
    missing = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    extra = [f"{name} is not known" for name in sorted(found.keys() - wanted.keys())]
    changed = [
        f"{name} is {found[name].dtype}{found[name].shape}, expected {wanted[name].dtype}{wanted[name].shape}"
        for name in sorted(wanted.keys() & found.keys())
        if (wanted[name].shape, wanted[name].dtype) != (found[name].shape, found[name].dtype)
    ]
    return missing + extra + changed
