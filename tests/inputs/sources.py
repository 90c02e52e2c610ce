"""Real sources to preprocess."""

import functools
import gzip
import io
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.core.artifacts.datasets import ImageShape
from components.core.data import tfrecord
from components.core.sources import source_listing
from components.core.sources.files import SourceFile
from components.core.storage.json_values import typed
from components.preprocess import rows
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.formats.labels import BY_NAME, LabelChoice
from components.preprocess.formats.survey import Part, Survey, read, survey
from components.preprocess.placement import Plan
from components.preprocess.rows import Outcome


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def stored(path: Path, content: bytes) -> SourceFile:
    path.write_bytes(content)
    return SourceFile(path.name, str(path), len(content))


def framed(*records: bytes) -> bytes:
    """Return a TFRecord file of any records."""
    crcs = [tfrecord._CRC.pack(tfrecord._masked_crc(record)) for record in records]
    return b"".join(tfrecord._head(len(record)) + record + crc for record, crc in zip(records, crcs, strict=True))


def framed_example(image: bytes, label: int) -> bytes:
    """Return a TFRecord file of one image, in any format."""
    return tfrecord.framed_examples(np.frombuffer(image, np.uint8)[None], np.array([label])).tobytes()


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read_source(
    source: Path | str, content: bytes | None = None, choice: LabelChoice = BY_NAME
) -> tuple[Survey, list[tuple[str, str, int, bytes]]]:
    """Survey a source, a file of this content if any; return its images in order too, read as workers read them."""
    if content is not None:
        Path(source).write_bytes(content)
    source_survey = survey(str(source), source_listing.contents(str(source), label_file=choice.file).listing, choice)
    as_json = json.dumps([{type(part).__name__: part} for part in source_survey.parts], default=vars)
    parts = typed(list[Part], json.loads(as_json), "", signed=True)
    return source_survey, [image[:4] for part in parts for image in read(part)]


def make_rows(parts: Iterable[Part], decided: Plan, folder: Path, decoders: int = 1) -> Outcome:
    """Make the rows of parts in the folder, as a worker does."""
    files = AttemptFiles(str(folder))
    files.leave("parts.json", [{type(part).__name__: part} for part in parts])
    file_parts = rows.make(files, "parts.json", decided, decoders)
    outcome: Outcome = files.read_note("parts.index", Outcome)
    assert outcome.file_parts == file_parts
    return outcome


def plan(**changes: object) -> Plan:
    """Return a plan for images of 2x2, one shard for each split, with some changes."""
    decided = {
        "stored": ImageShape(2, 2, 1),
        "image": ImageShape(2, 2, 1),
        "resize": "fill",
        "colors": ("white", 0),
        "made_splits": {},
        "shard_counts": {"train": 1, "validation": 1, "test": 1},
        "class_count": 3,
        "seed": 0,
    }
    return Plan(**(decided | changes))  # type: ignore[arg-type]


class Unpickled:
    """Ends the test if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


@functools.cache
def picture(number: int) -> bytes:
    """Return a PNG or JPEG file by number, or 10,000 above, its pixels in other bytes; no seventh can be decoded."""
    if number >= 10_000:
        again = io.BytesIO()
        Image.open(io.BytesIO(picture(number - 10_000))).save(again, "PNG", compress_level=1)
        return again.getvalue()
    if number % 7 == 6:
        return b"no image %d" % number
    generator = np.random.default_rng(number)
    content = io.BytesIO()
    image = Image.fromarray(generator.integers(0, 256, (*generator.integers(6, 14, 2), 3), np.uint8))
    image.save(content, "PNG" if number % 2 else "JPEG")
    return content.getvalue()


def write_images(folder: Path, count: int, classes: tuple[str, ...] = ("cats", "dogs"), seed: int = 0) -> None:
    """Write PNG and JPEG images of noise, of sizes between 10 and 40; in one folder without classes."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        class_folder = folder / classes[number % len(classes)] if classes else folder
        class_folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(generator.integers(0, 256, (*generator.integers(10, 40, 2), 3), np.uint8))
        image.save(class_folder / (f"{seed}-{number}.png" if number % 3 else f"{seed}-{number}.JPG"))


@pytest.fixture(scope="session")
def numbers() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (400, 6, 5), np.uint8), generator.choice([2, 3, 7], 400).astype(np.uint8)


@pytest.fixture
def idx_folder(tmp_path: Path, numbers: tuple[np.ndarray, np.ndarray]) -> Path:
    images, labels = numbers
    folder = tmp_path / "idx"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images[:300])))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[:300])))
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(images[300:]))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(labels[300:]))
    return folder
