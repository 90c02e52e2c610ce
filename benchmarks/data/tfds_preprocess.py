"""The same data built by TensorFlow Datasets, in an environment of its own (`make bench-preprocess`).

    .venv-tfds/bin/python -m benchmarks.data.tfds_preprocess SOURCE FOLDER

Images are kept as plain pixels, as the preprocess stage keeps them; as PNG they would take longer to write.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from benchmarks.data.plain_preprocess import reader_of


class Images(tfds.core.GeneratorBasedBuilder):
    """Build what the plain loop reads as a dataset with the same splits.

    Args:
        source: IDX files or a folder of images.
        folder: Where the dataset goes.
    """

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        super().__init__(data_dir=str(folder))

    def _info(self) -> Any:
        reader = reader_of(self._source)
        image = tfds.features.Tensor(shape=reader.shape, dtype=np.uint8)
        label = tfds.features.ClassLabel(num_classes=10)
        features = tfds.features.FeaturesDict({"image": image, "label": label})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, manager: Any) -> dict[str, Iterator[Any]]:
        return {split: self._generate_examples(split) for split in reader_of(self._source).splits}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        reader = reader_of(self._source)
        for number, (image, label) in enumerate(reader.read(self._source, split)):
            yield number, {"image": np.frombuffer(image, np.uint8).reshape(reader.shape), "label": label}


def main() -> None:
    """Build the dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    Images(given.source, given.folder).download_and_prepare()


if __name__ == "__main__":
    main()
