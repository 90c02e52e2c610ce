"""A model's description: its files, and the card."""

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
