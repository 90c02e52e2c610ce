"""Leaks of Fashion-MNIST's test images into `train`: what is found, and the time and memory to find it.

    python -m benchmarks.data.leaks

Compares all pairs as well, to see that nothing is missed, and writes the 160 most alike to `build/bench/leaks.png`,
each test image with the training image to its right; in the last rows none is a leak.
"""

import hashlib
import io
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.fashion_mnist import BUILD, DATASET
from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.reporting import grids
from components.preprocess import leaks
from components.preprocess.leaks import ShardSignatures

_SHOWN_WITHIN = 12.0  # levels
_PAIRS_SHOWN = 160
_ROWS_AT_ONCE = 2000


def _saved_again(quality: int) -> Callable[[np.ndarray], np.ndarray]:
    def save(images: np.ndarray) -> np.ndarray:
        saved = np.empty_like(images)
        for image, row in zip(images, saved, strict=True):
            file = io.BytesIO()
            Image.fromarray(image[..., 0]).save(file, "JPEG", quality=quality)
            row[..., 0] = np.asarray(Image.open(file))
        return saved

    return save


def _noisy(images: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(scale=3, size=images.shape)
    return np.clip(np.round(images + noise), 0, 255).astype(np.uint8)


_CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "lighter by 2 levels": lambda images: np.minimum(images, 253) + np.uint8(2),
    "noise of 3 levels": _noisy,
    **{f"JPEG of quality {quality}": _saved_again(quality) for quality in (90, 75, 50, 30)},
    "moved by a pixel": lambda images: np.roll(images, 1, axis=2),
    "mirrored": lambda images: images[:, :, ::-1],
}


def _signed(split: str, images: np.ndarray) -> ShardSignatures:
    hashes = [hashlib.sha256(image.tobytes()).digest() for image in images]
    return ShardSignatures(split, leaks.thumbnails(images), leaks.digests(hashes))


def _all_pairs(test: ShardSignatures, train: ShardSignatures) -> list[tuple[float, int, int]]:
    """Return pairs whose thumbnails are within 12 levels, most alike first: levels, test and training image."""
    ours, theirs = (signed.thumbnails / 16 for signed in (test, train))
    ours -= ours.mean(axis=1, keepdims=True)
    theirs -= theirs.mean(axis=1, keepdims=True)
    lengths, pairs = np.square(ours).sum(axis=1), []
    for start in range(0, len(theirs), _ROWS_AT_ONCE):
        some = theirs[start : start + _ROWS_AT_ONCE]
        squares = lengths[:, None] + np.square(some).sum(axis=1) - 2 * ours @ some.T
        pairs += [(int(i), start + int(j)) for i, j in np.argwhere(squares < ours.shape[1] * _SHOWN_WITHIN**2)]
    return sorted((float((ours[i] - theirs[j]).std()), i, j) for i, j in pairs)


def _share_near(images: np.ndarray, changed: np.ndarray) -> float:
    """Count the images that would be near copies of the changed ones."""
    return float(np.mean([_is_near(*pair) for pair in zip(*map(leaks.thumbnails, (images, changed)), strict=True)]))


def _is_near(one: np.ndarray, other: np.ndarray) -> bool:
    apart = (one - other).std() / 16
    return bool(apart <= 5 and apart < min(one.std(), other.std()) / 160)


def main() -> None:
    """Find the leaks, compare them with those of all pairs, and count which altered copies would be leaks."""
    fashion_mnist.prepare()
    manifest = datasets.Manifest.of(str(DATASET))
    train, test = (dataset_reader.load_split(str(DATASET), manifest, split)[0] for split in ("train", "test"))
    leaks.MOST_HELD = len(test)  # as a comparison of all pairs has
    times = [time.process_time()]
    theirs, ours = _signed("train", train), _signed("test", test)
    times.append(time.process_time())
    found = leaks.find(leaks.hold([ours]), theirs)
    times.append(time.process_time())
    pairs = _all_pairs(ours, theirs)
    expected = {i for _, i, j in pairs if _is_near(ours.thumbnails[i], theirs.thumbnails[j])}
    if {leak.record for leak in found if leak.near} != expected - {leak.record for leak in found if not leak.near}:
        raise SystemExit("a comparison of all pairs finds other leaks")
    steps = ("signing", "finding")
    rows = [[step, f"{end - start:.2f} s"] for step, start, end in zip(steps, times[:-1], times[1:], strict=True)]
    described = leaks.describe(found, len(test))
    note = (
        f"{described['exact']} test images have an exact copy in train, {described['near']} a near one; a comparison "
    )
    title = f"{len(test):,} test images against {len(train):,} training images"
    tables.show("Leaks of Fashion-MNIST", [title, "processor time"], rows, [f"{note} of all pairs finds the same"])
    shares = [[name, f"{100 * _share_near(test, change(test)):.1f}%"] for name, change in _CHANGES.items()]
    tables.show("What counts", ["Test images of which an altered copy would be a leak", "share"], shares)
    sheet = np.stack([image for _, i, j in pairs[:_PAIRS_SHOWN] for image in (test[i], train[j])])
    (BUILD / "leaks.png").write_bytes(grids.png_grid(sheet, columns=16))


if __name__ == "__main__":
    main()
