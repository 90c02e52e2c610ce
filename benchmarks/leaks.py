"""What counts as near-identical, and what it takes to find it: all of Fashion-MNIST's test images against `train`.

    python -m benchmarks.leaks

Compares all pairs as well, to see that nothing is missed, and writes those within 12 levels to `build/bench/leaks.png`,
from the most alike on, each test image with the training image to its right; in the last rows none is a leak.
"""

import hashlib
import io
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.fashion_mnist import BUILD, DATASET
from components.core.artifacts import datasets
from components.core.artifacts.datasets import Manifest
from components.core.data import dataset_reader
from components.core.reporting import grids
from components.core.storage import tfrecord
from components.preprocess import leaks
from components.preprocess.leaks import Leak, Signed

_SHOWN_WITHIN = 12.0  # levels
_ROWS_AT_ONCE = 2000


def _saved_again(quality: int) -> Callable[[np.ndarray], np.ndarray]:
    def save(images: np.ndarray) -> np.ndarray:
        saved = np.empty_like(images)
        for image, place in zip(images, saved, strict=True):
            file = io.BytesIO()
            Image.fromarray(image[..., 0]).save(file, "JPEG", quality=quality)
            place[..., 0] = np.asarray(Image.open(file))
        return saved

    return save


def _noisy(images: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(scale=3, size=images.shape)
    return np.clip(np.round(images + noise), 0, 255).astype(np.uint8)


_CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "lighter by 2 levels": lambda images: np.minimum(images, 253) + np.uint8(2),
    "noise of 3 levels": _noisy,
    **{f"JPEG of quality {quality}": _saved_again(quality) for quality in (95, 90, 85, 75)},
    "moved by a pixel": lambda images: np.roll(images, 1, axis=2),
    "mirrored": lambda images: images[:, :, ::-1],
}


def _signed(manifest: Manifest, split: str, images: np.ndarray) -> list[Signed]:
    """The shards of a split, signed. All records of this dataset are of one size."""
    found, start = [], 0
    for shard in manifest.splits[split].shards:
        size = shard.bytes // shard.records
        offsets = tfrecord.size_and_offset(images[0].nbytes, 0)[1] + size * np.arange(shard.records)
        some = images[start : start + shard.records]
        digests = leaks.digests([hashlib.sha256(image.tobytes()).digest() for image in some])
        found.append(Signed(split, shard.file, leaks.signatures(some), digests, offsets))
        start += shard.records
    return found


def _all_pairs(test: np.ndarray, train: np.ndarray) -> tuple[list[int], list[tuple[float, int, int]]]:
    """The numbers of the test images that are leaks; the pairs within 12 levels: levels, test and training image."""
    ours, theirs = (images.reshape(len(images), -1).astype(np.float32) for images in (test, train))
    ours -= ours.mean(axis=1, keepdims=True)
    theirs -= theirs.mean(axis=1, keepdims=True)
    norms = np.square(ours).sum(axis=1)
    pairs = []
    for start in range(0, len(theirs), _ROWS_AT_ONCE):
        some = theirs[start : start + _ROWS_AT_ONCE]
        squares = norms[:, None] + np.square(some).sum(axis=1) - 2 * ours @ some.T
        pairs += [(int(i), start + int(j)) for i, j in np.argwhere(squares < ours.shape[1] * (_SHOWN_WITHIN + 1) ** 2)]
    levels = [float((test[i].astype(float) - train[j]).std()) for i, j in pairs]
    near = {
        i
        for (i, j), apart in zip(pairs, levels, strict=True)
        if (test[i] == train[j]).all() or (apart <= 5 and apart < 0.1 * min(test[i].std(), train[j].std()))
    }
    shown = [(apart, i, j) for (i, j), apart in zip(pairs, levels, strict=True) if apart <= _SHOWN_WITHIN]
    return sorted(near), sorted(shown)


def _numbers(manifest: Manifest, found: list[Leak]) -> list[int]:
    """The numbers of the test images among all."""
    files = [shard.file for shard in manifest.splits["test"].shards]
    before = np.cumsum([0, *(shard.records for shard in manifest.splits["test"].shards)])
    return sorted(int(before[files.index(leak.shard)]) + leak.record for leak in found)


def main() -> None:
    """Finds the leaks, compares them with those of all pairs, and counts which altered copies would be leaks."""
    fashion_mnist.prepare()
    manifest = datasets.Manifest.of(str(DATASET))
    train, test = (dataset_reader.load_split(str(DATASET), manifest, split)[0] for split in ("train", "test"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    leaks.MOST_HELD = len(test)  # as a comparison of all pairs has
    times = [time.process_time()]
    signed = {split: _signed(manifest, split, images) for split, images in (("train", train), ("test", test))}
    times.append(time.process_time())
    held = leaks.hold(signed["test"])
    pairs = [leaks.candidates(held, shard) for shard in signed["train"]]
    times.append(time.process_time())
    found = [
        leak
        for shard, some in zip(signed["train"], pairs, strict=True)
        for leak in leaks.verified(held, shard, some, Path(DATASET), manifest.image)
    ]
    times.append(time.process_time())
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # Linux counts in KiB
    described = leaks.describe(found, {"test": len(test)})
    expected, shown = _all_pairs(test, train)
    if _numbers(manifest, leaks.first_of_each(found)) != expected:
        raise SystemExit("a comparison of all pairs finds other leaks")
    steps = ("signing", "candidates", "comparing pixels")
    rows = [[step, f"{end - start:.2f} s"] for step, start, end in zip(steps, times[:-1], times[1:], strict=True)]
    exact, near = described["exact"], described["near"]
    notes = [
        f"{sum(map(len, pairs)):,} candidates of {len(test) * len(train):,} pairs, {memory:,.0f} MiB beside the images",
        f"{exact} test images have an exact copy in train, {near} a near one; a comparison of all pairs finds the same",
    ]
    title = f"{len(test):,} test images against {len(train):,} training images"
    tables.show("Leaks of Fashion-MNIST", [title, "processor time"], rows, notes)
    shares = [[name, f"{100 * leaks.compare(test, change(test))[1].mean():.1f}%"] for name, change in _CHANGES.items()]
    tables.show("What counts", ["Test images of which an altered copy would be a leak", "share"], shares)
    sheet = np.stack([image for _, i, j in shown for image in (test[i], train[j])])
    (BUILD / "leaks.png").write_bytes(grids.png_grid(sheet, columns=16))


if __name__ == "__main__":
    main()
