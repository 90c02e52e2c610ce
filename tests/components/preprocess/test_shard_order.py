"""Whole shards of files whose order is known, against the rule brute force, and against rows that are gathered."""

import functools
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from components import records
from components.preprocess import batches, examples, former, pixels, rows, shard_order, shards
from components.preprocess.decoder import IMAGES_AT_ONCE
from components.preprocess.examples import Labelled, Rejected
from components.preprocess.plan import Plan
from components.preprocess.rows import Gathering, Key, Rows
from components.preprocess.shards import ShardFacts
from components.preprocess.survey import ImagesPart
from components.records import ImageShape
from components.sources import SourceFile
from tests.faults.broken_decoder import broken_decoder, png

SHAPE = ImageShape(8, 8, 3)
CLASSES = 3


def plan(**changes: object) -> Plan:
    decided = {
        "stored": None,
        "image": SHAPE,
        "resize": "fill",
        "made_splits": {"test": 0.2, "validation": 0.1},
        "shard_counts": {"train": 3, "validation": 1, "test": 2},
        "seed": 5,
        "recipe": former.recipe(SHAPE, "fill"),
    }
    return Plan(**(decided | changes))  # type: ignore[arg-type]


@functools.cache
def picture(number: int) -> bytes:
    """An image file that is always the same for a number; every seventh is none."""
    if number % 7 == 6:
        return b"no image %d" % number
    generator = np.random.default_rng(number)
    content = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (*generator.integers(6, 14, 2), 3), np.uint8)).save(content, "PNG")
    return content.getvalue()


def written(folder: Path, given: list[tuple[int, int]]) -> list[Labelled]:
    """Files of pictures, each by its number and label, with their sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for index, (number, label) in enumerate(given):
        path = folder / f"{index}.png"
        path.write_bytes(picture(number))
        sha256 = hashlib.sha256(picture(number)).hexdigest()
        found.append((SourceFile(path.name, str(path), len(picture(number)), checksum=sha256), "train", label))
    return found


def parts_of(files: list[Labelled]) -> list[ImagesPart]:
    return [ImagesPart(tuple(files[start : start + 4])) for start in range(0, len(files), 4)]


PICTURES = st.lists(st.tuples(st.integers(0, 25), st.integers(records.NO_LABEL, CLASSES - 1)), max_size=40)


def by_rule(files: list[Labelled]) -> dict[Key, list[tuple[bytes, int]]]:
    """sha256 and label of the files of each shard, in order, by the rule as docs tell it."""
    expected: dict[Key, list[tuple[bytes, int]]] = {}
    for file, _, label in files:
        sha256 = bytes.fromhex(file.sha256)
        position = int.from_bytes(sha256[:8], "big") / 2**64
        split = "test" if position < 0.2 else "validation" if position < 0.3 else "train"
        shard = int.from_bytes(sha256[8:16], "big") % plan().shard_counts[split]
        expected.setdefault((split, shard), []).append((sha256, label))
    for members in expected.values():
        members.sort(key=lambda member: (hashlib.sha256(b"5:" + member[0]).digest(), member[1]))
    return expected


@pytest.mark.usefixtures("short_lists")
def test_files_come_in_the_order_of_their_shards_whatever_their_number(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    files = written(tmp_path, [(int(number), int(number) % CLASSES) for number in generator.integers(0, 300, 500)])
    found: dict[Key, list[tuple[bytes, int]]] = {}
    for shard, parts in shard_order.in_shards(parts_of(files), plan()):
        assert shard not in found
        sizes = []
        for part in parts:
            found.setdefault(shard, []).extend((bytes.fromhex(file.sha256), label) for file, _, label in part.images)
            sizes.append(len(part.images))
        assert sizes == [IMAGES_AT_ONCE] * (len(sizes) - 1) + [sizes[-1]]
    assert found == by_rule(files)
    assert [split for split, _ in found] == sorted((split for split, _ in found), key=records.SPLITS.index)


def class_count(files: list[Labelled]) -> int:
    return CLASSES if any(label != records.NO_LABEL for _, _, label in files) else 0


def gathered(files: list[Labelled], decided: Plan, folder: Path) -> tuple[list[ShardFacts], list[Rejected]]:
    """The shards made of all rows, gathered and sorted, as for files of which no sha256 is known."""
    folder.mkdir()
    made: list[Rows] = []
    rejected = []
    for part in parts_of(files):
        for begun in batches.begun_of(part, decided):
            for each in begun.found():
                if isinstance(each, Rows):
                    made.append(each)
                elif isinstance(each, Rejected):
                    rejected.append(each)
    facts = []
    for (split, number), pieces in sorted(rows.by_shard(made).items()):
        found = Gathering().gathered([rows.as_bytes(pieces)], rows.row_type(SHAPE))
        blocks = rows.blocks_in_order(found, len(found))
        facts.append(
            shards.write_shard(
                split, f"{split}-{number}", blocks, str(folder), class_count(files), SHAPE, decided.recipe
            )
        )
    return facts, sorted(rejected)


def whole(files: list[Labelled], decided: Plan, folder: Path, decoders: int) -> tuple[list[ShardFacts], list[Rejected]]:
    """The shards made one by one of files in their order."""
    folder.mkdir()
    facts, rejected = [], []

    def blocks(parts: Iterator[ImagesPart]) -> Iterator[np.ndarray]:
        for found in batches.in_order(parts, decided, decoders):
            rejected.extend([each for each in found if isinstance(each, Rejected)])
            yield from (each.rows for each in found if isinstance(each, Rows))

    for (split, number), parts in shard_order.in_shards(parts_of(files), decided):
        made = [*blocks(parts)]
        if made:
            facts.append(
                shards.write_shard(
                    split, f"{split}-{number}", made, str(folder), class_count(files), SHAPE, decided.recipe
                )
            )
    return sorted(facts, key=lambda fact: fact.shard.file), sorted(rejected)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("signed-")}


def test_parts_of_large_images_are_small(tmp_path: Path) -> None:
    """What was decoded waits in memory for what comes before it."""
    files = written(tmp_path, [(0, label % CLASSES) for label in range(100)])
    for side, expected in ((8, IMAGES_AT_ONCE), (250, 5), (1024, 1)):
        decided = plan(image=ImageShape(side, side, 3))
        sizes = [len(part.images) for _, parts in shard_order.in_shards(parts_of(files), decided) for part in parts]
        assert max(sizes) == expected


@settings(max_examples=25)
@given(PICTURES, st.integers(1, 4))
def test_whole_shards_are_those_of_rows_that_are_gathered(
    tmp_path_factory: pytest.TempPathFactory, pictures: list[tuple[int, int]], decoders: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    labelled = any(label != records.NO_LABEL for _, label in pictures)
    pictures = [(number, max(label, 0) if labelled else label) for number, label in pictures]
    files = written(folder / "source", pictures)
    decided = plan()
    expected = gathered(files, decided, folder / "gathered")
    assert whole(files, decided, folder / "whole", decoders) == expected
    assert content(folder / "whole") == content(folder / "gathered")
    for made in (folder / "gathered").glob("signed-*"):
        with np.load(made) as one, np.load(folder / "whole" / made.name) as other:
            assert all((one[name] == other[name]).all() for name in ("signatures", "digests", "offsets"))


def test_what_takes_long_holds_up_the_order_and_no_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part waits until as many others are decoded as may wait for it."""
    decided = plan(made_splits={}, shard_counts=dict.fromkeys(records.SPLITS, 1))
    contents = [png(0, "wait"), *(png(number) for number in range(1, 21))]
    parts = []
    for number, each in enumerate(contents):
        path = tmp_path / f"{number}.png"
        path.write_bytes(each)
        sha256 = hashlib.sha256(each).hexdigest()
        parts.append(ImagesPart(((SourceFile(path.name, str(path), len(each), checksum=sha256), "train", number),)))
    done: list[int] = []

    def noted(begun: examples.Begun) -> Iterator[examples.Found]:
        found = [*ending(begun)]
        done.extend(int(each.rows["label"][0]) for each in found if isinstance(each, Rows))
        if len(done) == batches._WAITING * 2:
            (tmp_path / "once").touch()
        return iter(found)

    ending = examples.Begun.found
    monkeypatch.setattr(examples.Begun, "found", noted)
    told = []
    with broken_decoder(tmp_path):
        for found in batches.in_order(parts, decided, decoders=2):
            (made,) = found
            assert isinstance(made, Rows)
            told.append(int(made.rows["label"][0]))
            expected = pixels.from_file(contents[told[-1]], SHAPE, "fill")
            assert made.rows["image"][0].tobytes() == expected
    assert told == [*range(len(contents))]
    assert done.index(0) == batches._WAITING * 2
