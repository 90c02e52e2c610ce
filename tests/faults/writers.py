"""What writes artefacts without TensorFlow: for each, an old state, the code that makes the new one, and a reader.

Writers and readers are the project's own. What stages write with TensorFlow goes through the same `storage.new_folder`;
whole stages are killed by tests/faults/kills.py.
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

from components.core.artifacts import checkpoints, evaluations, lineage, models, training_log
from components.core.registry import registry
from components.core.sources.catalog import Checksum
from components.core.sources.index import SourceIndex
from components.core.stage import run_notes
from components.core.stage.executor import RunOf
from components.core.storage import atomic_files
from components.publish import run as publish
from components.publish.config import PublishConfig
from components.record import run as record
from components.record.config import RecordConfig
from pipeline.local.cache import Cache
from pipeline.local.history import History
from pipeline.models import upkeep
from tests import artifacts


@dataclasses.dataclass(frozen=True)
class Writer:
    """One writer.

    Attributes:
        name: For messages.
        prepare: Makes the old state in an empty folder, and whatever the writer reads.
        write: Makes the new one. The same again changes nothing.
        read: What a reader finds there; raises if it finds what it must not.
        tolerant: Whether it only warns of what it cannot write, as nothing but time is lost.
    """

    name: str
    prepare: Callable[[Path], None]
    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    tolerant: bool = False


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
    place = folder / "deep" / "place"
    if not place.exists():
        return None
    listed = atomic_files.read_json(place / "done.json", "folder")
    atomic_files.require_files(place, listed, "folder", "done.json")
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
    found = checkpoints.newest(folder / "training")
    if found is None:
        return None
    return found[1].step, {name: array.tolist() for name, array in checkpoints.load_state(found[0]).items()}


def _old_rows(folder: Path) -> None:
    # The last checkpoint was that of step 2; a row of step 3 was written, and half of another.
    for step in (1, 2, 3):
        training_log.append(folder / "rows.jsonl", {"step": step, "loss": step / 3})
    with open(folder / "rows.jsonl", "a") as file:
        file.write('{"step": 4, "lo')


def _go_on_with_rows(folder: Path) -> None:
    training_log.drop_after(folder / "rows.jsonl", 2)
    for step in (3, 4):
        training_log.append(folder / "rows.jsonl", {"step": step, "loss": step / 3})


def _read_rows(folder: Path) -> Any:
    """The rows as far as a checkpoint vouches for them; those beyond may be there or not, one of them cut short."""
    rows = []
    for line in (folder / "rows.jsonl").read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    assert rows == [{"step": step, "loss": step / 3} for step in range(1, len(rows) + 1)]
    assert len(rows) >= 2, "rows are lost that a checkpoint vouches for"
    return "all" if len(rows) == 4 and (folder / "rows.jsonl").read_text().endswith("}\n") else "some"


def _note(state: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        run_notes.write(RunOf(str(folder / "records"), "run-1"), run_notes.Note(stage="train", state=state))

    return write


def _note_stages(folder: Path) -> None:
    for stage in ("decide", "preprocess"):
        run_notes.write(RunOf(str(folder / "records"), "run-1"), run_notes.Note(stage=stage, state=run_notes.DONE))


def _record(folder: Path) -> None:
    record.run(RecordConfig(records=str(folder / "records"), run="run-1"))


def _read_record(folder: Path) -> Any:
    path = folder / "records" / "run-1" / run_notes.RECORD
    return atomic_files.read_json(path, "record") if path.exists() else None


def _read_notes(folder: Path) -> Any:
    return run_notes.read(RunOf(str(folder / "records"), "run-1"))


_PARTS = {"stage": "train", "code": "c", "settings": {"steps": 2}, "inputs": {}}


def _keep(folder: Path) -> None:
    Cache(folder).keep("train", _PARTS, {"keras": "3"}, {"checkpoint_digest": "d"}, 1)


def _look_up(folder: Path) -> Any:
    return Cache(folder).look_up("train", _PARTS, {}).outputs


def _begin_run(folder: Path) -> None:
    history = History(folder, b"package", {"steps": 2})
    history.write_state({"exit_code": None, "tasks": {}})


def _end_run(folder: Path) -> None:
    kept = History.__new__(History)
    kept.folder = folder / "history" / "0001"
    kept.write_state({"exit_code": 0, "tasks": {"train": "done"}})


def _read_run(folder: Path) -> Any:
    return atomic_files.read_json(folder / "history" / "0001" / "state.json", "state")


def _index(sha256: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        SourceIndex(str(folder / "index"), "source").write([Checksum("a.png", "1 1 1 1", sha256)], 1, 1)

    return write


def _read_index(folder: Path) -> Any:
    return "".join(each.checksum for each in SourceIndex(str(folder / "index"), "source").entries())


def make_model(place: Path, seed: int, size: int = 10) -> Path:
    """A checkpoint and the model of it: real manifests, but no network; the graph is of so many bytes."""
    trained = artifacts.checkpoint(seed, classes=artifacts.CLASSES, dataset_digest=artifacts.dataset().digest)
    checkpoints.save(place / "checkpoints", trained, _state(seed))
    with atomic_files.new_folder(place / "model", models.MANIFEST) as folder:
        files = {"variables/variables.index": b"index %d" % seed, "saved_model.pb": bytes([seed]) * size}
        artifacts.write_model(folder, _origin(place), files)
    return place / "model"


def make_evaluation(folder: Path, model: Path, champion: tuple[str, int] = (evaluations.NO_CHAMPION, 0)) -> None:
    """Write an evaluation of such a model, which promotes it."""
    artifacts.write_evaluation(folder, _origin(model.parent), champion)


def _origin(place: Path) -> lineage.Lineage:
    (trained,) = (place / "checkpoints").glob("step-*")
    return artifacts.origin(artifacts.dataset(), checkpoints.Description.of(trained).to_json())


def publish_config(folder: Path, number: int) -> PublishConfig:
    """The settings by which a folder's model of that number is published."""
    place = folder / str(number)
    return PublishConfig(
        model=str(place / "model"), evaluation=str(place / "evaluation"), registry=str(folder / "registry")
    )


def prepare_first_version(folder: Path) -> None:
    """A model with its evaluation, and no registry yet."""
    make_evaluation(folder / "1" / "evaluation", make_model(folder / "1", 1))


def prepare_second_version(folder: Path) -> None:
    """A registry with a champion, and another model with its evaluation."""
    prepare_first_version(folder)
    publish.run(publish_config(folder, 1))
    champion = registry.read_champion(folder / "registry")
    assert champion
    make_evaluation(folder / "2" / "evaluation", make_model(folder / "2", 2), (champion.model_digest, 1))


def _publish(number: int) -> Callable[[Path], object]:
    def write(folder: Path) -> object:
        return publish.run(publish_config(folder, number)).parameters["version"]

    return write


def _prepare_two_versions(folder: Path) -> None:
    prepare_second_version(folder)
    _publish(2)(folder)


def _prepare_three_versions(folder: Path) -> None:
    _prepare_two_versions(folder)
    champion = registry.read_champion(folder / "registry")
    assert champion
    make_evaluation(folder / "3" / "evaluation", make_model(folder / "3", 3), (champion.model_digest, 2))
    _publish(3)(folder)


def _roll_back(folder: Path) -> None:
    champion = registry.read_champion(folder / "registry")
    if champion and champion.version == 2:
        with contextlib.redirect_stdout(io.StringIO()):
            upkeep.rollback(str(folder / "registry"))


def _remove_versions(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        upkeep.gc(str(folder / "registry"), keep=1, uncommitted=False, yes=True)


def read_registry(folder: Path) -> Any:
    """The champion, its model, evaluation and card checked; every other version is whole as well."""
    champion = registry.read_champion(folder / "registry")
    for number in registry.versions(folder / "registry", champion):
        registry.read_version(folder / "registry", number, champion)
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
    Writer("first checkpoint", _nothing, lambda folder: _save(folder, 1), _read_checkpoint),
    Writer("checkpoint", _save_three, lambda folder: _save(folder, 4), _read_checkpoint),
    Writer("rows of a log", _old_rows, _go_on_with_rows, _read_rows),
    Writer("note of a stage", _note("running"), _note("done"), _read_notes, tolerant=True),
    Writer("record of a run", _note_stages, _record, _read_record),
    Writer("kept result", _nothing, _keep, _look_up),
    Writer("state of a run", _begin_run, _end_run, _read_run),
    Writer("source's index", _index("0" * 64), _index("1" * 64), _read_index, tolerant=True),
    Writer("first version", prepare_first_version, _publish(1), read_registry),
    Writer("second version", prepare_second_version, _publish(2), read_registry),
    Writer("roll-back", _prepare_two_versions, _roll_back, read_registry),
    Writer("versions removed", _prepare_three_versions, _remove_versions, read_registry),
]
BY_NAME = {writer.name: writer for writer in WRITERS}
