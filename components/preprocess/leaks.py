"""Images of the held-out splits that are in `train` as well, or nearly: they make every score on these splits too good.

Exact means the same pixels. Near means that thumbnails, the gray means of 16x16 fields, differ by at most 5 levels of
255 (root mean square, without the mean) and by less than a tenth of the standard deviation of either: so is a copy that
is lighter throughout, differs in color, or was saved again as JPEG, but none that was moved by a pixel or mirrored.

Means of 4x4 fields differ by no more than thumbnails do, so they dismiss most pairs, and none falsely (Faloutsos,
Ranganathan and Manolopoulos, Fast Subsequence Matching in Time-Series Databases, 1994). All sums are of whole numbers,
and so the same on every machine. Near copies are looked for of 5,000 held-out images, those with the smallest digests,
and a training image is compared with the 32 of these whose 4x4 fields are nearest, so the work grows with the number of
images and no faster.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from components.core import concurrent

_SIDE = 16  # fields along a side of a thumbnail
_FIELDS = _SIDE**2
_FINENESS = 16  # parts of a level that thumbnails count in
_MOST_LEVELS = 5  # root mean square: pairs beyond it in Fashion-MNIST show another garment or print
# The difference has at most a tenth of an image's standard deviation; else all dark images would be near.
_LEAST_SHARE = 10
# The difference of 16 means, without its mean, is at most 4 x 5 levels long. They are in half levels, rounded down:
# each differs by less than one more, and all by less than 4.
_FURTHEST = 2 * 4 * _MOST_LEVELS + 4
MOST_HELD = 5_000
_MOST_COMPARED = 32
_ROWS_AT_ONCE = 128  # their products with all held images take 2.5 MB
_BYTES_AT_ONCE = 1 << 20  # of pixels
_SHOWN = 10
COMPARED = ("test", "train")  # splits; a source's validation images are usually taken from train at random

# What stands for an image when images are compared: the first bytes of the sha256 of its pixels, and its thumbnail.
SIGNATURE = np.dtype([("digest", "S16"), ("thumbnail", "<i2", (_FIELDS,))])


class ReferenceSet(NamedTuple):
    """All held-out images, to be compared with one training shard after another."""

    shards: list[str]  # sorted
    first: np.ndarray  # the number of each shard's first image among all: int64 [shards]
    digests: np.ndarray  # of all images: S16 [n]
    numbers: np.ndarray  # of the images whose near copies are searched for, ascending: int64 [m]
    thumbnails: np.ndarray  # theirs: int16 [m, 256]
    columns: np.ndarray  # their means of 4x4 fields, and half of the squared length of these: float32 [17, m]


class Leak(NamedTuple):
    """A held-out image and a training image that are the same, or nearly. Records are numbered from 0 in each shard."""

    near: bool  # or exact, which sorts first
    split: str
    shard: str
    record: int
    train_shard: str
    train_record: int


def signatures(hashes: np.ndarray, thumbnails: Sequence[np.ndarray]) -> np.ndarray:
    """Return the `SIGNATURE` of each image, from the sha256 of its pixels, uint64 [n, 4], and thumbnails in blocks."""
    signed = np.empty(len(hashes), SIGNATURE)
    signed["digest"] = hashes[:, :2].copy().view(signed["digest"].dtype)[:, 0]
    signed["thumbnail"] = np.concatenate(thumbnails)
    return signed


def thumbnails(images: np.ndarray) -> np.ndarray:
    """Return the gray means of 16x16 fields of images, uint8 [n, height, width, channels]; fields may share pixels.

    int16 [n, 256]: in 16ths of a level, rounded down.
    """
    count, height, width, channels = images.shape
    down, across = _shares(height), _shares(width)
    whole = int(channels * down[0].sum() * across[0].sum())
    # All sums are whole numbers, which this type holds exactly.
    exact = np.float32 if 255 * whole < 2**24 else np.float64
    means = np.empty((count, _FIELDS), np.int16)
    at_once = max(1, _BYTES_AT_ONCE // (4 * height * width))
    for start in range(0, count, at_once):
        batch = images[start : start + at_once]
        gray: np.ndarray = batch[..., 0].astype(exact)  # channel by channel: a sum along so short an axis is slow
        for channel in range(1, channels):
            gray += batch[..., channel]
        sums = down.astype(exact) @ (gray @ across.T.astype(exact))
        means[start : start + at_once] = sums.reshape(-1, _FIELDS) * np.float64(_FINENESS) / whole
    return means


def hold(shards: Mapping[str, np.ndarray]) -> ReferenceSet:
    """Return the table of the images of held-out shards, from their signatures by the name of the shard."""
    names = sorted(shards)
    images = np.concatenate([np.zeros(0, SIGNATURE), *(shards[name] for name in names)])
    chosen = np.sort(np.argsort(images["digest"], kind="stable")[:MOST_HELD])
    first = np.cumsum([0, *(len(shards[name]) for name in names)])[:-1]
    thumbnails = images["thumbnail"][chosen]
    return ReferenceSet(names, first, images["digest"].copy(), chosen, thumbnails, _columns(thumbnails))


def find(reference: ReferenceSet, shard: str, images: np.ndarray) -> list[Leak]:
    """Return the leaks that `first_of_each` chooses of the held-out images in a training shard of these signatures."""
    digests, rows = np.unique(images["digest"], return_index=True)
    numbers = np.flatnonzero(np.isin(reference.digests, digests))
    exact = (numbers, rows[np.searchsorted(digests, reference.digests[numbers])])
    starts = range(0, len(images), _ROWS_AT_ONCE)
    near = concurrent.in_threads(functools.partial(_near, reference, images["thumbnail"]), starts)
    leaks = []
    for is_near, (numbers, rows) in [(False, exact), *((True, pairs) for pairs in near)]:
        shards = np.searchsorted(reference.first, numbers, side="right") - 1
        records = numbers - reference.first[shards]
        for at, record, row in zip(shards.tolist(), records.tolist(), rows.tolist(), strict=True):
            held_out = reference.shards[at]
            leaks.append(Leak(is_near, held_out.partition("-")[0], held_out, record, shard, row))
    return first_of_each(leaks)


def first_of_each(leaks: Iterable[Leak]) -> list[Leak]:
    """Return one leak for each held-out image, sorted: an exact one before a near one, then the first in `train`."""
    best: dict[tuple[str, int], Leak] = {}
    for leak in sorted(leaks):
        best.setdefault((leak.shard, leak.record), leak)
    return [*best.values()]


def describe(leaks: Iterable[Leak], test_images: int) -> dict[str, Any]:
    """Return the leaks of the test images, as the dataset records them in JSON."""
    distinct = first_of_each(leaks)
    near = sum(leak.near for leak in distinct)
    first = [{name: value for name, value in leak._asdict().items() if name != "near"} for leak in distinct[:_SHOWN]]
    return {
        "exact": len(distinct) - near,
        "near": near,  # without an exact copy
        "compared": ["test"],
        "near_of": min(MOST_HELD, test_images),  # number of images whose near copies were searched for
        "first": first,
    }


@functools.lru_cache(maxsize=2)
def _shares(size: int) -> np.ndarray:
    """Return the share of each pixel in each field of a side, in whole numbers: int64 [16, size]."""
    fields, pixels = np.arange(_SIDE + 1) * size, np.arange(size + 1) * _SIDE
    common = np.minimum(fields[1:, None], pixels[1:]) - np.maximum(fields[:-1, None], pixels[:-1])
    return np.maximum(common, 0) // math.gcd(size, _SIDE)


def _columns(thumbnails: np.ndarray) -> np.ndarray:
    """Return means of 4x4 fields, less their mean, in half levels; last half their squared length: float32 [17, n]."""
    sums = thumbnails.reshape(-1, 4, 4, 4, 4).sum(axis=(2, 4), dtype=np.int64).reshape(-1, 16)
    means = 16 * sums - sums.sum(axis=1, keepdims=True)  # 256 times as large as the differences of means
    levels = (means // (_FIELDS * _FINENESS // 2)).astype(np.float32)
    return np.concatenate([levels.T, np.square(levels).sum(axis=1)[None] / 2])


def _near(reference: ReferenceSet, training_shard: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Return held-out images and training images that are near, of some from `start` on: int64 [pairs] each.

    Half of a squared distance is half of either squared length less the product. All of these are multiples of a half
    and below 2^23, so that a float32 holds them exactly.
    """
    thumbnails = training_shard[start : start + _ROWS_AT_ONCE]
    fields = _columns(thumbnails)
    apart = np.concatenate([-fields[:-1], np.ones((1, fields.shape[1]), np.float32)]).T @ reference.columns
    close = apart <= (np.float32(_FURTHEST**2 / 2) - fields[-1])[:, None]
    for row in np.flatnonzero(np.count_nonzero(close, axis=1) > _MOST_COMPARED):
        close[row] = False
        close[row, np.argsort(apart[row], kind="stable")[:_MOST_COMPARED]] = True
    rows, columns = np.divmod(np.flatnonzero(close), max(1, close.shape[1]))
    held_out, training = reference.thumbnails[columns].astype(np.int64), thumbnails[rows].astype(np.int64)
    spread, flattest = _spread(held_out - training), np.minimum(_spread(held_out), _spread(training))
    near = (spread <= (_FIELDS * _MOST_LEVELS * _FINENESS) ** 2) & (_LEAST_SHARE**2 * spread < flattest)
    return reference.numbers[columns[near]], start + rows[near]


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the variance of each row of int64 [n, 256], times 256^2."""
    return _FIELDS * np.einsum("nd,nd->n", values, values) - np.square(values.sum(axis=1))
