"""Real images with disturbances in a known order, to test whether an embedding's distances follow it."""

from collections.abc import Iterator

import numpy as np
import scipy.ndimage

_NOISE = (0.02, 0.05, 0.1, 0.2, 0.4)  # standard deviations; pixels range over 2, as the networks see them
_BLUR = (0.5, 0.75, 1.0, 1.5, 2.5)  # standard deviations in pixels
_SHIFT = (1, 2, 4)  # pixels to the right
_HOLE = (1 / 7, 1 / 4, 2 / 5)  # of the sides, at any place
_CHECKERBOARD = (3, 6, 12)  # levels of 255 that every other pixel is brighter
_GARBAGE = (0.05, 0.2, 0.5)  # share of images that are uniform noise
_DROPPED = (1, 2, 5, 9)  # of ten classes
_REPEATED = (5, 25, 100, 500)  # copies of each image


def disturbances(
    base: np.ndarray, pool: np.ndarray, pool_labels: np.ndarray, classes: int, random: np.random.Generator
) -> Iterator[tuple[str, float, np.ndarray]]:
    """Yield every disturbed set: kind, strength, which grows within a kind, and as many images as `base` has.

    Images are uint8 [n, height, width, channels]. Sets without some classes are drawn from the pool, whose labels are
    int32 [m]; with fewer than two classes none is dropped.
    """
    for strength in _NOISE:
        noise = random.normal(0.0, strength * 127.5, base.shape)
        yield "noise", strength, np.clip(np.rint(base + noise), 0, 255).astype(np.uint8)
    for strength in _BLUR:
        blurred = scipy.ndimage.gaussian_filter(base.astype(np.float32), (0, strength, strength, 0))
        yield "blur", strength, np.clip(np.rint(blurred), 0, 255).astype(np.uint8)
    for strength in _SHIFT:
        if strength < base.shape[2]:
            edge = np.repeat(base[:, :, :1], strength, axis=2)
            yield "shift", strength, np.concatenate([edge, base[:, :, :-strength]], axis=2)
    for strength in _HOLE:
        is_inside = np.ones(base.shape[:3], bool)  # of a black rectangle in each image
        for side, place in zip(base.shape[1:3], np.indices(base.shape[1:3]), strict=True):
            size = max(2, round(strength * side))
            start = random.integers(0, side - size + 1, (len(base), 1, 1))
            is_inside &= (start <= place) & (place < start + size)
        yield "hole", strength, np.where(is_inside[..., None], 0, base).astype(np.uint8)
    for strength in _CHECKERBOARD:
        odd = np.indices(base.shape[1:3]).sum(axis=0)[:, :, None] % 2
        yield "checkerboard", strength, np.clip(base + strength * odd, 0, 255).astype(np.uint8)
    for strength in _GARBAGE:
        replaced, count = base.copy(), round(strength * len(base))
        replaced[:count] = random.integers(0, 256, (count, *base.shape[1:]), np.uint8)
        yield "garbage", strength, replaced
    for times in _REPEATED:
        if times <= len(base) // 4:
            repeated = np.tile(base[: -(-len(base) // times)], (times, 1, 1, 1))[: len(base)]
            # In random order, because a block of the kernel distance would otherwise have no repeats.
            yield "repeats", times, repeated[random.permutation(len(repeated))]
    if classes < 2:
        return
    order = random.permutation(classes)
    for dropped in sorted({max(1, round(share * classes / 10)) for share in _DROPPED}):
        if dropped < classes:
            kept = np.flatnonzero(~np.isin(pool_labels, order[:dropped]))
            yield "dropped classes", dropped, pool[random.choice(kept, len(base), replace=len(kept) < len(base))]
    weights = np.where(pool_labels == order[0], 0.1, 1.0)
    yield "rare class", 0.1, pool[random.choice(len(pool), len(base), replace=True, p=weights / weights.sum())]
