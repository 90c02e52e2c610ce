"""Small artifacts of every kind, written as the stages write them, without TensorFlow."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, lineage, models
from components.core.data import tfrecord
from components.core.registry import registry
from components.core.storage import atomic_files, digests

SHAPE = datasets.ImageShape(8, 8, 1)
CLASSES = ["dark", "light"]
RULE = {
    "rule": "fcd_corrected",
    "value": 0.02,
    "low": 0.01,
    "high": 0.03,
    "limit": "at most 0.055",
    "outcome": "passed",
}


def dataset(**changes: Any) -> datasets.Manifest:
    """Describe a dataset of ten images of each class in each split."""
    classes = changes.get("classes", CLASSES)
    split = datasets.Split(10 * len(classes), [10] * len(classes), [])
    defaults: dict[str, Any] = {
        "image": SHAPE,
        "classes": classes,
        "splits": dict.fromkeys(datasets.SPLITS, split),
        "source": {"kind": "test", "fingerprint": "f" * 64},
        "preprocessing": {"height": 8},
        "quarantine": {"count": 0},
    }
    return datasets.Manifest(**{**defaults, **changes})


def write_shard(path: Path, images: np.ndarray, labels: Sequence[int] | np.ndarray) -> datasets.Shard:
    """Write uint8 images `[n, height, width, channels]` and their labels, and describe the file."""
    path.write_bytes(
        tfrecord.framed_examples(images.reshape(len(images), math.prod(images.shape[1:])), np.asarray(labels)).tobytes()
    )
    return datasets.Shard(path.name, len(images), path.stat().st_size, digests.sha256_of_file(path))


def write_dataset(
    folder: Path,
    examples: Mapping[str, tuple[np.ndarray, Sequence[int] | np.ndarray]],
    classes: Sequence[str],
    **changes: Any,
) -> datasets.Manifest:
    """Write a dataset with one shard for each split; a split without images and labels is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    splits, shape = {}, next(iter(examples.values()))[0].shape[1:]
    for split in datasets.SPLITS:
        images, labels = examples.get(split, (np.zeros((0, *shape), np.uint8), []))
        shard = write_shard(folder / f"{split}-00000-of-00001.tfrecord", images, labels)
        counts = [int(np.sum(np.equal(labels, label))) for label in range(len(classes))]
        splits[split] = datasets.Split(len(images), counts, [shard])
    manifest = dataset(image=datasets.ImageShape(*shape), classes=list(classes), splits=splits, **changes)
    manifest.write(folder)
    return manifest


def checkpoint(step: int = 1, **changes: Any) -> checkpoints.Manifest:
    """Describe a checkpoint; `checkpoints.save` writes it."""
    defaults: dict[str, Any] = {
        "network": {},
        "settings": {"seed": 0},
        "classes": [],
        "dataset_digest": "d" * 64,
        "state_sha256": "",
        "made_with": {},
    }
    return checkpoints.Manifest(step=step, **{**defaults, **changes})


def embedding(**changes: Any) -> embeddings.Manifest:
    """Describe a certified embedding without classes."""
    defaults: dict[str, Any] = {
        "image": SHAPE,
        "spaces": [embeddings.Space(name=embeddings.UNTRAINED, feature_size=4, components=3)],
        "class_count": 0,
        "test_accuracy": 0.25,
        "certificate": {"outcome": embeddings.PASSED, "images": 2000, "checks": []},
        "dataset_digest": "d" * 64,
        "settings": {"seed": 0},
        "files": {"whitening.npz": "a" * 64},
    }
    return embeddings.Manifest(**{**defaults, **changes})


def origin(data: datasets.Manifest, trained: Mapping[str, Any], **embedding: Any) -> lineage.Lineage:
    """Return the lineage of an evaluation of a checkpoint in a certified embedding."""
    embedding = {"certificate": {"outcome": "passed"}, "settings": {"seed": 0}, **embedding}
    return lineage.of(data.to_json(), dict(trained), embedding)


def write_model(folder: Path, origin: lineage.Lineage, files: Mapping[str, bytes], **changes: Any) -> models.Manifest:
    """Write a model of the checkpoint in a lineage; its files are arbitrary bytes that TensorFlow cannot load."""
    for name, content in files.items():
        atomic_files.write_file(folder / name, content)
    defaults: dict[str, Any] = {
        "checkpoint_digest": origin.digests["checkpoint"],
        "step": origin.checkpoint["step"],
        "image": SHAPE,
        "latent_size": 16,
        "classes": origin.checkpoint["classes"],
        "dataset_digest": origin.digests["dataset"],
    }
    manifest = models.Manifest(files=models.list_files(folder), **{**defaults, **changes})
    manifest.write(folder)
    return manifest


def evaluation(**changes: Any) -> evaluations.Manifest:
    """Describe an evaluation that promotes."""
    defaults: dict[str, Any] = {
        "verdict": evaluations.PROMOTE,
        "reasons": ["the test says so"],
        "rules": [],
        "checkpoint_digest": "c" * 64,
        "dataset_digest": "d" * 64,
        "embedding_digest": "e" * 64,
        "champion_digest": evaluations.NO_CHAMPION,
        "champion_version": 0,
        "settings": {},
        "files": {},
    }
    return evaluations.Manifest(**{**defaults, **changes})


def metrics(champion: bool = False, distance: str = "fcd") -> dict[str, Any]:
    """Return the numbers of an evaluation, as in its `metrics.json`."""
    return {
        "distance": distance,
        "names": [[distance, "Fréchet distance"]],
        "model": {distance: 1.25, f"{distance}_ratio": 2.5},
        "champion": {distance: 1.75} if champion else None,
        "real": {distance: 0.5},
        "noise": {distance: 30.0},
        "compared": 1000,
        "low_n": False,
    }


def write_evaluation(
    folder: Path,
    origin: lineage.Lineage,
    champion: tuple[str, int] = (evaluations.NO_CHAMPION, 0),
    numbers: Mapping[str, Any] | None = None,
    **changes: Any,
) -> evaluations.Manifest:
    """Write an evaluation of the checkpoint in a lineage, compared with a champion: its digest and version."""
    atomic_files.write_json(folder / evaluations.METRICS, numbers or metrics(champion[1] > 0))
    atomic_files.write_json(folder / evaluations.LINEAGE, origin.to_json())
    parents = {f"{name}_digest": digest for name, digest in origin.digests.items()}
    defaults = {
        "champion_digest": champion[0],
        "champion_version": champion[1],
        "files": atomic_files.files_in(folder),
        **parents,
    }
    manifest = evaluation(**{**defaults, **changes})
    manifest.write(folder)
    return manifest


def crown(location: Path, model: Path, version: int) -> None:
    """Make a model a version of a registry and its champion, without a verdict."""
    shutil.copytree(model, registry.version_location(location, version).path)
    manifest = models.Manifest.of(model)
    registry.Champion(
        version=version,
        model_digest=manifest.digest,
        checkpoint_digest=manifest.checkpoint_digest,
        evaluation_digest="e" * 64,
    ).write(location)


def unsealed(manifest: Path) -> dict[str, Any]:
    """Read a manifest without its seal, so that a test can change it and write it again."""
    return atomic_files.unsealed(manifest.read_bytes(), manifest, "artifact")


def seal(manifest: Path, value: dict[str, Any], **changes: Any) -> None:
    """Write a manifest with other fields."""
    atomic_files.write_file(manifest, atomic_files.sealed_json({**value, **changes}))
