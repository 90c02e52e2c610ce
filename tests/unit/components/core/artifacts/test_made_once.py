"""An artifact is made once; an existing one is found, or refused if it differs."""

from pathlib import Path

import pytest

from components.core.artifacts import models
from components.core.artifacts.made_once import made_once
from components.core.errors import ConfigError
from components.core.storage.location import Location
from tests.inputs import artifacts


def test_it_is_made_if_it_is_not_there_and_found_if_it_is(tmp_path: Path) -> None:
    location = Location.of(tmp_path / "model")
    origin = artifacts.origin(artifacts.dataset(), {"step": 7, "classes": [], "dataset_digest": "d" * 64})
    made: list[models.Description] = []

    def make() -> None:
        made.append(artifacts.write_model(tmp_path / "model", origin, {"saved_model.pb": b"graph"}))

    identity = artifacts.write_model(tmp_path / "alike", origin, {"saved_model.pb": b"graph"}).identity
    first, was_there = made_once(location, models.Description, identity, make)
    assert (first, was_there) == (made[0], False)
    assert made_once(location, models.Description, identity, make) == (first, True)
    with pytest.raises(ConfigError, match="checkpoint_digest"):
        made_once(location, models.Description, {"checkpoint_digest": "e" * 64}, make)
    assert len(made) == 1
