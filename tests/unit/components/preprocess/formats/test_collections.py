"""Collections and what people report are read right, or refused with the next step."""

import io
import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.storage.json_values import typed
from components.preprocess.formats.labels import LabelChoice
from components.preprocess.formats.survey import Original, Part, Survey, read, survey
from tests.inputs.collections import COLLECTIONS, Files, level


def written(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def surveyed(source: Path, settings: tuple[str, str, str]) -> tuple[Survey, list[Original]]:
    origin, column, label_file = settings
    listing = source_listing.contents(str(source), label_file=label_file).listing
    result = survey(str(source), listing, LabelChoice(origin, column, label_file))
    as_json = json.dumps([{type(part).__name__: part} for part in result.parts], default=vars)
    parts = typed(list[Part], json.loads(as_json), "", signed=True)  # as workers receive them
    return result, [original for part in parts for original in read(part)]


def gray(content: bytes, survey_of: Survey) -> np.ndarray:
    """Return the gray values of an image, uint8 [height, width]."""
    stored = survey_of.stored
    if stored is None:
        return np.asarray(Image.open(io.BytesIO(content)).convert("L"))
    return np.frombuffer(content, np.uint8).reshape(stored.height, stored.width, stored.channels)[..., 0]


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    collection = COLLECTIONS[name]
    source = written(tmp_path / "source", collection.files())
    caplog.set_level(logging.INFO)
    if collection.refused:
        with pytest.raises(DataError, match=re.escape(collection.refused)):
            surveyed(source, collection.settings)
        return
    result, images = surveyed(source, collection.settings)
    assert result.classes == [*collection.classes]
    train, validation, test = (*collection.counts, 0, 0)[:3]
    expected = {"train": train, "validation": validation, "test": test}
    assert result.counts == {split: count for split, count in expected.items() if count}
    for image in images:
        values = gray(image.content, result)
        assert image.label == -1 or abs(np.median(values) - level(image.label)) < 10, image.name
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert [bool(warnings), any(collection.said in message for message in warnings)] == [bool(collection.said)] * 2
