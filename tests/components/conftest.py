"""Small real artefacts for the tests of the stages that read them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components import checkpoints, digests, records
from components.records import ImageShape

SHAPE = ImageShape(8, 8, 1)
CLASSES = ["dark", "left", "right"]


@pytest.fixture(scope="session")
def make_checkpoint() -> Callable[..., Path]:
    """Writes a checkpoint of a generator with random weights, which differ with the seed."""

    def make(folder: Path, seed: int = 0, image: ImageShape = SHAPE, dataset_digest: str = "0" * 64) -> Path:
        from components import generators, networks

        network = networks.NetworkConfig(image, 16, 8)
        generator = networks.build_generator(network)
        random = np.random.default_rng(seed)
        state = {
            generators.AVERAGE + variable.path: random.uniform(0.0, 1.0, variable.shape).astype(np.float32) - 0.3
            if "variance" not in variable.path
            else np.ones(variable.shape, np.float32)
            for variable in generator.variables
        }
        description = checkpoints.Description(
            step=100 + seed,
            network=network.to_json(),
            settings={"seed": seed, "batch_size": 64},
            classes=CLASSES,
            dataset_digest=dataset_digest,
            state_sha256="",
            made_with={},
        )
        checkpoints.save(folder, description, state)
        return checkpoints.step_folder(folder, description.step)

    return make


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., str]:
    """Writes a dataset of noisy images of three classes, or of none, and returns its folder."""

    def make(folder: Path, counts: dict[str, int], image: ImageShape = SHAPE, classes: list[str] | None = None) -> str:
        classes = CLASSES if classes is None else classes
        random = np.random.default_rng(0)
        splits = {}
        folder.mkdir(parents=True)
        for split in records.SPLITS:
            count = counts.get(split, 0)
            labels = random.integers(0, len(CLASSES), count)
            images = random.integers(0, 60, (count, image.height, image.width, image.channels), dtype=np.uint8)
            images[labels == 1, :, : image.width // 2] += 180
            images[labels == 2, :, image.width // 2 :] += 180
            if not classes:
                labels[:] = records.NO_LABEL
            path = folder / f"{split}-00000-of-00001.tfrecord"
            examples = (
                records.encode_example(picture.tobytes(), int(label))
                for picture, label in zip(images, labels, strict=True)
            )
            path.write_bytes(b"".join(records.frame(examples)))
            shard = records.Shard(path.name, count, path.stat().st_size, digests.sha256_of_file(path))
            splits[split] = records.Split(count, [int((labels == c).sum()) for c in range(len(classes))], [shard])
        manifest = records.Manifest(
            image=image,
            classes=classes,
            splits=splits,
            statistics={"mean": 90.0, "std": 80.0},
            source={"kind": "test"},
            preprocessing={},
            quarantine={"count": 0},
        )
        from components import storage

        storage.write_json(folder / records.MANIFEST, manifest.to_json())
        return str(folder)

    return make
