"""Faults that generators draw, planted in real images: a network that learns to name them sees them in samples too.

Training on artificial faults of real images to recognize others follows CutPaste (Li et al., 2021).
"""

import numpy as np
import scipy.ndimage

_GRAIN = 8.0  # largest standard deviation, of 255, of the noise in every image, as what nobody sees is no fault
_LEVELS = 8.0, 40.0  # strengths of patterns and noise: from hardly visible to obvious
_BLURS = 0.4, 2.0  # standard deviations in pixels
_SHIFT_PARTS = 9
_SMOOTH_SHARE = 0.7  # of the images with noise that have smooth noise

Random = np.random.Generator


def plant(images: np.ndarray, random: Random) -> tuple[np.ndarray, np.ndarray]:
    """Plant one of `KINDS` at random in each image, uint8 [n, height, width, channels]; return which too, int32 [n]."""
    kinds = random.integers(0, len(KINDS), len(images)).astype(np.int32)
    others = images[random.integers(0, len(images), len(images))]
    planted = [
        KINDS[kind](image.astype(np.float32), other, random)
        for image, other, kind in zip(images, others, kinds, strict=True)
    ]
    grain = random.normal(size=images.shape) * random.uniform(0, _GRAIN, (len(images), 1, 1, 1))
    return np.clip(np.rint(np.stack(planted) + grain), 0, 255).astype(np.uint8), kinds


def shifted(images: np.ndarray, random: Random) -> np.ndarray:
    """Shift each of images uint8 [n, height, width, channels] by up to a ninth of each side, reflected at the edges.

    A network that sees few images many times would otherwise learn them by heart.
    """
    height, width = images.shape[1:3]
    most = height // _SHIFT_PARTS, width // _SHIFT_PARTS
    around = np.pad(images, ((0, 0), (most[0], most[0]), (most[1], most[1]), (0, 0)), mode="reflect")
    tops, lefts = (random.integers(0, 2 * side + 1, len(images)) for side in most)
    cut = [image[top : top + height, left : left + width] for image, top, left in zip(around, tops, lefts, strict=True)]
    return np.stack(cut)


def _none(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    return image


def _rectangle(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    """Cover a rectangle with black, white, a gray, or a color."""
    grays = [0, 255, random.integers(0, 256)]
    image[_place(image, 3, random)] = [*grays, random.integers(0, 256, image.shape[2])][random.integers(4)]
    return image


def _pattern(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    """Add stripes or a checkerboard of any period."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]] // random.integers(1, 2 + max(3, min(image.shape[:2]) // 7))
    pattern = [x, y, x + y][random.integers(3)] % 2 - random.choice([0.0, 0.5])
    return image + random.choice([-1, 1]) * _strength(random) * _tinted(pattern[..., None], image.shape[2], random)


def _noise(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    """Add noise, smooth or not."""
    noise = random.normal(size=(*image.shape[:2], 1))
    if random.random() < _SMOOTH_SHARE:
        deviation = random.uniform(0.5, max(3.0, min(image.shape[:2]) / 14))
        noise = scipy.ndimage.gaussian_filter(noise, (deviation, deviation, 0))
    return image + _strength(random) / noise.std() * _tinted(noise, image.shape[2], random)


def _blur(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    deviation = random.uniform(*_BLURS)
    return np.asarray(scipy.ndimage.gaussian_filter(image, (deviation, deviation, 0)))


def _paste(image: np.ndarray, other: np.ndarray, random: Random) -> np.ndarray:
    """Paste a part of this image or of another at another place."""
    source = other if random.random() < 0.5 else image.copy()
    place = _place(image, 2, random)
    height, width = image[place].shape[:2]
    top, left = random.integers(0, image.shape[0] - height + 1), random.integers(0, image.shape[1] - width + 1)
    image[place] = source[top : top + height, left : left + width]
    return image


def _place(image: np.ndarray, part: int, random: Random) -> tuple[slice, slice]:
    """Return the rows and columns of a rectangle, whose sides are 2 pixels to one `part` of those of the image."""
    sizes = [int(random.integers(2, max(3, side // part) + 1)) for side in image.shape[:2]]
    starts = [int(random.integers(0, side - size + 1)) for side, size in zip(image.shape, sizes, strict=False)]
    rows, columns = (slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
    return rows, columns


def _strength(random: Random) -> float:
    return float(np.exp(random.uniform(*np.log(_LEVELS))))


def _tinted(gray: np.ndarray, channels: int, random: Random) -> np.ndarray:
    """Return a pattern [height, width, 1] in gray, or of colored images as often in a color: [height, width, c]."""
    return gray * (random.uniform(-1, 1, channels) if channels > 1 and random.random() < 0.5 else np.ones(channels))


KINDS = (_none, _rectangle, _pattern, _noise, _blur, _paste)
