"""Writers of artifacts that need no TensorFlow: for each, an old state, the code that makes the new one, and a reader.

Writers and readers are the project's own, one for each way of writing to a disk; test_writers.py lists the other
writers. Whole stages are killed by tests/faults/stages/kills.py.
"""

import contextlib
import dataclasses
import functools
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, training_log
from components.core.errors import DataError
from components.core.registry import registry
from components.core.sources.catalog import Checksum
from components.core.sources.index import SourceIndex
from components.core.storage import atomic_files
from pipeline.registry import upkeep
from tests.faults import candidates
from tests.inputs import artifacts


@dataclasses.dataclass(frozen=True)
class Writer:
    name: str
    prepare: Callable[[Path], object]  # makes the old state in an empty folder, and the writer's inputs
    write: Callable[[Path], object]  # makes the new state; repeating it changes nothing
    read: Callable[[Path], Any]  # returns the state for a reader; raises if it is invalid
    tolerant: bool = False  # whether it only warns when it cannot write, because that only costs time


def _nothing(folder: Path) -> None:
    pass


def _read_file(folder: Path) -> Any:
    return (folder / "a" / "file").read_bytes() if (folder / "a" / "file").exists() else None


def _fill(folder: Path) -> None:
    with atomic_files.new_folder(folder / "deep" / "place", "done.json") as aside:
        (aside / "inner").mkdir()
        (aside / "inner" / "data").write_bytes(b"data" * 3000)
        (aside / "more").write_bytes(b"more")
        atomic_files.write_json(aside / "done.json", atomic_files.files_in(aside))


def _read_folder(folder: Path) -> Any:
    deep_folder = folder / "deep" / "place"
    if not deep_folder.exists():
        return None
    listed = atomic_files.read_json(deep_folder / "done.json", "folder")
    assert list(atomic_files.changed_files(deep_folder, listed)) == []
    return listed


def _state(step: int) -> dict[str, np.ndarray]:
    return {"a": np.full(500, step, np.float32), "b/step": np.array(step)}


def _save(folder: Path, step: int) -> None:
    if step not in checkpoints.steps(folder / "training"):
        checkpoints.save(folder / "training", artifacts.checkpoint(step), _state(step))
    checkpoints.keep(folder / "training", functools.partial(checkpoints.kept, count=2))


def _save_three(folder: Path) -> None:
    for step in (1, 2, 3):
        _save(folder, step)


def _read_checkpoint(folder: Path) -> Any:
    newest = checkpoints.newest(folder / "training")
    if newest is None:
        return None
    return newest[1].step, {name: array.tolist() for name, array in checkpoints.load_state(newest[0]).items()}


def _old_rows(folder: Path) -> None:
    # The last checkpoint was that of step 2; a row of step 3 was written, and half of another.
    for step in (1, 2, 3):
        training_log.append(folder / training_log.METRICS, {"step": step, "loss": step / 3})
    with open(folder / training_log.METRICS, "a") as file:
        file.write('{"step": 4, "lo')


def _go_on_with_rows(folder: Path) -> None:
    training_log.go_back(folder, 2, folder / "step-0000000002")
    for step in (3, 4):
        training_log.append(folder / training_log.METRICS, {"step": step, "loss": step / 3})


def _read_rows(folder: Path) -> Any:
    """Return the rows up to the last checkpoint; later ones may be missing or cut short."""
    rows = []
    for line in (folder / training_log.METRICS).read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    assert rows == [{"step": step, "loss": step / 3} for step in range(1, len(rows) + 1)]
    assert len(rows) >= 2, "rows are lost that a checkpoint vouches for"
    return "all" if len(rows) == 4 and (folder / training_log.METRICS).read_text().endswith("}\n") else "some"


def _index(sha256: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        SourceIndex(str(folder / "index"), "source").write([Checksum("a.png", "1 1 1 1", sha256)], 1)

    return write


def read_index(folder: Path) -> Any:
    return "".join(entry.checksum for entry in SourceIndex(str(folder / "index"), "source").entries())


def _prepare(count: int, published: int) -> Callable[[Path], None]:
    return lambda folder: candidates.prepare(folder, count, published)


def _publish(number: int) -> Callable[[Path], object]:
    return lambda folder: candidates.at(folder / str(number)).publish(folder / "registry").parameters["version"]


def _rollback(folder: Path) -> None:
    champion = registry.read_champion(folder / "registry")
    if champion.version == 2:
        with contextlib.redirect_stdout(io.StringIO()):
            upkeep.rollback(str(folder / "registry"))
    _note(folder)


def _remove_versions(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        upkeep.gc(str(folder / "registry"), keep=1, uncommitted=False, yes=True)
    _note(folder)


def _note(folder: Path) -> None:
    """Do what the next change of the champion begins with, if the one before died after its effect."""
    registry.note(folder / "registry", registry.read_pointer(folder / "registry").champion)


def read_registry(folder: Path) -> Any:
    """Check the champion, its model, evaluation and card, and every other version."""
    champion = registry.read_champion(folder / "registry")
    for number in registry.versions(folder / "registry", champion):
        registry.read_version(folder / "registry", number, champion)
        if problems := registry.damage(folder / "registry", number, champion):
            raise DataError(f"{folder}: {problems[0]}")
    return champion


WRITERS = [
    Writer(
        "file",
        lambda folder: atomic_files.write_file(folder / "a" / "file", b"old" * 1000),
        lambda folder: atomic_files.write_file(folder / "a" / "file", b"new" * 2000),
        _read_file,
    ),
    Writer(
        "file in a new folder",
        _nothing,
        lambda folder: atomic_files.write_file(folder / "a" / "file", b"new"),
        _read_file,
    ),
    Writer("folder", _nothing, _fill, _read_folder),
    Writer("checkpoint", _save_three, lambda folder: _save(folder, 4), _read_checkpoint),
    Writer("rows of a log", _old_rows, _go_on_with_rows, _read_rows),
    Writer("source's index", _index("0" * 64), _index("1" * 64), read_index, tolerant=True),
    Writer("first version", _prepare(1, 0), _publish(1), read_registry),
    Writer("second version", _prepare(2, 1), _publish(2), read_registry),
    Writer("rollback", _prepare(2, 2), _rollback, read_registry),
    Writer("versions removed", _prepare(3, 3), _remove_versions, read_registry),
]
BY_NAME = {writer.name: writer for writer in WRITERS}
