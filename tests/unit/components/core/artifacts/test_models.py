"""A model's description: its files, and the card."""

import dataclasses
from pathlib import Path

import pytest

from components.core.artifacts import models
from components.core.errors import DataError
from tests.inputs import artifacts


def test_every_file_is_listed_and_the_card_is_guarded_apart(tmp_path: Path) -> None:
    files = {"saved_model.pb": b"graph", "variables/variables.index": b"12"}
    origin = artifacts.origin(artifacts.dataset(), {"step": 7, "classes": [], "dataset_digest": "d" * 64})
    described = artifacts.write_model(tmp_path, origin, files)
    assert {name: entry["bytes"] for name, entry in described.files.items()} == {
        name: len(content) for name, content in files.items()
    }
    carded = models.with_card(tmp_path, described, "# A card")
    assert carded.listed == described.listed | {models.CARD: carded.card_sha256}
    carded.write(tmp_path)
    assert models.Description.fetch(str(tmp_path)) == carded
    for name in (models.CARD, "saved_model.pb"):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b"!")
        with pytest.raises(DataError, match=name):
            models.Description.fetch(str(tmp_path))
        (tmp_path / name).write_bytes(before)


def test_of_many_classes_the_first_are_named(tmp_path: Path) -> None:
    origin = artifacts.origin(artifacts.dataset(), {"step": 7, "classes": [], "dataset_digest": "d" * 64})
    model = artifacts.write_model(tmp_path, origin, {})
    model = dataclasses.replace(model, classes=["dark", "left"], class_counts=[1, 2])
    assert model.classes_in_words() == "0 dark, 1 left"
    assert dataclasses.replace(model, class_counts=[]).classes_in_words() == "dark, left"
    words = dataclasses.replace(model, classes=[f"cluster {number}" for number in range(1032)]).classes_in_words()
    assert words.split(", ")[31:] == ["31 cluster 31", "and 1,000 more"]
