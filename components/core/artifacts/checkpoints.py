"""Checkpoint artifact: `step-NNNNNNNNNN/` with everything that training needs to resume; without TensorFlow.

`state.npz` holds every variable as an array under its name: both networks, the generator's average, every optimizer
slot and counter. `checkpoint.json`, written last, has its sha256. The training's logs up to that step are beside it.
"""

import dataclasses
import logging
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from components.core.artifacts import training_log
from components.core.artifacts.checkpoint_manifest import MANIFEST as MANIFEST
from components.core.artifacts.checkpoint_manifest import STATE
from components.core.artifacts.checkpoint_manifest import Manifest as Manifest
from components.core.errors import DataError, TrainingDiverged, describe_os_error
from components.core.storage import array_files, atomic_files, digests
from components.core.storage.location import Location

log = logging.getLogger(__name__)

Folder = TypeVar("Folder", Path, Location)
_STEP_FOLDER = re.compile(r"step-(\d{10})")


def step_folder(checkpoints: Folder, step: int) -> Folder:
    return checkpoints / f"step-{step:010d}"


def steps(checkpoints: Path) -> list[int]:
    """Return the steps of all checkpoints on this machine, whole or not, ascending."""
    return steps_named(path.name for path in checkpoints.glob("step-*"))


def steps_named(folders: Iterable[str]) -> list[int]:
    """Return the steps of the folders that are named like checkpoints, ascending."""
    return sorted(int(match[1]) for name in folders if (match := _STEP_FOLDER.fullmatch(name)))


def save(checkpoints: Path, manifest: Manifest, state: Mapping[str, np.ndarray]) -> Manifest:
    """Write a checkpoint, whole or not at all, and return its manifest with `state_sha256` filled in.

    One of the same step stays, unless it is damaged. `TrainingDiverged` if a variable is not finite.
    """
    if wrong := not_finite(state):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise TrainingDiverged(
            f"{wrong[0]}{more} is not finite at step {manifest.step}, and was not saved; start again to "
            "resume from the newest checkpoint"
        )
    path = step_folder(checkpoints, manifest.step)
    with Location.of(path).removed_if_damaged():
        if path.exists():
            Manifest.of(path)
    with atomic_files.new_folder(path, MANIFEST) as folder:
        array_files.write_arrays(folder / STATE, state)
        training_log.copy_to(folder, checkpoints)
        manifest = dataclasses.replace(manifest, state_sha256=digests.sha256_of_file(folder / STATE))
        manifest.write(folder)
    return manifest


def not_finite(state: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names of the arrays with NaN or infinity."""
    return [
        name
        for name, array in sorted(state.items())
        if np.issubdtype(np.asarray(array).dtype, np.inexact) and not np.isfinite(array).all()
    ]


def newest(checkpoints: Path, at_most: float = math.inf) -> tuple[Path, Manifest] | None:
    """Return the newest whole checkpoint up to a step; skip damaged ones."""
    for step in reversed([step for step in steps(checkpoints) if step <= at_most]):
        folder = step_folder(checkpoints, step)
        try:
            return folder, Manifest.of(folder)
        except DataError as error:
            log.warning("passed over: %s", error)
    return None


def load_state(checkpoint: Path, prefix: str | tuple[str, ...] = "") -> dict[str, np.ndarray]:
    """Return the variables whose names begin with a prefix; a `DataError` if they cannot be read."""
    path = checkpoint / STATE
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name.startswith(prefix)}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def kept(all_steps: list[int], count: int, good: int | None = None, back: Iterable[int] = ()) -> list[int]:
    """Return those of ascending steps whose checkpoints are still needed: the newest `count`, 0 for all.

    `good` is the last step before training was in doubt, if it is: of later checkpoints only the newest is kept beside
    them. Training may roll back to the steps `back`: each needs the newest checkpoint up to it.
    """
    if count == 0:
        return all_steps
    trusted = [step for step in all_steps if good is None or step <= good]
    needed = {*trusted[-count:], *all_steps[len(trusted) :][-1:]}
    for target in back:
        needed |= {*[step for step in trusted if step <= target][-1:]}
    return sorted(needed)


def keep(checkpoints: Path, needed: Callable[[list[int]], list[int]]) -> None:
    """Remove the checkpoints that are not needed, and leftovers of crashes; log what cannot be removed."""
    all_steps = steps(checkpoints)
    for step in sorted({*all_steps} - {*needed(all_steps)}):
        try:
            atomic_files.remove_folder(step_folder(checkpoints, step))
        except OSError as error:
            log.warning("an old checkpoint could not be removed: %s", describe_os_error(error))
    atomic_files.sweep(checkpoints)


def remove_after(checkpoints: Path, step: int) -> None:
    """Remove every checkpoint after a step, the last first."""
    for later in reversed(steps(checkpoints)):
        if later > step:
            atomic_files.remove_folder(step_folder(checkpoints, later))


def differences(wanted: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> list[str]:
    """Return the differences in names, shapes and types between the expected variables and a checkpoint's."""
    missing = [f"{name} is missing" for name in sorted(wanted.keys() - state.keys())]
    extra = [f"{name} is not known" for name in sorted(state.keys() - wanted.keys())]
    changed = [
        f"{name} is {state[name].dtype}{state[name].shape}, expected {wanted[name].dtype}{wanted[name].shape}"
        for name in sorted(wanted.keys() & state.keys())
        if (wanted[name].shape, wanted[name].dtype) != (state[name].shape, state[name].dtype)
    ]
    return missing + extra + changed
