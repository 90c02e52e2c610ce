"""The manifest of a dataset, and how damage to it or to its shards is reported."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.storage import atomic_files
from tests.inputs import artifacts
from tests.properties import changed

RECORDS = {"train": 4, "validation": 1, "test": 2}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven images of 2x3, with every optional field of a manifest."""
    folder = tmp_path_factory.mktemp("dataset")
    generator = np.random.default_rng(0)
    examples = {
        split: (generator.integers(0, 256, (count, 2, 3, 1), np.uint8), [0] * count) for split, count in RECORDS.items()
    }
    artifacts.write_dataset(
        folder,
        examples,
        ["only é"],
        source={"kind": "images", "fingerprint": "0" * 64, "images": 8},
        preprocessing={"seed": 3, "resize": "fill", "test_fraction": 0.1},
        quarantine={"count": 1, "limit": 0.2, "entries": [{"name": "x.png", "sha256": "1" * 64, "reason": "is empty"}]},
        made_with={"code": "1" * 40},
    )
    return folder


def test_a_shard_that_has_grown_is_refused(dataset: Path, tmp_path: Path) -> None:
    manifest = datasets.Manifest.of(str(dataset))
    (shard,) = manifest.splits["train"].shards
    content = (dataset / shard.file).read_bytes()
    (tmp_path / shard.file).write_bytes(content + content[: len(content) // 4])  # by a whole record
    with pytest.raises(DataError, match=f"{shard.file} is missing, or not the one"):
        dataset_reader.open_split(tmp_path, manifest, "train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 7}, "version 7, expected 3: "),
        ({"extra": 1, "more": 2}, r"unknown \['extra', 'more'\]"),
        ({"source": {"kind": "\ud800"}}, "surrogates not allowed"),
        ({"image": {"height": -1, "width": 1, "channels": 1}}, "height of image is -1"),
    ],
)
def test_what_is_no_description_is_refused_with_what_differs(
    dataset: Path, change: dict[str, object], message: str
) -> None:
    value = {**datasets.Manifest.of(str(dataset)).to_json(), **change}
    with pytest.raises(DataError, match=message):
        datasets.Manifest.from_json(value, "there")


def test_a_description_without_a_seal_is_refused(dataset: Path, tmp_path: Path) -> None:
    atomic_files.write_json(tmp_path / datasets.MANIFEST, datasets.Manifest.of(dataset).to_json())
    with pytest.raises(DataError, match="it has no sha256; make the dataset again"):
        datasets.Manifest.read(tmp_path)


@given(data=st.data())
def test_any_json_is_a_manifest_or_a_data_error(dataset: Path, data: st.DataObject) -> None:
    """Any value anywhere in a real manifest, or instead of all of it."""
    value = changed(data, datasets.Manifest.of(str(dataset)).to_json())
    try:
        logged = datasets.Manifest.from_json(json.loads(json.dumps(value)), "there").digest
    except DataError as error:
        logged = str(error)
    assert logged.isprintable()
