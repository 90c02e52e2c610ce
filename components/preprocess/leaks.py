"""Images of the held-out splits that are in `train` as well, or nearly: they make every score on these splits too good.

Exact means the same pixels. Near means that the difference of the two images, without its mean, has a root mean square
of at most 5 levels of 255 and of less than a tenth of the standard deviation of either image. So a copy that is lighter
throughout is near, and one saved again as JPEG of quality 90; one of quality 75 seldom is, and one moved by a pixel or
mirrored is not, nor a blank image unless it is exact. `python -m benchmarks.leaks` prints how often.

No image is compared with all: each is signed with 16 of its frequencies when its shard is written. The transform is
orthonormal, so two images differ by at least as much as their signatures do, and whatever is near is among the
candidates that these leave (Faloutsos, Ranganathan and Manolopoulos, Fast Subsequence Matching in Time-Series
Databases, 1994: such a filter dismisses nothing falsely). Pixels are read and compared of candidates alone.

Where there are very many images, work is bounded, so that its time grows with their number and no faster. Near copies
are looked for of 5,000 held-out images, those with the smallest digests, which is a random choice; exact ones of all.
Of these a training image is compared by signature with each, and by pixels with the 32 whose signatures are nearest: of
more than so many near copies of one training image some are missed. Exact copies are not, as they are found by a digest
of the pixels.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources import concurrent

# The first 16 of the zigzag order of JPEG (ITU-T T.81, figure A.6) without the mean: (vertical, horizontal). Those come
# first that images of one thing in the middle differ by most, as the first ones decide what is compared at all.
_FREQUENCIES = (
    *((0, 2), (2, 0), (1, 0), (0, 1), (0, 4), (4, 0), (3, 0), (0, 3)),
    *((1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (1, 3), (0, 5), (1, 4)),
)
_FINENESS = 7  # bits after the point of a frequency, which is at most 127.5 levels either way and so fits in 16 bits
_UNIT = 2.0**-40  # to whose multiples the basis is rounded, so that sums are exact, in whatever order they are taken
_MOST_LEVELS = 5.0  # root mean square: what it leaves out of Fashion-MNIST shows another garment, or another print
_MOST_SHARE = 0.1  # of the standard deviation: without it all dark images would be near to one another
_ROUNDING = 0.1  # levels; far more than the basis is rounded by
_FURTHEST = _MOST_LEVELS + _ROUNDING
# Rounded down to levels, each frequency differs by at most one more, and so all together by this, as a length.
_FURTHEST_IN_LEVELS = _FURTHEST + np.sqrt(len(_FREQUENCIES))
MOST_HELD = 5_000
_MOST_VERIFIED = 32
_ROWS_AT_ONCE = 256
_ROWS_IN_CACHE = 128  # their products with all that is held are 2.5 MB
_STEP = 16  # pixels, of which one is looked at first
_BYTES_AT_ONCE = 1 << 20  # of pixels
_SHOWN = 10
_WORDS = 4  # of 64 bits in a sha256
COMPARED = ("test", "train")  # splits; what of a source is validation is usually taken from train at random
_SIGNED = "signed-"


@dataclasses.dataclass(frozen=True)
class Signed:
    """What is kept of the images of a shard to compare them with others: 48 bytes each.

    Attributes:
        split: The split.
        shard: The shard's file name.
        signatures: What `signatures` gives of each: int16 [n, 16].
        digests: The first 8 bytes of the sha256 of each image's pixels: uint64 [n].
        offsets: Where in the shard each image's pixels begin (`tfrecord.size_and_offset`): integers [n].
    """

    split: str
    shard: str
    signatures: np.ndarray
    digests: np.ndarray
    offsets: np.ndarray


@dataclasses.dataclass(frozen=True)
class Held:
    """All held-out images, to be compared with one training shard after the other.

    Attributes:
        shards: Their shards, by split and name.
        first: The number of each shard's first image among all: int64 [shards].
        digests, offsets: Those of all shards, as in `Signed`.
        numbers: The numbers of those that near images are found of, no more than `MOST_HELD`, ascending: int64 [m].
        signatures: Theirs: int16 [m, 16].
        columns: The same as `_within` takes it: float32 [17, m].
    """

    shards: list[Signed]
    first: np.ndarray
    digests: np.ndarray
    offsets: np.ndarray
    numbers: np.ndarray
    signatures: np.ndarray
    columns: np.ndarray


class Leak(NamedTuple):
    """A held-out image and a training image that are the same, or nearly. Records are numbered from 0 in each shard."""

    exact: bool
    split: str
    shard: str
    record: int
    train_shard: str
    train_record: int


def digests(hashes: Sequence[bytes]) -> np.ndarray:
    """What stands for images in `Signed`: uint64 [n].

    Args:
        hashes: The sha256 of the pixels of each.
    """
    return np.frombuffer(b"".join(hashes), ">u8").reshape(-1, _WORDS)[:, 0].astype(np.uint64)


def write_signed(folder: Path, signed: Signed) -> None:
    """Leaves it beside the shards for `read_signed`; it is no part of the dataset, and goes before that is complete.

    Raises:
        OSError: It cannot be written.
    """
    np.savez(
        folder / f"{_SIGNED}{signed.shard}.npz",
        signatures=signed.signatures,
        digests=signed.digests,
        offsets=signed.offsets,
    )


def read_signed(folder: Path, names: str) -> Iterator[Signed]:
    """Yields what `write_signed` left of the shards whose names begin so."""
    for path in sorted(folder.glob(f"{_SIGNED}{names}*.npz")):
        shard = path.name.removeprefix(_SIGNED).removesuffix(".npz")
        with np.load(path) as found:
            yield Signed(shard.partition("-")[0], shard, **found)


def signatures(images: np.ndarray) -> np.ndarray:
    """The lowest frequencies of images, as the cosine transform (DCT-II, orthonormal) of their grey values has them.

    Each is a root mean square, and so less than that of the image; frequencies that an image is too small for are 0.

    Args:
        images: uint8 [n, height, width, channels].

    Returns:
        int16 [n, 16]: in 128ths of a level, of which an image has 0 to 255, rounded down.
    """
    count, height, width, channels = images.shape
    basis = _basis(height, width, channels)
    found = np.empty((count, len(_FREQUENCIES)), np.int16)
    at_once = max(1, _BYTES_AT_ONCE // (8 * height * width))
    for start in range(0, count, at_once):
        some = images[start : start + at_once]
        grey = some[..., 0].astype(np.uint16)  # channel by channel: a sum along so short an axis is slow
        for channel in range(1, channels):
            grey += some[..., channel]
        found[start : start + at_once] = np.floor(np.ldexp(grey.reshape(-1, height * width) @ basis, _FINENESS))
    return found


def hold(shards: Iterable[Signed]) -> Held:
    """The table of the images of held-out shards, the same whatever their order."""
    ordered = sorted(shards, key=lambda signed: (signed.split, signed.shard))
    empty = Signed("", "", np.zeros((0, len(_FREQUENCIES)), np.int16), np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    together = {
        name: np.concatenate([getattr(signed, name) for signed in (empty, *ordered)])
        for name in ("signatures", "digests", "offsets")
    }
    lengths = [len(signed.digests) for signed in ordered]
    chosen = np.sort(np.argsort(together["digests"], kind="stable")[:MOST_HELD])
    first = np.array(list(itertools.accumulate(lengths, initial=0))[: len(lengths)], np.int64)
    signatures = together.pop("signatures")[chosen]
    columns = _as_columns(signatures)
    return Held(shards=ordered, first=first, numbers=chosen, signatures=signatures, columns=columns, **together)


def candidates(held: Held, train: Signed) -> np.ndarray:
    """Pairs that may be exact or near: all that are, within the bounds of this module.

    Args:
        held: The held-out images.
        train: A training shard.

    Returns:
        int64 [pairs, 2], sorted, none twice: the number of an image in `held`, and of a record in the shard.
    """
    starts = range(0, len(train.signatures), _ROWS_AT_ONCE)
    near = concurrent.in_threads(functools.partial(_near, held, train), starts)
    numbers, rows = np.concatenate([_same_digest(held, train), *near]).T
    count = len(train.digests)
    return np.stack(np.divmod(np.unique(numbers * count + rows), max(1, count)), axis=1)


def _near(held: Held, train: Signed, start: int) -> np.ndarray:
    """Held-out images and training images, some from `start` on, whose signatures are near: int64 [pairs, 2]."""
    rows, held_rows = _within(train.signatures[start : start + _ROWS_AT_ONCE], held.columns, _FURTHEST_IN_LEVELS)
    rows += start
    apart = np.abs(held.signatures[held_rows].astype(np.int64) - train.signatures[rows])
    # Rounded down, they differ by less than one more than the frequencies do.
    squares = np.square(np.maximum(apart - 1, 0)).sum(axis=1)
    chosen = np.flatnonzero(squares <= (_FURTHEST * (1 << _FINENESS)) ** 2)
    numbers, rows, nearness = held.numbers[held_rows[chosen]], rows[chosen], squares[chosen]
    order = np.lexsort((numbers, nearness, rows))
    numbers, rows = numbers[order], rows[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)  # within its training image, the nearest first
    return np.stack([numbers, rows], axis=1)[rank < _MOST_VERIFIED]


def _as_columns(signatures: np.ndarray) -> np.ndarray:
    """Signatures int16 [n, 16] for `_within`, in levels, each with half of its squared length: float32 [17, n]."""
    levels = (signatures >> _FINENESS).astype(np.float32)
    return np.concatenate([levels.T, np.square(levels).sum(axis=1)[None] / 2])


def _within(signatures: np.ndarray, others: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of signatures, int16 [n, 16], and of others, as `_as_columns` has them, that are no more levels apart, each
    rounded down to levels.

    Half of a squared distance is half of either squared length less the product. All of these are multiples of a half
    and below 2^19, so that a float32 has them exactly.

    Returns:
        The numbers of both, ascending by the first: int64 [pairs] each.
    """
    rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(signatures), _ROWS_IN_CACHE):
        own = _as_columns(signatures[start : start + _ROWS_IN_CACHE])
        negative = np.concatenate([-own[:-1], np.ones((1, own.shape[1]), np.float32)]).T
        near = negative @ others <= (np.float32(distance**2 / 2) - own[-1])[:, None]
        row, column = np.divmod(np.flatnonzero(near), max(1, others.shape[1]))
        rows.append(row + start)
        columns.append(column)
    return np.concatenate(rows), np.concatenate(columns)


def verified(held: Held, train: Signed, pairs: np.ndarray, folder: Path, image: ImageShape) -> list[Leak]:
    """Those pairs whose images are the same or near, by their pixels.

    Args:
        held: The held-out images.
        train: The training shard.
        pairs: Of `candidates`.
        folder: The folder with all the shards.
        image: Shape of the images.

    Returns:
        Sorted; for each held-out image the exact copy that comes first in the shard, or else the first near one.

    Raises:
        DataError: A shard is gone or cut short.
    """
    at_once = max(1, _BYTES_AT_ONCE // (image.height * image.width * image.channels))

    def compared(start: int) -> list[Leak]:
        numbers, rows = pairs[start : start + at_once].T
        ours, our_place = np.unique(numbers, return_inverse=True)
        theirs, their_place = np.unique(rows, return_inverse=True)
        held_out = _read_held(held, ours, folder, image)[our_place]
        training = read_images(folder / train.shard, train.offsets[theirs], image)[their_place]
        exact, near = compare(held_out, training)
        return [
            _leak(held, int(number), train, int(row), bool(same))
            for number, row, same in zip(numbers[near], rows[near], exact[near], strict=True)
        ]

    found = concurrent.in_threads(compared, range(0, len(pairs), at_once))
    return first_of_each(itertools.chain.from_iterable(found))


def compare(images: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether images are the same as others, and whether they are near, as this module defines it.

    Args:
        images, others: uint8 [n, height, width, channels], compared one by one.

    Returns:
        exact, near: bool [n] each; what is exact is near too.
    """
    flat, other = (each.reshape(len(each), -1) for each in (images, others))
    exact = (flat == other).all(axis=1)
    near = exact.copy()
    # The squares of some pixels are no more than those of all, and tell most pairs apart.
    most = _MOST_LEVELS**2 * flat.shape[1]
    some, other_some = flat[:, ::_STEP].astype(np.int32), other[:, ::_STEP]
    possible = np.flatnonzero(_variance(some - other_some) * some.shape[1] <= most + _ROUNDING)
    near[possible] |= _variance(flat[possible].astype(np.int32) - other[possible]) <= _MOST_LEVELS**2
    # Few are left, and so the rest is asked of these alone.
    close = np.flatnonzero(near & ~exact)
    own, theirs = flat[close].astype(np.int32), other[close].astype(np.int32)
    flattest = np.minimum(_variance(own), _variance(theirs))
    near[close] = _variance(own - theirs) < _MOST_SHARE**2 * flattest
    return exact, near


def read_images(path: Path, offsets: np.ndarray, image: ImageShape) -> np.ndarray:
    """Reads some images of a shard and nothing else of it.

    Args:
        path: The shard.
        offsets: Where the pixels of each begin [n]; fast if ascending.
        image: Shape of the images.

    Returns:
        uint8 [n, height, width, channels].

    Raises:
        DataError: The shard is gone or cut short.
    """
    images = np.empty((len(offsets), image.height, image.width, image.channels), np.uint8)
    try:
        with open(path, "rb") as file:
            for pixels, offset in zip(images, offsets, strict=True):
                file.seek(int(offset))
                if file.readinto(pixels.data) != pixels.nbytes:
                    raise DataError(f"shard {path} is cut short; make the dataset again")
    except FileNotFoundError:
        raise DataError(f"shard {path} is missing; make the dataset again") from None
    return images


def first_of_each(leaks: Iterable[Leak]) -> list[Leak]:
    """One leak for each held-out image, sorted: an exact one before a near one, then the first in the training shards.

    It may be taken of parts, in any order, and then of what they gave.
    """
    best: dict[tuple[str, str, int], Leak] = {}
    for leak in leaks:
        image = (leak.split, leak.shard, leak.record)
        best[image] = min(best.get(image, leak), leak, key=_rank)
    return sorted(best.values(), key=_rank)


def describe(leaks: Iterable[Leak], compared: dict[str, int]) -> dict[str, Any]:
    """The JSON value that a dataset says of its leaks.

    Args:
        leaks: Those found in each training shard.
        compared: The splits that were compared with `train`, and how many images each has.

    Returns:
        exact, near: How many held-out images have an exact copy in `train`; how many others have a near one.
        compared: The splits.
        near_of: Among how many of their images near ones were looked for.
        first: The first ten, exact ones first, as `split`, `shard`, `record`, `train_shard`, `train_record`.
    """
    found = first_of_each(leaks)
    exact, near_of = sum(leak.exact for leak in found), min(MOST_HELD, sum(compared.values()))
    first = [{name: value for name, value in leak._asdict().items() if name != "exact"} for leak in found[:_SHOWN]]
    return {
        "exact": exact,
        "near": len(found) - exact,
        "compared": sorted(compared),
        "near_of": near_of,
        "first": first,
    }


@functools.lru_cache(maxsize=1)
def _basis(height: int, width: int, channels: int) -> np.ndarray:
    """What the sum of the channels is multiplied with for its frequencies: the cosines of each, of length 1, over the
    root of the number of pixels and over the channels, rounded: float64 [height x width, 16].
    """
    rows, columns = ((2 * np.arange(side) + 1) * np.pi / (2 * side) for side in (height, width))
    basis = np.zeros((height, width, len(_FREQUENCIES)))
    for index, (vertical, horizontal) in enumerate(_FREQUENCIES):
        if vertical < height and horizontal < width:
            wave = np.outer(np.cos(vertical * rows), np.cos(horizontal * columns))
            basis[..., index] = wave / np.linalg.norm(wave) / np.sqrt(height * width)
    return np.round(basis.reshape(height * width, -1) / channels / _UNIT) * _UNIT


def _same_digest(held: Held, train: Signed) -> np.ndarray:
    """Held-out images with the first training image of the same digest: int64 [pairs, 2]."""
    digests, rows = np.unique(train.digests, return_index=True)
    numbers = np.flatnonzero(np.isin(held.digests, digests))
    return np.stack([numbers, rows[np.searchsorted(digests, held.digests[numbers])]], axis=1)


def _read_held(held: Held, numbers: np.ndarray, folder: Path, image: ImageShape) -> np.ndarray:
    """The images of ascending numbers, uint8 [n, height, width, channels]."""
    shard_of = np.searchsorted(held.first, numbers, side="right") - 1
    parts = [
        read_images(folder / held.shards[shard].shard, held.offsets[numbers[shard_of == shard]], image)
        for shard in np.unique(shard_of)
    ]
    return np.concatenate(parts)


def _leak(held: Held, number: int, train: Signed, row: int, exact: bool) -> Leak:
    shard = int(np.searchsorted(held.first, number, side="right")) - 1
    signed = held.shards[shard]
    return Leak(exact, signed.split, signed.shard, number - int(held.first[shard]), train.shard, row)


def _rank(leak: Leak) -> tuple[bool, tuple[Any, ...]]:
    return not leak.exact, leak[1:]


def _variance(values: np.ndarray) -> np.ndarray:
    """The variance of each row of int32 [n, d]: of exact sums, so the same on every machine."""
    count = values.shape[1]
    squares = np.einsum("nd,nd->n", values, values, dtype=np.int64)
    return squares / count - np.square(values.sum(axis=1, dtype=np.int64) / count)
