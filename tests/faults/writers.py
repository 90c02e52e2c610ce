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

from components import checkpoints, evaluations, lineage, models, records, registry, run_records, storage
from components.executor import RunOf
from components.publish import run as publish
from components.publish.config import PublishConfig
from components.record import run as record
from components.record.config import RecordConfig
from components.source_index import SourceIndex
from components.train import window
from pipeline import model_upkeep
from pipeline.cache import Cache
from pipeline.history import History
from pipeline.package import Task
from pipeline.resolve import Outputs

_SHAPE = records.ImageShape(4, 4, 1)
_CLASSES = ["left", "right"]


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
    with storage.new_folder(folder / "deep" / "place", "done.json") as aside:
        (aside / "inner").mkdir()
        (aside / "inner" / "data").write_bytes(b"data" * 3000)
        (aside / "more").write_bytes(b"more")
        storage.write_json(aside / "done.json", storage.files_in(aside))


def _read_folder(folder: Path) -> Any:
    place = folder / "deep" / "place"
    if not place.exists():
        return None
    listed = storage.read_json(place / "done.json", "folder")
    storage.require_files(place, listed, "folder", "done.json")
    return listed


def _state(step: int) -> dict[str, np.ndarray]:
    return {"a": np.full(500, step, np.float32), "b/step": np.array(step)}


def _describe(step: int) -> checkpoints.Description:
    return checkpoints.Description(
        step=step,
        network={},
        settings={"seed": 0},
        classes=_CLASSES,
        dataset_digest="0" * 64,
        state_sha256="",
        made_with={},
    )


def _save(folder: Path, step: int) -> None:
    if step not in checkpoints.steps(folder / "training"):
        checkpoints.save(folder / "training", _describe(step), _state(step))
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
        window.append_row(folder / "rows.jsonl", {"step": step, "loss": step / 3})
    with open(folder / "rows.jsonl", "a") as file:
        file.write('{"step": 4, "lo')


def _go_on_with_rows(folder: Path) -> None:
    window.drop_rows_after(folder / "rows.jsonl", 2)
    for step in (3, 4):
        window.append_row(folder / "rows.jsonl", {"step": step, "loss": step / 3})


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
        run_records.write(RunOf(str(folder / "records"), "run-1"), run_records.Note(stage="train", state=state))

    return write


def _note_stages(folder: Path) -> None:
    for stage in ("fingerprint", "decide"):
        run_records.write(
            RunOf(str(folder / "records"), "run-1"), run_records.Note(stage=stage, state=run_records.DONE)
        )


def _record(folder: Path) -> None:
    record.run(RecordConfig(records=str(folder / "records"), run="run-1"))


def _read_record(folder: Path) -> Any:
    path = folder / "records" / "run-1" / run_records.RECORD
    return storage.read_json(path, "record") if path.exists() else None


def _read_notes(folder: Path) -> Any:
    return run_records.read(RunOf(str(folder / "records"), "run-1"))


_TASK = Task(name="train", container={})
_PARTS = {"inputs": {"steps": 2}}


def _keep(folder: Path) -> None:
    Cache(folder).keep(_TASK, _PARTS, Outputs({"checkpoint_digest": "d"}, {}), 1)


def _look_up(folder: Path) -> Any:
    return Cache(folder).look_up(_TASK, _PARTS).outputs


def _begin_run(folder: Path) -> None:
    history = History(folder, b"package", {"steps": 2})
    history.write_state({"exit_code": None, "tasks": {}})


def _end_run(folder: Path) -> None:
    kept = History.__new__(History)
    kept.folder = folder / "history" / "0001"
    kept.write_state({"exit_code": 0, "tasks": {"train": "done"}})


def _read_run(folder: Path) -> Any:
    return storage.read_json(folder / "history" / "0001" / "state.json", "state")


def _index(sha256: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        index = SourceIndex(str(folder / "index"), "source")
        index.keep("a.png", "1 1 1 1", sha256)
        index.write(1)

    return write


def _read_index(folder: Path) -> Any:
    return SourceIndex(str(folder / "index"), "source").known("a.png", "1 1 1 1")


def make_model(place: Path, seed: int, size: int = 10) -> Path:
    """A checkpoint and the model of it: real manifests, but no network; the graph is of so many bytes."""
    checkpoints.save(place / "checkpoints", _describe(seed), _state(seed))
    described = checkpoints.Description.of(checkpoints.step_folder(place / "checkpoints", seed))
    with storage.new_folder(place / "model", models.MANIFEST) as folder:
        (folder / "variables").mkdir()
        (folder / "variables" / "variables.index").write_bytes(b"index %d" % seed)
        (folder / "saved_model.pb").write_bytes(bytes([seed]) * size)
        description = models.Description(
            files=models.list_files(folder),
            checkpoint_digest=described.digest,
            step=described.step,
            image=_SHAPE,
            latent_size=4,
            classes=described.classes,
            dataset_digest=described.dataset_digest,
        )
        description.write(folder)
    return place / "model"


def make_evaluation(folder: Path, model: Path, champion: tuple[str, int] = (evaluations.NO_CHAMPION, 0)) -> Path:
    """An evaluation of such a model, which promotes it."""
    folder.mkdir(parents=True)
    manifest = records.Manifest(
        image=_SHAPE,
        classes=_CLASSES,
        splits={split: records.Split(2, [1, 1], []) for split in records.SPLITS},
        statistics={},
        source={"kind": "test", "fingerprint": "f" * 64},
        preprocessing={"height": 4},
        quarantine={"count": 0},
    )
    (checkpoint,) = (model.parent / "checkpoints").glob("step-*")
    embedding = {"certificate": {"outcome": "passed"}, "settings": {"seed": 0}}
    origin = lineage.of(manifest.to_json(), checkpoints.Description.of(checkpoint).to_json(), embedding)
    numbers = {
        "distance": "fcd",
        "names": [["fcd", "Fréchet distance"]],
        "model": {"fcd": 1.5, "fcd_ratio": 1.5},
        "champion": {"fcd": 2.5} if champion[1] else None,
        "real": {"fcd": 1.0},
        "noise": {"fcd": 9.0},
        "compared": 2,
        "low_n": True,
    }
    storage.write_json(folder / evaluations.METRICS, numbers)
    storage.write_json(folder / evaluations.LINEAGE, origin.to_json())
    description = evaluations.Description(
        verdict=evaluations.PROMOTE,
        reasons=["as the test wants it"],
        rules=[],
        checkpoint_digest=models.Description.of(model).checkpoint_digest,
        dataset_digest=origin.digests["dataset"],
        embedding_digest=origin.digests["embedding"],
        champion_digest=champion[0],
        champion_version=champion[1],
        settings={},
        files=storage.files_in(folder),
    )
    description.write(folder)
    return folder


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
            model_upkeep.rollback(str(folder / "registry"))


def _remove_versions(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        model_upkeep.gc(str(folder / "registry"), keep=1, uncommitted=False, yes=True)


def read_registry(folder: Path) -> Any:
    """The champion, its model, evaluation and card checked; every other version is whole as well."""
    champion = registry.read_champion(folder / "registry")
    for number in registry.versions(folder / "registry", champion):
        registry.read_version(folder / "registry", number, champion)
    return champion


WRITERS = [
    Writer(
        "file",
        lambda folder: storage.write_file(folder / "a" / "file", b"old" * 1000),
        lambda folder: storage.write_file(folder / "a" / "file", b"new" * 2000),
        _read_file,
    ),
    Writer(
        "file in a new folder", _nothing, lambda folder: storage.write_file(folder / "a" / "file", b"new"), _read_file
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
