"""Artefacts with one bit of each byte flipped, and cut at each length: the project's readers notice before any use.

A file that a manifest names is guarded by its sha256. A manifest, the champion, the index of a source and a kept result
have to guard themselves, whatever digest their reader expects.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from components import checkpoints, digests, embeddings, evaluations, lineage, models, records, storage
from components.errors import DataError
from components.whitening import Whitening
from tests.faults import writers
from tests.faults.counts import Counts


@dataclasses.dataclass(frozen=True)
class Artefact:
    """One kind of artefact.

    Attributes:
        make: Makes one in an empty folder.
        part: Which of the files there are looked at, as for `Path.glob`.
        read: Reads it as a stage does: raises `DataError` if it is damaged, or makes do without it.
    """

    make: Callable[[Path], object]
    part: str
    read: Callable[[Path], Any]


def _make_dataset(folder: Path) -> None:
    splits = {}
    for split in records.SPLITS:
        path = folder / f"{split}-00000-of-00001.tfrecord"
        path.write_bytes(b"".join(records.frame([records.encode_example(bytes(4), 0)] * 2)))
        shard = records.Shard(path.name, 2, path.stat().st_size, digests.sha256_of_file(path))
        splits[split] = records.Split(2, [2], [shard])
    manifest = records.Manifest(
        image=records.ImageShape(2, 2, 1),
        classes=["one"],
        splits=splits,
        statistics={"mean": 1.5, "std": 0.5},
        source={"kind": "test", "fingerprint": "f" * 64},
        preprocessing={"height": 2},
        quarantine={"count": 0},
    )
    manifest.write(folder)


def _read_dataset(folder: Path) -> Any:
    from components import datasets  # with TensorFlow

    manifest = records.Manifest.of(str(folder))
    loaded = [datasets.load_split(str(folder), manifest, split) for split in records.SPLITS]
    return manifest, [array.tolist() for split in loaded for array in split]


def _make_checkpoint(folder: Path) -> None:
    description = checkpoints.Description(
        step=1,
        network={"latent_size": 4},
        settings={"seed": 0},
        classes=["one"],
        dataset_digest="0" * 64,
        state_sha256="",
        made_with={"replicas": 1},
    )
    checkpoints.save(folder, description, {"a": np.arange(4, dtype=np.float32)})


def _read_checkpoint(folder: Path) -> Any:
    found = checkpoints.newest(folder)
    assert found
    return found, {name: array.tolist() for name, array in checkpoints.load_state(found[0]).items()}


def _make_embedding(folder: Path) -> None:
    (folder / embeddings.MODEL_FOLDER).mkdir()
    (folder / embeddings.MODEL_FOLDER / "saved_model.pb").write_bytes(b"graph")
    whitening = Whitening(np.zeros(2), np.eye(2))
    embeddings.save_whitenings(folder, {embeddings.UNTRAINED: whitening})
    description = embeddings.Description(
        image=records.ImageShape(2, 2, 1),
        spaces=[embeddings.Space(name=embeddings.UNTRAINED, feature_size=2, components=2)],
        class_count=0,
        test_accuracy=None,
        certificate={"outcome": embeddings.PASSED, "images": 0, "checks": []},
        dataset_digest="0" * 64,
        settings={"seed": 0},
        files=storage.files_in(folder),
    )
    description.write(folder)


def _read_embedding(folder: Path) -> Any:
    return embeddings.Description.of(folder)


def _read_evaluation(folder: Path) -> Any:
    described = evaluations.Description.of(folder / "1" / "evaluation")
    return described, lineage.read(folder / "1" / "evaluation", described)


def _publish(folder: Path) -> None:
    writers.prepare_first_version(folder)
    writers.BY_NAME["first version"].write(folder)


def _of_writer(name: str, part: str) -> Artefact:
    writer = writers.BY_NAME[name]

    def make(folder: Path) -> None:
        writer.prepare(folder)
        writer.write(folder)

    return Artefact(make, part, writer.read)


ARTEFACTS = {
    "shard": Artefact(_make_dataset, "*.tfrecord", _read_dataset),
    "dataset.json": Artefact(_make_dataset, records.MANIFEST, _read_dataset),
    "checkpoint's state": Artefact(_make_checkpoint, "*/state.npz", _read_checkpoint),
    "checkpoint.json": Artefact(_make_checkpoint, f"*/{checkpoints.MANIFEST}", _read_checkpoint),
    "embedding's files": Artefact(_make_embedding, "*[!j][!s][!o][!n]", _read_embedding),
    "embedding.json": Artefact(_make_embedding, embeddings.MANIFEST, _read_embedding),
    "evaluation's files": Artefact(_publish, "1/evaluation/[!v]*", _read_evaluation),
    "verdict.json": Artefact(_publish, f"1/evaluation/{evaluations.MANIFEST}", _read_evaluation),
    "model's files": Artefact(_publish, "registry/versions/1/**/[!MCe]*", writers.read_registry),
    "model's card": Artefact(_publish, "registry/versions/1/CARD.md", writers.read_registry),
    "MANIFEST.json": Artefact(_publish, "registry/versions/1/MANIFEST.json", writers.read_registry),
    "MANIFEST.json alone": Artefact(
        _publish, "1/model/MANIFEST.json", lambda folder: models.Description.of(folder / "1/model")
    ),
    "champion.json": Artefact(_publish, "registry/champion.json", writers.read_registry),
    "kept result": _of_writer("kept result", "cache/**/*.json"),
    "source's index": _of_writer("source's index", "index/*.index"),
}


def damages(content: bytes, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """Each damage and what it leaves: one bit of each byte flipped, and the file cut at each length."""
    for at in range(0, len(content), every):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        yield f"bit {at % 8} of byte {at} flipped", bytes(flipped)
        yield f"cut at {at}", content[:at]


def damage_everywhere(kind: str, folder: Path, every: int = 1) -> Counts:
    """Damages each file of an artefact in each way and reads it.

    Args:
        kind: Of `ARTEFACTS`.
        folder: An empty folder to work in.
        every: 1 for all bytes, else only each such one, for a quick look.
    """
    counts, artefact = Counts(), ARTEFACTS[kind]
    folder.mkdir(parents=True)
    logging.disable(logging.CRITICAL)
    try:
        artefact.make(folder)
        whole = repr(artefact.read(folder))
        for path in sorted(path for path in folder.glob(artefact.part) if path.is_file()):
            content = path.read_bytes()
            for damage, left in damages(content, every):
                path.write_bytes(left)
                problem = _problem_of(artefact, folder, whole)
                counts.add(left != content, f"{kind}, {path.name}, {damage}: {problem}" if problem else "")
            path.write_bytes(content)
        assert repr(artefact.read(folder)) == whole
    finally:
        logging.disable(logging.NOTSET)
    return counts


def _problem_of(artefact: Artefact, folder: Path, whole: str) -> str:
    try:
        found = artefact.read(folder)
    except DataError:
        return ""
    except Exception as error:
        return f"it is no error for the user: {type(error).__name__}: {error}"
    # Nothing, or another state than was written, which is made again, is as good as an error.
    return "" if not found or repr(found) == whole else f"it is taken for {found!r}"[:300]
