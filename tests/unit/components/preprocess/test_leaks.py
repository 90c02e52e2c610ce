"""Leaks between splits, against a comparison of all pairs of pixels in NumPy."""

import dataclasses
import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.storage import tfrecord
from components.preprocess import leaks
from components.preprocess.leaks import Held, Leak, Signed

GREY, COLOUR = ImageShape(28, 28, 1), ImageShape(20, 16, 3)
LABELS = (3, 200, datasets.NO_LABEL, 70_000)  # of different lengths in a record


def write_shard(folder: Path, split: str, number: int, images: np.ndarray) -> Signed:
    """Writes images into a shard, and signs them."""
    name, offsets, content = f"{split}-{number:05d}", [], b""
    for index, image in enumerate(images):
        label = LABELS[index % len(LABELS)]
        (record,) = tfrecord.frame([tfrecord.encode_example(image.tobytes(), label)])
        offsets.append(len(content) + tfrecord.size_and_offset(image.nbytes, label)[1])
        content += record
    (folder / name).write_bytes(content)
    hashes = [hashlib.sha256(image.tobytes()).digest() for image in images]
    return Signed(split, name, leaks.signatures(images), leaks.digests(hashes), np.array(offsets))


def pictures(random: np.random.Generator, count: int, image: ImageShape) -> np.ndarray:
    """Images of which every tenth is dull, as smooth as pictures are."""
    coarse = random.integers(20, 236, (count, 7, 7, image.channels), dtype=np.uint8)
    coarse[::10] = coarse[::10] // 16 + 90
    enlarged = [
        np.asarray(Image.fromarray(each.squeeze()).resize((image.width, image.height), Image.Resampling.BICUBIC))
        for each in coarse
    ]
    return np.stack(enlarged).reshape(count, image.height, image.width, image.channels)


def saved_again(image: np.ndarray, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)).reshape(image.shape)


def lighter(image: np.ndarray, levels: int = 2) -> np.ndarray:
    return np.minimum(image, 255 - levels) + np.uint8(levels)


def moved(image: np.ndarray) -> np.ndarray:
    return np.roll(image, 1, axis=1)


def noisy(image: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(scale=4.5, size=image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


ALTERED: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.copy,
    lighter,
    moved,
    noisy,
    np.fliplr,
    lambda image: saved_again(image, 95),
    lambda image: saved_again(image, 50),
)


def all_pairs(held: list[np.ndarray], train: list[np.ndarray]) -> set[tuple[bool, int, int, int, int]]:
    """Whether exact, shard and record of a held-out image, shard and record of a training image: every pair there is,
    by the definition at the head of the module.
    """
    found = set()
    for held_shard, ours in enumerate(held):
        for record, image in enumerate(ours.astype(float)):
            for train_shard, theirs in enumerate(train):
                apart = (theirs - image).std(axis=(1, 2, 3))
                flattest = np.minimum(image.std(), theirs.std(axis=(1, 2, 3)))
                exact = (theirs == image).all(axis=(1, 2, 3))
                for row in np.flatnonzero(exact | ((apart <= 5) & (apart < 0.1 * flattest))):
                    found.add((bool(exact[row]), held_shard, record, train_shard, int(row)))
    return found


def found_in(held: Held, train: list[Signed], folder: Path, image: ImageShape) -> list[Leak]:
    return [
        leak for shard in train for leak in leaks.verified(held, shard, leaks.candidates(held, shard), folder, image)
    ]


def first_of_all_pairs(pairs: set[tuple[bool, int, int, int, int]], shards: list[Signed]) -> list[Leak]:
    first: dict[tuple[int, int], tuple[bool, int, int, int, int]] = {}
    for pair in sorted(pairs, key=lambda pair: (not pair[0], *pair[1:])):
        first.setdefault(pair[1:3], pair)
    return [
        Leak(exact, shards[shard].split, shards[shard].shard, record, f"train-{train_shard:05d}", row)
        for exact, shard, record, train_shard, row in first.values()
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("image", [GREY, COLOUR], ids=str)
def test_what_is_found_is_what_a_comparison_of_all_pairs_finds(tmp_path: Path, image: ImageShape, seed: int) -> None:
    random = np.random.default_rng(seed)
    held = [pictures(random, count, image) for count in (40, 30, 25)]
    train = [pictures(random, count, image) for count in (90, 60)]
    for shard in train:
        rows = random.permutation(len(shard))[:50]
        for row, change in zip(rows, ALTERED * 8, strict=False):
            source = held[random.integers(len(held))]
            shard[row] = change(source[random.integers(len(source))])
    held[1][0] = held[2][0] = held[0][0]  # two splits have it
    names = [("test", 0), ("test", 1), ("validation", 0)]
    signed = [write_shard(tmp_path, *name, images) for name, images in zip(names, held, strict=True)]
    training = [write_shard(tmp_path, "train", number, images) for number, images in enumerate(train)]

    found = found_in(leaks.hold(signed), training, tmp_path, image)
    expected = first_of_all_pairs(all_pairs(held, train), signed)
    assert {leak.exact for leak in expected} == {True, False}
    assert leaks.first_of_each(found) == expected

    other_order = found_in(leaks.hold(reversed(signed)), training[::-1], tmp_path, image)
    assert leaks.describe(other_order, {"test": 9, "validation": 9}) == leaks.describe(
        found, {"validation": 9, "test": 9}
    )
    assert leaks.first_of_each(leaks.first_of_each(found[:5]) + leaks.first_of_each(found[5:])) == expected


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (np.copy, True),
        (lighter, True),
        (lambda image: lighter(image, 19), True),
        (lambda image: saved_again(image, 95), True),
        (noisy, True),
        (moved, False),
        (np.fliplr, False),
        (lambda image: (image * 0.8).astype(np.uint8), False),
    ],
    ids=["copy", "two levels lighter", "19 levels lighter", "JPEG", "noise", "moved", "mirrored", "less contrast"],
)
def test_what_is_near(tmp_path: Path, change: Callable[[np.ndarray], np.ndarray], near: bool) -> None:
    images = pictures(np.random.default_rng(0), 20, GREY)
    images = images[images.std(axis=(1, 2, 3)) > 45]
    held = leaks.hold([write_shard(tmp_path, "test", 0, images)])
    train = write_shard(tmp_path, "train", 0, np.stack([change(image) for image in images]))
    found = found_in(held, [train], tmp_path, GREY)
    assert [(leak.record, leak.train_record) for leak in found] == [(n, n) for n in range(len(images)) if near]


@pytest.mark.parametrize("frequency", [(0, 1), (1, 0), (2, 0), (1, 1), (0, 2), (1, 4), (7, 7)])
@pytest.mark.parametrize(("levels", "near"), [(4.8, True), (-4.8, True), (5.1, False)])
def test_a_difference_in_one_frequency_is_near_up_to_five_levels(
    tmp_path: Path, frequency: tuple[int, int], levels: float, near: bool
) -> None:
    random = np.random.default_rng(0)
    images = random.integers(10, 246, (100, 28, 28, 1), dtype=np.uint8)
    coefficients = np.zeros((28, 28, 1))
    coefficients[frequency] = 28 * levels
    wave = np.round(scipy.fft.idctn(coefficients, axes=(0, 1), norm="ortho"))
    assert (wave.std() <= 5) == near
    held = leaks.hold([write_shard(tmp_path, "test", 0, images)])
    train = write_shard(tmp_path, "train", 0, (images + wave).astype(np.uint8))
    found = found_in(held, [train], tmp_path, GREY)
    assert [leak.record for leak in found] == [record for record in range(100) if near]


def test_blank_images_are_leaks_only_where_they_are_the_same(tmp_path: Path) -> None:
    held_out = np.stack([np.full((28, 28, 1), level, np.uint8) for level in (0, 0, 100, 101, 255)])
    training = np.stack([np.full((28, 28, 1), level, np.uint8) for level in (1, 0, 0, 101, 99)])
    held = leaks.hold([write_shard(tmp_path, "test", 0, held_out)])
    found = found_in(held, [write_shard(tmp_path, "train", 0, training)], tmp_path, GREY)
    assert [(leak.exact, leak.record, leak.train_record) for leak in found] == [
        (True, 0, 1),
        (True, 1, 1),
        (True, 3, 3),
    ]


def test_a_crowd_of_alike_images_takes_bounded_work_and_hides_no_exact_copy(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    alike = pictures(random, 2, GREY)[1] + random.integers(0, 5, (300, 28, 28, 1), dtype=np.uint8)
    training = np.concatenate([pictures(random, 30, GREY), alike[[299, 7]]])
    held = leaks.hold([write_shard(tmp_path, "test", 0, alike)])
    train = write_shard(tmp_path, "train", 0, training)
    pairs = leaks.candidates(held, train)
    assert {(299, 30), (7, 31)} <= set(map(tuple, pairs.tolist()))
    assert np.bincount(pairs[:, 1], minlength=32).max() <= 32 + 1  # and the one of the same digest
    found = leaks.verified(held, train, pairs, tmp_path, GREY)
    assert [leak.record for leak in found if leak.exact] == [7, 299]
    assert leaks.describe(found, {"test": 9})["exact"] == 2


@given(
    st.integers(0, 200), st.integers(0, 40), st.sampled_from([0, 1, 16, 300, 700, 1000, 1020]), st.integers(0, 2**32)
)
def test_pairs_within_a_distance_are_those_of_whole_numbers(count: int, others: int, apart: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    some, other = (random.choice([-128, -127, -1, 0, 126, 127], (n, 16)) for n in (count, others))
    squares = np.square(some[:, None] - other[None]).sum(axis=2)
    finer = [(each * 128 + random.integers(0, 128, each.shape)).astype(np.int16) for each in (some, other)]
    found = leaks._within(finer[0], leaks._as_columns(finer[1]), apart)
    np.testing.assert_array_equal(np.stack(found), np.stack(np.nonzero(squares <= apart**2)))


@pytest.mark.parametrize("name", ["_ROWS_AT_ONCE", "_ROWS_IN_CACHE", "_BYTES_AT_ONCE", "_STEP"])
def test_how_many_are_taken_at_once_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    random = np.random.default_rng(0)
    images = pictures(random, 200, GREY)
    held_out = np.concatenate([images[:50], lighter(images[:50])])
    at_once = write_shard(tmp_path, "train", 0, images)
    held = leaks.hold([write_shard(tmp_path, "test", 0, held_out)])
    expected = leaks.candidates(held, at_once)
    monkeypatch.setattr(leaks, name, 7)
    by_and_by = dataclasses.replace(at_once, signatures=leaks.signatures(images))
    np.testing.assert_array_equal(by_and_by.signatures, at_once.signatures)
    np.testing.assert_array_equal(leaks.candidates(held, by_and_by), expected)
    found = leaks.verified(held, by_and_by, expected, tmp_path, GREY)
    assert [(leak.exact, leak.record) for leak in found] == [(n < 50, n) for n in range(100)]


def test_nothing_to_compare(tmp_path: Path) -> None:
    images = pictures(np.random.default_rng(0), 10, GREY)
    some = write_shard(tmp_path, "train", 0, images)
    none = write_shard(tmp_path, "validation", 0, images[:0])
    assert len(leaks.candidates(leaks.hold([]), some)) == 0
    assert len(leaks.candidates(leaks.hold([none]), some)) == 0
    assert len(leaks.candidates(leaks.hold([some]), none)) == 0
    assert leaks.verified(leaks.hold([none]), some, np.zeros((0, 2), np.int64), tmp_path, GREY) == []
    assert leaks.describe([], {}) == {"exact": 0, "near": 0, "compared": [], "near_of": 0, "first": []}
    beside = leaks.hold([none, write_shard(tmp_path, "test", 0, images)])
    assert [leak.split for leak in found_in(beside, [some], tmp_path, GREY)] == ["test"] * 10


def test_a_description_shows_the_first_ten_exact_ones_first() -> None:
    near = [Leak(False, "test", "test-00000", record, "train-00000", 0) for record in range(8)]
    exact = [Leak(True, "validation", "validation-00000", record, "train-00001", 5) for record in range(4)]
    found = leaks.describe(
        [*near, *exact, exact[0]._replace(train_shard="train-00000")], {"validation": 5, "test": 20_000}
    )
    assert (found["exact"], found["near"], found["compared"]) == (4, 8, ["test", "validation"])
    expected = [
        ("validation", 0),
        ("validation", 1),
        ("validation", 2),
        ("validation", 3),
        *(("test", n) for n in range(6)),
    ]
    assert sorted((each["split"], each["record"]) for each in found["first"]) == sorted(expected)
    assert [each["split"] for each in found["first"]] == ["validation"] * 4 + ["test"] * 6
    assert found["first"][0] == {
        "split": "validation",
        "shard": "validation-00000",
        "record": 0,
        "train_shard": "train-00000",
        "train_record": 5,
    }


@pytest.mark.parametrize("shape", [(28, 28, 1), (20, 16, 3), (1, 1, 1), (2, 9, 3), (64, 48, 1)], ids=str)
def test_signatures_are_the_frequencies_of_scipy_and_differ_by_no_more_than_images(shape: tuple[int, int, int]) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (30, *shape), dtype=np.uint8)
    images[0], images[1] = 0, 255
    images[2] = images[3] = np.where(np.arange(shape[1]) < shape[1] / 2, 0, 255)[:, None]
    images[3] = 255 - images[3]
    expected = scipy.fft.dctn(images.mean(axis=3), axes=(1, 2), norm="ortho") / np.sqrt(shape[0] * shape[1])
    order = [(0, 2), (2, 0), (1, 0), (0, 1), (0, 4), (4, 0), (3, 0), (0, 3)]
    order += [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (1, 3), (0, 5), (1, 4)]
    found = leaks.signatures(images)
    assert (found.shape, found.dtype) == ((30, 16), np.int16)
    for column, (vertical, horizontal) in zip(found.astype(int).T, order, strict=True):
        if vertical < shape[0] and horizontal < shape[1]:
            # Rounded down; where a frequency is a whole number but for rounding, it may be the one below.
            np.testing.assert_allclose((column + 0.5) / 128, expected[:, vertical, horizontal], atol=0.5 / 128 + 1e-6)
        else:
            assert set(column) == {0}
    for one, other in zip(images.astype(float), images[random.permutation(30)].astype(float), strict=True):
        apart = np.abs(np.subtract(*leaks.signatures(np.stack([one, other]).astype(np.uint8)).astype(int)))
        assert np.sqrt(np.square(np.maximum(apart - 1, 0)).sum()) / 128 <= (one - other).std() + 1e-9


def test_images_are_read_where_they_are_told_to_be(tmp_path: Path) -> None:
    images = pictures(np.random.default_rng(0), 12, COLOUR)
    shard = write_shard(tmp_path, "test", 0, images)
    chosen = np.array([1, 2, 5, 11, 3])
    np.testing.assert_array_equal(
        leaks.read_images(tmp_path / shard.shard, shard.offsets[chosen], COLOUR), images[chosen]
    )
    content = (tmp_path / shard.shard).read_bytes()
    (tmp_path / shard.shard).write_bytes(content[:-60])
    with pytest.raises(DataError, match="test-00000 is cut short; make the dataset again"):
        leaks.read_images(tmp_path / shard.shard, shard.offsets, COLOUR)
    (tmp_path / shard.shard).unlink()
    with pytest.raises(DataError, match="test-00000 is missing; make the dataset again"):
        leaks.read_images(tmp_path / shard.shard, shard.offsets, COLOUR)
