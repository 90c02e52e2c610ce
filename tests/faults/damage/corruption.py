"""Artifacts with bits of each byte flipped, cut at each length, and with files lost or replaced: readers notice it.

A file that a manifest names is guarded by its sha256. A manifest, the champion, a source index and a cached result have
to guard themselves, even if their reader expects no digest.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, lineage, models
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.metrics.whitening import Whitening
from components.core.storage import atomic_files
from pipeline import step_table
from pipeline.local import cache, history
from tests.faults import candidates
from tests.faults.counts import Counts, quiet
from tests.faults.disk import writers
from tests.inputs import artifacts
from tests.unit.pipeline.local.conftest import Stages, World


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One kind of artifact."""

    make: Callable[[Path], object]  # makes one in an empty folder
    part: str  # the files to damage, as for `Path.glob`
    read: Callable[[Path], Any]  # reads it as a stage does; raises `DataError` if it is damaged
    optional: bool = False  # whether the reader can do without it


def _make_dataset(folder: Path) -> None:
    examples = dict.fromkeys(datasets.SPLITS, (np.zeros((2, 2, 2, 1), np.uint8), [0, 0]))
    artifacts.write_dataset(folder, examples, ["only é"])


def _read_dataset(folder: Path) -> Any:
    from components.core.data import dataset_reader  # with TensorFlow

    manifest = datasets.Manifest.of(str(folder), whole=False)
    for split in datasets.SPLITS:
        dataset_reader.open_split(folder, manifest, split)
    return manifest


def _make_checkpoint(folder: Path) -> None:
    checkpoints.save(folder, artifacts.checkpoint(), {"a": np.arange(4, dtype=np.float32)})


def _read_checkpoint(folder: Path) -> Any:
    (checkpoint,) = folder.glob("step-*")
    return checkpoints.Manifest.of(checkpoint), {
        name: array.tolist() for name, array in checkpoints.load_state(checkpoint).items()
    }


def _make_embedding(folder: Path) -> None:
    (folder / embeddings.MODEL_FOLDER).mkdir()
    (folder / embeddings.MODEL_FOLDER / "saved_model.pb").write_bytes(b"graph")
    whitening = Whitening(np.zeros(2), np.eye(2))
    feature_spaces.save_whitenings(folder, {embeddings.UNTRAINED: whitening})
    artifacts.embedding(files=atomic_files.files_in(folder)).write(folder)


def _read_evaluation(folder: Path) -> Any:
    manifest = evaluations.Manifest.of(folder / "1" / "evaluation")
    return manifest, lineage.read(folder / "1" / "evaluation", manifest)


def _publish(folder: Path) -> None:
    candidates.prepare(folder, 1, 1)


def _look_up(folder: Path) -> history.TaskState:
    step = next(step for step in step_table.steps() if step.stage == "preprocess")
    inputs = {"source": "digits", "source_fingerprint": "a" * 64, "dataset": str(folder / "datasets")}
    return cache.look_up(history.read(folder), step, inputs, Stages(World(), folder))[0]  # type: ignore[arg-type]


def _run_once(folder: Path) -> None:
    _make_dataset(folder / "datasets/key")
    task = _look_up(folder)
    digest = datasets.Manifest.of(folder / "datasets/key").digest
    task.outputs = {"dataset_uri": str(folder / "datasets/key"), "dataset_digest": digest, "summary": "two images"}
    task.state = history.DONE
    history.History(folder, {}).write_state(0, {"preprocess": task})


def _read_cached(folder: Path) -> Any:
    """Return what a later run reads of the outputs of an earlier one; None if it takes none."""
    outputs = _look_up(folder).outputs
    return outputs and (outputs["dataset_uri"], outputs["dataset_digest"])


ARTIFACTS = {
    "shard": Artifact(_make_dataset, "*.tfrecord", _read_dataset),
    "dataset.json": Artifact(_make_dataset, datasets.MANIFEST, _read_dataset),
    "checkpoint's state": Artifact(_make_checkpoint, "*/state.npz", _read_checkpoint),
    "checkpoint.json": Artifact(_make_checkpoint, f"*/{checkpoints.MANIFEST}", _read_checkpoint),
    "embedding's files": Artifact(_make_embedding, "*[!j][!s][!o][!n]", embeddings.Manifest.of),
    "embedding.json": Artifact(_make_embedding, embeddings.MANIFEST, embeddings.Manifest.of),
    "evaluation's files": Artifact(_publish, "1/evaluation/[!v]*", _read_evaluation),
    "verdict.json": Artifact(_publish, f"1/evaluation/{evaluations.MANIFEST}", _read_evaluation),
    "model's files": Artifact(_publish, "registry/versions/1/**/[!MCe]*", writers.read_registry),
    "model's card": Artifact(_publish, "registry/versions/1/CARD.md", writers.read_registry),
    "MANIFEST.json": Artifact(_publish, "registry/versions/1/MANIFEST.json", writers.read_registry),
    "MANIFEST.json alone": Artifact(
        _publish, "1/model/MANIFEST.json", lambda folder: models.Manifest.of(folder / "1/model")
    ),
    "champion.json": Artifact(_publish, "registry/champion.json", writers.read_registry),
    "cached result": Artifact(_run_once, "history/0001/state.json", _read_cached, optional=True),
    "source's index": Artifact(
        writers.BY_NAME["source's index"].prepare, "index/*.index", writers.read_index, optional=True
    ),
}


def damages(content: bytes, every: int = 1, bits: Sequence[int] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield each damage and its result: `bits` of every so many-th byte flipped (one if empty), and a cut there."""
    for at in range(0, len(content), every):
        for bit in bits or (at % 8,):
            yield f"bit {bit} of byte {at} flipped", content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        yield f"cut at {at}", content[:at]


@quiet()
def damage_everywhere(kind: str, folder: Path, every: int = 1, bits: Sequence[int] = ()) -> Counts:
    """Damage each file of one of ARTIFACTS in an empty folder, in each way of `damages`, and read the artifact.

    Each file is lost as well, and replaced by each other one beside it.
    """
    counts, artifact = Counts(), ARTIFACTS[kind]
    folder.mkdir(parents=True)
    artifact.make(folder)
    whole = repr(artifact.read(folder))
    for path in sorted(path for path in folder.glob(artifact.part) if path.is_file()):
        content = path.read_bytes()
        others = {f"replaced by {other}": other.read_bytes() for other in folder.rglob("*") if other.is_file()}
        replaced = [(name, left) for name, left in sorted(others.items()) if left != content]
        ends = [("made longer", content + b"\n"), ("deleted", None), *replaced]
        for damage, left in (*damages(content, every, bits), *ends):
            path.unlink(missing_ok=True)
            if left is not None:
                path.write_bytes(left)
            problem = _problem_of(artifact, folder, path.name, whole)
            counts.add(left != content, f"{kind}, {path.name}, {damage}: {problem}" if problem else "")
        path.write_bytes(content)
    assert repr(artifact.read(folder)) == whole
    return counts


def _problem_of(artifact: Artifact, folder: Path, name: str, whole: str) -> str:
    try:
        value = artifact.read(folder)
    except DataError as error:
        logged = str(error)
        return "" if name in logged and logged.isprintable() else f"its message is {logged!r}"
    except Exception as error:
        return f"it is no error for the user: {type(error).__name__}: {error}"
    if artifact.optional and (not value or repr(value) == whole):
        return ""
    return f"it is taken for {value!r}"[:300]
