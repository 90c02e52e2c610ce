"""Collections and what people report are read right, or refused with the next step; in a bucket as in a folder."""

import io
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.core.errors import DataError
from components.core.storage import buckets
from components.preprocess.formats.survey import Survey
from tests.fakes.gcs.server import Server
from tests.inputs.collections import COLLECTIONS, level
from tests.inputs.sources import read_source, write_files


def gray(content: bytes, survey_of: Survey) -> np.ndarray:
    """Return the gray values of an image, uint8 [height, width]."""
    stored = survey_of.stored
    if stored is None:
        return np.asarray(Image.open(io.BytesIO(content)).convert("L"))
    return np.frombuffer(content, np.uint8).reshape(stored.height, stored.width, stored.channels)[..., 0]


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection(tmp_path: Path, gcs: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    collection = COLLECTIONS[name]
    files = collection.files()
    source = write_files(tmp_path / "source", files)
    caplog.set_level(logging.INFO)
    if collection.refused:
        with pytest.raises(DataError, match=re.escape(collection.refused)):
            read_source(source, choice=collection.choice)
        return
    result, images = read_source(source, choice=collection.choice)
    assert result.classes == [*collection.classes]
    train, validation, test = (*collection.counts, 0, 0)[:3]
    expected = {"train": train, "validation": validation, "test": test}
    assert result.counts == {split: count for split, count in expected.items() if count}
    for image_name, _, label, content in images:
        assert label == -1 or abs(np.median(gray(content, result)) - level(label)) < 10, image_name
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert [bool(warnings), any(collection.said in message for message in warnings)] == [bool(collection.said)] * 2
    gcs.create_bucket("photos")
    for path, content in files.items():
        buckets.put(f"gs://photos/{path}", content)
    only_file = "".join(path for path in files if len(files) == 1 and "/" not in path)
    remote, fetched = read_source(f"gs://photos/{only_file}", choice=collection.choice)
    assert sorted(fetched) == sorted(images)
    for part in ("kind", "counts", "classes", "stored"):
        assert getattr(remote, part) == getattr(result, part)
