"""Leaks between splits, against a comparison of all pairs in NumPy."""

import hashlib
import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from components.core.artifacts.datasets import ImageShape
from components.preprocess import leaks
from components.preprocess.leaks import Leak, ReferenceSet
from tests.faults.damage.image_cases import saved

GRAY, COLOR, SMALL = (ImageShape(*sizes) for sizes in ((28, 28, 1), (20, 17, 3), (8, 8, 1)))


def signed(images: np.ndarray) -> np.ndarray:
    hashes = b"".join(hashlib.sha256(image.tobytes()).digest() for image in images)
    return leaks.signatures(np.frombuffer(hashes, "<u8").reshape(-1, 4), [leaks.thumbnails(images)])


def reference_of(*shards: np.ndarray) -> ReferenceSet:
    return leaks.hold({f"test-{number:05d}": signed(images) for number, images in enumerate(shards)})


def leaks_of(reference: ReferenceSet, images: np.ndarray, number: int = 0) -> list[Leak]:
    return leaks.find(reference, f"train-{number:05d}", signed(images))


def fields_of(images: np.ndarray) -> np.ndarray:
    """Means of 16x16 fields in 16ths of a level, rounded down: of pixels repeated 16x16, of which fields share none."""
    count, height, width, channels = images.shape
    gray = images.sum(axis=3, dtype=np.int64).repeat(16, axis=1).repeat(16, axis=2)
    sums = gray.reshape(count, 16, height, 16, width).sum(axis=(2, 4))
    return sums.reshape(count, 256) * 16 // (channels * height * width)


def pictures(random: np.random.Generator, count: int, image: ImageShape) -> np.ndarray:
    """Images of which every tenth is dull, as smooth as pictures are."""
    coarse = random.integers(20, 236, (count, 7, 7, image.channels), dtype=np.uint8)
    coarse[::10] = coarse[::10] // 16 + 90
    enlarged = [
        np.asarray(Image.fromarray(small.squeeze()).resize((image.width, image.height), Image.Resampling.BICUBIC))
        for small in coarse
    ]
    return np.stack(enlarged).reshape(count, image.height, image.width, image.channels)


def saved_again(image: np.ndarray, quality: int) -> np.ndarray:
    file = saved(Image.fromarray(image.squeeze()), "JPEG", quality=quality)
    return np.asarray(Image.open(io.BytesIO(file))).reshape(image.shape)


def lighter(image: np.ndarray, levels: int = 2) -> np.ndarray:
    return np.minimum(image, 255 - levels) + np.uint8(levels)


def noisy(image: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(scale=4.5, size=image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


ALTERED: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.copy,
    lighter,
    lambda image: np.roll(image, 1, axis=1),
    noisy,
    np.fliplr,
    lambda image: saved_again(image, 95),
    lambda image: saved_again(image, 50),
)


def all_pairs(held_out: dict[str, np.ndarray], train: list[np.ndarray]) -> list[Leak]:
    """Return the first leak of each held-out image, from all pairs, by the definition in the module's docstring."""
    expected = []
    training = [(f"train-{number:05d}", images, fields_of(images)) for number, images in enumerate(train)]
    for ours, our_images in held_out.items():
        for record, (image, fields) in enumerate(zip(our_images, fields_of(our_images), strict=True)):
            candidates = []
            for theirs, their_images, others in training:
                apart, flattest = (others - fields).std(axis=1), np.minimum(others.std(axis=1), fields.std())
                exact = (their_images == image).all(axis=(1, 2, 3))
                near = (apart <= 5 * 16) & (apart < 0.1 * flattest)
                candidates += [
                    Leak(not exact[row], ours.partition("-")[0], ours, record, theirs, int(row))
                    for row in np.flatnonzero(exact | near)
                ]
            expected += sorted(candidates)[:1]
    return sorted(expected)


@pytest.mark.parametrize(("image", "seed"), [(GRAY, 0), (COLOR, 2), (SMALL, 3)], ids=str)
def test_what_is_found_is_what_a_comparison_of_all_pairs_finds(image: ImageShape, seed: int) -> None:
    random = np.random.default_rng(seed)
    held_out_images = [pictures(random, count, image) for count in (40, 30, 25)]
    images = [pictures(random, count, image) for count in (90, 300)]
    for shard in images:
        rows = random.permutation(len(shard))[:50]
        for row, change in zip(rows, ALTERED * 8, strict=False):
            source = held_out_images[random.integers(len(held_out_images))]
            shard[row] = change(source[random.integers(len(source))])
    held_out_images[1][0] = held_out_images[2][0] = held_out_images[0][0]  # two splits have it
    held_out = dict(zip(("test-00000", "test-00001", "validation-00000"), held_out_images, strict=True))
    reference = leaks.hold({name: signed(shard) for name, shard in held_out.items()})

    detected = [leak for number, shard in enumerate(images) for leak in leaks_of(reference, shard, number)]
    expected = all_pairs(held_out, images)
    assert {leak.near for leak in expected} == {True, False}
    assert leaks.first_of_each(detected) == leaks.first_of_each(detected[::-1]) == expected
    assert leaks.first_of_each(leaks.first_of_each(detected[:5]) + leaks.first_of_each(detected[5:])) == expected


def pattern(block: int) -> np.ndarray:
    """A chessboard of 1 and -1, or the left half and the right one: int [16, 16, 1]."""
    rows, columns = np.indices((16, 16)) // block
    return np.where((columns if block == 8 else rows + columns) % 2, 1, -1)[..., None]


@pytest.mark.parametrize("block", [1, 4, 8])
def test_a_difference_is_near_up_to_five_levels_and_below_a_tenth(block: int) -> None:
    """Fields are pixels here. Blocks of 4 and 8 pass the filter with nothing to spare."""
    random = np.random.default_rng(0)
    images = random.integers(10, 246, (100, 16, 16, 1), dtype=np.uint8)
    one_more = (images + 5 * pattern(block)).astype(np.uint8)
    one_more[:, 0, 0] += np.where(pattern(block)[0, 0] > 0, 1, -1).astype(np.uint8)
    flat = (128 + 30 * pattern(2)).astype(np.uint8)[None]
    reference = reference_of(np.concatenate([images, flat, flat]))
    for near, other in ((True, images + 5 * pattern(block)), (False, one_more)):
        detected = leaks_of(reference, other.astype(np.uint8))
        assert [leak.record for leak in detected] == [record for record in range(100) if near]
    # Of a standard deviation of 30, or a little less or more.
    for near, levels in ((True, 2), (False, 3), (False, 4)):
        detected = leaks_of(reference, (flat + levels * pattern(block)).astype(np.uint8))
        assert [leak.record for leak in detected] == ([100, 101] if near else [])


def test_blank_images_are_leaks_only_where_they_are_the_same() -> None:
    held_out = np.stack([np.full((28, 28, 1), level, np.uint8) for level in (0, 0, 100, 101, 255)])
    training = np.stack([np.full((28, 28, 1), level, np.uint8) for level in (1, 0, 0, 101, 99)])
    detected = leaks_of(reference_of(held_out), training)
    assert [(leak.near, leak.record, leak.train_record) for leak in detected] == [
        (False, 0, 1),
        (False, 1, 1),
        (False, 3, 3),
    ]


def test_a_crowd_of_alike_images_takes_bounded_work_and_hides_no_exact_copy() -> None:
    random = np.random.default_rng(0)
    alike = pictures(random, 2, GRAY)[1] + random.integers(0, 5, (300, 28, 28, 1), dtype=np.uint8)
    training = np.concatenate([pictures(random, 30, GRAY), alike[[299, 7]]])
    reference = reference_of(alike)
    numbers, rows = leaks._near(reference, leaks.thumbnails(training), 0)
    assert np.bincount(rows, minlength=32).tolist() == [0] * 30 + [32, 32]
    assert {(299, 30), (7, 31)} <= set(zip(numbers.tolist(), rows.tolist(), strict=True))
    detected = leaks_of(reference, training)
    assert [leak.record for leak in detected if not leak.near] == [7, 299]
    assert 32 <= len(detected) <= 64


def test_near_copies_are_looked_for_of_some_and_exact_ones_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "MOST_HELD", 30)
    images = pictures(np.random.default_rng(0), 100, GRAY)
    reference = reference_of(images[::2], images[1::2])
    hashes = [hashlib.sha256(image.tobytes()).digest() for image in images]
    chosen = {(f"test-{n % 2:05d}", n // 2) for n in sorted(range(100), key=lambda n: hashes[n])[:30]}
    detected = leaks_of(reference, np.stack([lighter(image) for image in images]))
    assert {(leak.shard, leak.record) for leak in detected} == chosen
    assert len(leaks_of(reference, images)) == 100


def test_nothing_to_compare() -> None:
    images = pictures(np.random.default_rng(0), 10, GRAY)
    for reference, training in (
        (reference_of(), images),
        (reference_of(images[:0]), images),
        (reference_of(images), images[:0]),
    ):
        assert leaks_of(reference, training) == []
    assert leaks.describe([], 0) == {"exact": 0, "near": 0, "compared": ["test"], "near_of": 0, "first": []}


def test_a_description_shows_the_first_ten_exact_ones_first() -> None:
    near = [Leak(True, "test", "test-00000", record, "train-00000", 0) for record in range(8)]
    exact = [Leak(False, "test", "test-00001", record, "train-00001", 5) for record in range(4)]
    description = leaks.describe([*near, *exact, exact[0]._replace(train_shard="train-00000")], 20_000)
    assert (description["exact"], description["near"], description["near_of"]) == (4, 8, 5_000)
    expected = [("test-00001", record) for record in range(4)] + [("test-00000", record) for record in range(6)]
    assert [(leak["shard"], leak["record"]) for leak in description["first"]] == expected
    first = {"split": "test", "shard": "test-00001", "record": 0, "train_shard": "train-00000", "train_record": 5}
    assert description["first"][0] == first


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from([1, 3]),
    st.integers(0, 2**32),
    st.sampled_from([0, 255, -1]),
)
def test_thumbnails_are_the_means_of_16x16_fields(
    height: int, width: int, channels: int, seed: int, level: int
) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (2, height, width, channels), dtype=np.uint8)
    if level >= 0:
        images[0] = level
    thumbnails = leaks.thumbnails(images)
    assert (thumbnails.shape, thumbnails.dtype) == ((2, 256), np.int16)
    np.testing.assert_array_equal(thumbnails, fields_of(images))


def test_thumbnails_of_large_images_are_as_exact_and_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_BYTES_AT_ONCE", 1)
    images = np.random.default_rng(0).integers(0, 256, (2, 1023, 33, 3), dtype=np.uint8)
    images[:, :, :16] = 255
    np.testing.assert_array_equal(leaks.thumbnails(images), fields_of(images))
