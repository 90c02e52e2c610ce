"""Tests for what the report shows of a dataset."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.evaluate.report import dataset_section
from tests.inputs import artifacts, sheets
from tests.inputs.stages import make_dataset

Splits = dict[str, tuple[np.ndarray, np.ndarray]]
SHARD = "%s-00000-of-00001.tfrecord"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_dataset(tmp_path_factory.mktemp("data") / "dataset", {"train": 90, "validation": 12, "test": 30})


@pytest.fixture(scope="module")
def splits(dataset: str) -> Splits:
    manifest = datasets.Manifest.of(dataset)
    return {split: dataset_reader.load_split(Path(dataset), manifest, split) for split in datasets.SPLITS}


def leak(
    split: str, record: int, train_record: int, shard: str = "", train_shard: str = SHARD % "train"
) -> dict[str, Any]:
    train = {"train_shard": train_shard, "train_record": train_record}
    return {"split": split, "shard": shard or SHARD % split, "record": record, **train}


def test_every_split_has_a_sheet_with_the_first_images_of_each_class_in_a_row(dataset: str, splits: Splits) -> None:
    loaded = {split: splits[split] for split in ("train", "test")}
    section = dataset_section.of(Path(dataset), datasets.Manifest.of(dataset), loaded)
    assert section["counts"] == [
        {"name": name, "counts": [int((splits[split][1] == label).sum()) for split in datasets.SPLITS]}
        for label, name in enumerate(["dark", "left", "right"])
    ]
    for split, sheet in zip(datasets.SPLITS, section["sheets"], strict=True):
        tiles = sheets.images_of(sheet["png"], 8, 8)
        assert tiles.shape[:2] == (3, 8)
        images, labels = splits[split]
        for label, row in enumerate(tiles):
            first = images[labels == label][:8]
            blanks = np.full((8 - len(first), 8, 8, 1), 255, np.uint8)
            np.testing.assert_array_equal(row, np.concatenate([first, blanks]))
    assert min(np.bincount(splits["validation"][1])) < 8  # so that there are blanks


def test_without_classes_the_first_images_are_shown() -> None:
    images = np.random.default_rng(0).integers(0, 256, (100, 4, 5, 3), dtype=np.uint8)
    labels = np.full(100, datasets.NO_LABEL, np.int32)
    np.testing.assert_array_equal(dataset_section.contact_sheet(images, labels, 0), images[:64])
    np.testing.assert_array_equal(dataset_section.contact_sheet(images[:5], labels[:5], 0), images[:5])


def test_of_many_classes_the_first_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    names = [f"class {label}" for label in range(70)]
    dataset = make_dataset(tmp_path / "dataset", {"train": 50, "test": 9}, classes=names)
    section = dataset_section.of(Path(dataset), datasets.Manifest.of(dataset), {})
    assert len(section["sheets"]) == 2  # there are no validation images
    assert sheets.images_of(section["sheets"][0]["png"], 8, 8).shape[:2] == (20, 8)
    assert [row["name"] for row in section["counts"]] == names


def test_leaking_images_stand_beside_their_training_images(dataset: str, splits: Splits) -> None:
    leaks = {"exact": 1, "near": 2, "compared": ["test", "validation"]}
    leaks["first"] = [leak("test", 29, 3), leak("validation", 2, 5), leak("test", 0, 89)]
    manifest = dataclasses.replace(datasets.Manifest.of(dataset), source={"leaks": leaks})
    loaded = {split: splits[split] for split in ("train", "test")}
    sheet = dataset_section.of(Path(dataset), manifest, loaded)["sheets"][-1]
    (test, _), (train, _) = splits["test"], splits["train"]
    tiles = sheets.images_of(sheet["png"], 8, 8)
    np.testing.assert_array_equal(tiles.reshape(-1, 8, 8, 1), [test[29], train[3], test[0], train[89]])


def test_records_are_found_behind_those_of_earlier_shards() -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 2, 2, 1), dtype=np.uint8)
    shards = [datasets.Shard(name, count, 0, "") for name, count in (("a", 10), ("b", 0), ("c", 20))]
    manifest = artifacts.dataset(
        image=datasets.ImageShape(2, 2, 1),
        classes=[],
        splits={split: datasets.Split(30, [], shards) for split in datasets.SPLITS},
        source={"leaks": {"first": [leak("test", 5, 9, "c", "a")]}},
    )
    loaded = dict.fromkeys(("train", "test"), (images, np.zeros(30, np.int32)))
    np.testing.assert_array_equal(dataset_section.leaking_pairs(manifest, loaded), images[[15, 9]])


NO_LEAKS = {"exact": 0, "near": 0, "compared": ["test"]}
LEAKS = {"exact": 0, "near": 7, "compared": ["test", "validation"]}
CROPPED = {"cropped": {"images": 1234, "of": 5000}}
Remark = tuple[str, bool]  # a pattern of the text, and whether it is serious


@pytest.mark.parametrize(
    ("source", "quarantined", "made_with", "remarks"),
    [
        ({}, 0, {}, [("", False)]),
        (
            {"duplicates": 1200, "contradictions": 0, "leaks": NO_LEAKS},
            3,
            CROPPED,
            [(" 3 ", False), ("5,000 .* 1,234 .* 30%.* fit", True), ("1,200", False), (" test ", False)],
        ),
        ({"duplicates": 4, "contradictions": 2, "leaks": LEAKS}, 0, {}, [(" 4 ", False), (" 2 ", True), (" 7 ", True)]),
    ],
    ids=["not looked", "nothing leaks", "leaks"],
)
def test_remarks(
    dataset: str, source: dict[str, Any], quarantined: int, made_with: dict[str, Any], remarks: list[Remark]
) -> None:
    changes: dict[str, Any] = {"source": source, "quarantine": {"count": quarantined}, "made_with": made_with}
    manifest = dataclasses.replace(datasets.Manifest.of(dataset), **changes)
    for remark, (pattern, serious) in zip(dataset_section.remarks(manifest), remarks, strict=True):
        assert re.search(pattern, remark["text"])
        assert remark["serious"] == serious
