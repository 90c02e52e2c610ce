"""Defects of single images: changes of images, float32 [n, height, width, channels] of 0 to 255, by a strength.

Lengths are in pixels of an image whose shorter side has 28: other images get as large a part of theirs. Each change
returns images of the same shape; whoever calls it rounds and clips them.
"""

import io
from collections.abc import Callable

import numpy as np
import scipy.ndimage
from PIL import Image, ImageDraw, ImageFont

Change = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]


def _scale(images: np.ndarray) -> float:
    return min(images.shape[1:3]) / 28


def _whole(length: float, images: np.ndarray) -> int:
    return max(1, round(length * _scale(images)))


def _grid(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the column of each pixel, broadcasting to one image."""
    return np.arange(images.shape[1])[:, None, None], np.arange(images.shape[2])[:, None]


def _smooth(images: np.ndarray, deviation: float) -> np.ndarray:
    size = deviation * max(1.0, _scale(images))  # a fraction of a pixel blurs nothing
    return scipy.ndimage.gaussian_filter(images, (0, size, size, 0))


def _resized(images: np.ndarray, height: int, width: int, order: int) -> np.ndarray:
    factors = (1, height / images.shape[1], width / images.shape[2], 1)
    return scipy.ndimage.zoom(images, factors, order=order, mode="nearest", grid_mode=True)


def cover(level: float, disc: bool = False, fixed: bool = False) -> Change:
    """Cover a square or a disc of one gray level, at a random place of each image, or at one place of all."""

    def change(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
        size, (rows, columns) = _whole(strength, images), _grid(images)
        anywhere = [random.integers(side - size + 1, size=(len(images), 1, 1, 1)) for side in images.shape[1:3]]
        top, left = [side // 3 for side in images.shape[1:3]] if fixed else anywhere
        down, right = abs(rows - top - (size - 1) / 2), abs(columns - left - (size - 1) / 2)
        inside = (np.hypot(down, right) if disc else np.maximum(down, right)) <= size / 2
        return np.where(inside, np.float32(level), images)

    return change


def pattern(bright: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Change:
    """Add as many levels as the strength to the pixels that are `bright`, by row and column, and take them from others.

    One period of a pattern is a number of pixels, however large the image is.
    """
    return lambda images, strength, random: images + np.float32(strength) * np.where(bright(*_grid(images)), 1, -1)


def checkerboard(size: int) -> Change:
    return pattern(lambda rows, columns: (rows // size + columns // size) % 2 == 0)


stripes = pattern(lambda rows, columns: (rows * 0 + columns) % 4 < 2)
weave = pattern(lambda rows, columns: ((rows + columns) % 4 < 2) ^ ((rows - columns) % 4 < 2))


def blend(other: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Change:
    """Return images to which another picture of each is blended, with the strength as its weight."""
    return lambda images, strength, random: images + np.float32(strength) * (other(images, random) - images)


def _level(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return random.integers(0, 2, images.shape).astype(np.float32)


def _noise(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return Gaussian noise with a standard deviation of 1."""
    return random.standard_normal(images.shape, np.float32)


def _blotches(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    field = _smooth(_noise(images, random), 3.0)
    return field / field.std()


# At a strength of 1 the picture takes the place of the image.
same = blend(lambda images, random: images)
mirrored = blend(lambda images, random: images[:, :, ::-1])
inverted = blend(lambda images, random: 255 - images)
another = blend(lambda images, random: images[random.permutation(len(images))])
noise_images = blend(lambda images, random: random.integers(0, 256, images.shape).astype(np.float32))
scanlines = blend(lambda images, random: images * (_grid(images)[0] % 2))
channels_swapped = blend(lambda images, random: np.roll(images, 1, axis=3))
# A level of noise, so that no two of these are the same image.
gray_images = blend(lambda images, random: random.integers(0, 255, (len(images), 1, 1, 1)) + _level(images, random))
black_images = blend(lambda images, random: _level(images, random))
mean_images = blend(lambda images, random: images.mean(axis=0) + _level(images, random))
# Here it is the difference that counts.
brightness = blend(lambda images, random: 2 * images)
contrast = blend(lambda images, random: 2 * images - images.mean(axis=(1, 2, 3), keepdims=True))
saturation = blend(lambda images, random: 2 * images - images.mean(axis=3, keepdims=True))
first_channel = blend(lambda images, random: images * (1 + (np.arange(images.shape[3]) == 0)))
ringing = blend(lambda images, random: 2 * images - _smooth(images, 1.0))  # an unsharp mask
noise = blend(lambda images, random: images + 127.5 * _noise(images, random))  # in the networks' scale
blotches = blend(lambda images, random: images + _blotches(images, random))


@blend
def mirrored_half(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    half = images.shape[2] // 2
    return np.concatenate([images[:, :, :-half], images[:, :, :half][:, :, ::-1]], axis=2)


@blend
def text(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    height, width = images.shape[1:3]
    canvas = Image.new("L", (width, height))
    font = ImageFont.load_default(size=max(6.0, 10 * _scale(images)))
    ImageDraw.Draw(canvas).text((width // 10, height // 3), "SALE", fill=255, font=font)
    return np.maximum(images, np.asarray(canvas, np.float32)[..., None])


def blur(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    return _smooth(images, strength)


def speckle(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Add up to so many levels to each pixel, or take them away."""
    return images + random.integers(-int(strength), int(strength) + 1, images.shape)


def salt_and_pepper(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    hit, level = random.random(images.shape[:3]) < strength, 255 * random.integers(0, 2, images.shape[:3])
    return np.where(hit[..., None], level[..., None], images)


def low_resolution(order: int) -> Change:
    """Shrink to a share of the size and enlarge again: order 0 is the nearest pixel, 1 bilinear."""

    def change(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
        height, width = images.shape[1:3]
        return _resized(_resized(images, round(height * strength), round(width * strength), 1), height, width, order)

    return change


def banding(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    return np.rint(images / 255 * (strength - 1)) * (255 / (strength - 1))


def jpeg(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Compress by JPEG, with the strength as quality."""
    decoded = []
    for image in images.astype(np.uint8):
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "JPEG", quality=int(strength))
        decoded.append(np.asarray(Image.open(file)))
    return np.stack(decoded).reshape(images.shape)


def frame(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    size, framed = _whole(strength, images), np.full_like(images, 255)
    framed[:, size:-size, size:-size] = images[:, size:-size, size:-size]
    return framed


def missing_rows(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    order = random.permuted(np.tile(np.arange(images.shape[1]), (len(images), 1)), axis=1)
    return images * (order >= _whole(strength, images))[:, :, None, None]


def other_below(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Take the lower part, of this share of the height, from another image."""
    below = _grid(images)[0] >= round(images.shape[1] * (1 - strength))
    return np.where(below, images[random.permutation(len(images))], images)


def tiles(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Cut each image into so many strips across and down, and shuffle both."""

    def shuffled(length: int) -> np.ndarray:
        strips = np.array_split(np.arange(length), int(strength))
        return np.concatenate([strips[at] for at in random.permutation(len(strips))])

    return np.stack([image[shuffled(image.shape[0])][:, shuffled(image.shape[1])] for image in images])


def rotated(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    return scipy.ndimage.rotate(images, strength, axes=(1, 2), reshape=False, order=1, mode="nearest")


def zoomed(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    size = _whole(strength, images)
    height, width = images.shape[1:3]
    return _resized(images[:, size:-size, size:-size], height, width, 1)


def shifted(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    size = _whole(strength, images)
    return np.concatenate([np.repeat(images[:, :, :1], size, axis=2), images[:, :, :-size]], axis=2)


def shifted_channel(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    return np.concatenate([shifted(images[..., :1], strength, random), images[..., 1:]], axis=3)


def warped(images: np.ndarray, strength: float, random: np.random.Generator) -> np.ndarray:
    """Warp elastically: the strength is the mean displacement, root mean square, which is smooth over four pixels."""
    places = np.indices(images.shape, np.float32)
    for axis in (1, 2):
        field = _smooth(_noise(images[..., :1], random), 4.0)
        places[axis] += strength * _scale(images) * field / field.std()
    return scipy.ndimage.map_coordinates(images, places, order=1, mode="nearest")
