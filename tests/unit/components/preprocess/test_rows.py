"""Rows of images, in files by shard, against brute force."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.errors import ConfigError
from components.core.sources.files import SourceFile
from components.preprocess import rows
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.config import PreprocessConfig
from components.preprocess.formats import survey
from components.preprocess.formats.survey import ImagesPart
from components.preprocess.placement import Plan, divide
from components.preprocess.rows import FilePart, Quarantined
from tests.inputs.sources import make_rows, picture, plan

SHAPE = ImageShape(8, 8, 3)
KIND = rows.row_type(SHAPE)
Row = tuple[bytes, int, bytes, bytes]  # order, label, hashes of content and of pixels, image


def files_plan(**changes: object) -> Plan:
    counts = {"train": 3, "validation": 1, "test": 2}
    decided = {"stored": None, "image": SHAPE, "made_splits": {"test": 0.2}, "shard_counts": counts, "seed": 5}
    return plan(**(decided | changes))


def parts_of(folder: Path, pictures: list[tuple[int, int]], has_sha256: bool) -> list[ImagesPart]:
    """Return parts of a few pictures, given by number and label; the source has every third for validation."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for index, (number, label) in enumerate(pictures):
        path = folder / f"{index}.png"
        path.write_bytes(picture(number))
        sha256 = hashlib.sha256(picture(number)).hexdigest() if has_sha256 else ""
        split = "train" if index % 3 else "validation"
        files.append((SourceFile(path.name, str(path), len(picture(number)), checksum=sha256), split, label))
    return [ImagesPart(tuple(files[start : start + 4])) for start in range(0, len(files), 4)]


def by_rule(pictures: list[tuple[int, int]], decided: Plan) -> tuple[dict[str, list[Row]], list[Quarantined]]:
    """Return the rows of each shard in order, and the quarantined images, by the documented rule."""
    expected: dict[str, list[Row]] = {}
    quarantined = []
    for index, (number, label) in enumerate(pictures):
        content = picture(number)
        sha256 = hashlib.sha256(content).digest()
        try:
            image = pixels.from_file(content, SHAPE, "fill").pixels
        except pixels.UndecodableImage as error:
            quarantined.append(Quarantined(f"{index}.png", sha256.hex(), str(error)))
            continue
        of_pixels = hashlib.sha256(image).digest()
        position = int.from_bytes(of_pixels[:8], "big") / 2**64
        split = ("test" if position < 0.2 else "train") if index % 3 else "validation"
        shard = int.from_bytes(of_pixels[8:16], "big") % decided.shard_counts[split]
        row = hashlib.sha256(b"5:" + of_pixels).digest(), label, sha256 + of_pixels, image
        name = f"{split}-{shard:05d}-of-{decided.shard_counts[split]:05d}.tfrecord"
        expected.setdefault(name, []).append(row)
    return {key: sorted(shard_rows) for key, shard_rows in expected.items()}, sorted(quarantined)


def in_order(file_parts: list[tuple[str, FilePart]], folder: Path, kind: np.dtype = KIND) -> dict[str, list[Row]]:
    ordered = {}
    for key in {shard for shard, _ in file_parts}:
        shard_parts = [file_part for shard, file_part in file_parts if shard == key]
        blocks = [*rows.blocks_in_order(shard_parts, AttemptFiles(str(folder)), kind, at_once=3)]
        assert {len(block) for block in blocks[:-1]} <= {3}
        ordered[key] = [*as_tuples(np.concatenate(blocks))]
    return ordered


def as_tuples(array: np.ndarray) -> Iterator[Row]:
    for row in array:
        order = row["order"].astype(">u8").tobytes()
        yield order, int(row["label"]), row["hashes"].tobytes(), row["image"].tobytes()


NUMBERS = st.integers(0, 25) | st.sampled_from([10_001, 10_002, 10_003])
PICTURES = st.lists(st.tuples(NUMBERS, st.integers(datasets.NO_LABEL, 2)), max_size=40)


@settings(max_examples=25)
@given(PICTURES, st.booleans(), st.integers(1, 3), st.sampled_from([1, 3000, 1 << 24]))
def test_every_image_comes_to_its_place_or_is_quarantined(
    tmp_path_factory: pytest.TempPathFactory,
    pictures: list[tuple[int, int]],
    has_sha256: bool,
    decoders: int,
    run_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    parts = parts_of(folder / "source", pictures, has_sha256)
    decided = files_plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_RUN_BYTES", run_bytes)
        outcome = make_rows(parts, decided, folder, decoders)
    expected, quarantined = by_rule(pictures, decided)
    assert in_order(outcome.file_parts, folder) == expected
    assert sorted(outcome.quarantined) == quarantined
    assert outcome.quarantined_count == len(quarantined)


def test_plain_pixels_become_rows_of_any_shape(tmp_path: Path) -> None:
    decided = files_plan(stored=ImageShape(8, 8, 1), image=ImageShape(4, 6, 3))
    outcome = make_rows(survey.survey("digits").parts, decided, tmp_path)
    ordered = in_order(outcome.file_parts, tmp_path, rows.row_type(decided.image))
    expected = [original for part in survey.survey("digits").parts for original in survey.read(part)]
    images = {
        (
            original.label,
            pixels.from_pixels(original.content, ImageShape(8, 8, 1), decided.image, "fill", decided.colors),
        )
        for original in expected
    }
    pairs = [(label, image) for shard_rows in ordered.values() for _, label, _, image in shard_rows]
    assert len(pairs) == len(expected) == 1797
    assert set(pairs) == images


def test_no_more_is_kept_of_what_is_quarantined_than_is_shown(tmp_path: Path) -> None:
    names = [f"{number:07d}.png" for number in range(3 * rows.MOST_QUARANTINED)]
    random.Random(0).shuffle(names)
    writer = rows._Writer(files_plan(), AttemptFiles(str(tmp_path)))
    for name in names:
        writer.quarantine(Quarantined(name, "", ""))
        assert len(writer.outcome.quarantined) <= 2 * (rows.MOST_QUARANTINED + 1)
    assert writer.outcome.quarantined_count == len(names)
    kept = sorted(image.name for image in writer.outcome.quarantined)
    assert kept[: rows.MOST_QUARANTINED + 1] == sorted(names)[: rows.MOST_QUARANTINED + 1]


@pytest.mark.parametrize(
    ("split_counts", "fractions", "counts"),
    [
        ({"train": 1000}, {"test": 0.1, "validation": 0.1}, {"train": 8, "validation": 1, "test": 1}),
        ({"train": 1000, "test": 250}, {"validation": 0.1}, {"train": 9, "validation": 1, "test": 3}),
        ({"train": 60, "validation": 30, "test": 20}, {}, {"train": 1, "validation": 1, "test": 1}),
    ],
)
def test_number_of_shards(split_counts: dict[str, int], fractions: dict[str, float], counts: dict[str, int]) -> None:
    assert divide(split_counts, 0.1, 0.1, 100) == (fractions, counts)


def test_a_validation_share_that_leaves_nothing_beside_the_default_for_tests_is_refused() -> None:
    with pytest.raises(ConfigError, match="must leave images to train on, got 1"):
        PreprocessConfig(source="-", dataset="-", validation_fraction=0.9)


@pytest.mark.parametrize(("images", "share"), [(4999, 0.1), (5000, 0.44), (10_000, 0.22), (22_000, 0.1), (60_000, 0.1)])
def test_from_5000_images_on_enough_are_for_tests_to_certify_a_verdict(images: int, share: float) -> None:
    assert divide({"train": images}, 0, 0.1, 100)[0] == {"test": share, "validation": 0.1}
