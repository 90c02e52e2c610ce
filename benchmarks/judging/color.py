"""Square color pictures to train on, as folders of PNG files, and what is known of the drawn ones.

`photographs`: crops at random places of scikit-learn's two photographs of 427x640, without labels. Crops of the test
split overlap those of the training split, so copies mean nothing there.

`shapes`: one disc, square or triangle, labeled, of equal areas, on a ground that darkens downwards. These are known:

- hue of the ground: uniform;
- hue of the shape: opposite;
- radius of the disc of the same area: uniform from 10/64 to 20/64 of the side, so that areas are pi r^2;
- center: uniform where the disc fits in.

    python -m benchmarks.judging.color --output pictures
    python -m components preprocess --source pictures/shapes --height 64 --width 64 --dataset datasets
    python -m components embed --dataset datasets/KEY --embedding embeddings
    python -m benchmarks.judging.quality --dataset datasets/KEY --embedding embeddings/KEY --shapes ...
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

SIDE = 64  # by default
_FINER = 4  # shapes are drawn so many times as large, and shrunk, which smooths their edges
_RADII = (10 / 64, 20 / 64)  # of the side
_BINS = 12  # of hues
_AT_A_TIME = 100  # pictures measured together, which bounds memory


def crops(count: int, seed: int, side: int = SIDE) -> np.ndarray:
    """Cut uint8 [count, side, side, 3] out of the two photographs."""
    random = np.random.default_rng(seed)
    photographs = load_sample_images().images
    cut = np.empty((count, side, side, 3), np.uint8)
    for index in range(count):
        photograph = photographs[random.integers(len(photographs))]
        top, left = (random.integers(size - side + 1) for size in photograph.shape[:2])
        cut[index] = photograph[top : top + side, left : left + side]
    return cut


def shapes(count: int, seed: int, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Draw pictures uint8 [count, side, side, 3]; return them and the kind of each, 0 disc, 1 square, 2 triangle."""
    random = np.random.default_rng(seed)
    kinds = random.choice(3, count, p=(0.5, 0.3, 0.2))
    drawn = np.empty((count, side, side, 3), np.uint8)
    shade = np.linspace(0.9, 0.5, side)[:, np.newaxis, np.newaxis]
    smallest, largest = (share * side for share in _RADII)
    for index, kind in enumerate(kinds):
        hue, radius = random.uniform(0, 1), random.uniform(smallest, largest)
        mask = _mask(kind, radius, random.uniform(radius, side - radius, 2), side)[..., np.newaxis]
        drawn[index] = np.rint(255 * (mask * _color(hue + 0.5) + (1 - mask) * shade * _color(hue)))
    return drawn, kinds


def measure(images: np.ndarray) -> dict[str, float]:
    """Measure what is known of `shapes` in images uint8 [n, side, side, 3].

    `hues`: total variation between the hues of the ground and the uniform distribution, in twelve bins.
    `opposite`: share of images whose shape is within 30 degrees of the opposite hue.
    `area`, `area_deviation`: mean and standard deviation of the shape's area, in multiples of the known ones.
    `center_deviation`: standard deviation of its center, in multiples of the known one.
    """
    side = images.shape[1]
    parts = [_find_shapes(images[start : start + _AT_A_TIME]) for start in range(0, len(images), _AT_A_TIME)]
    ground, shape, area, row_sum = (np.concatenate(column) for column in zip(*parts, strict=True))
    seen = area > 0
    angle = np.angle(-shape[seen] * ground[seen].conj(), deg=True)
    bins = np.histogram(np.angle(ground), _BINS, (-np.pi, np.pi))[0] / len(images)
    rows = row_sum[seen] / area[seen]
    radii = np.random.default_rng(0).uniform(*_RADII, 1_000_000) * side
    areas, centers = np.pi * radii**2, side / 2 - radii  # half of the interval of the center
    return {
        "hues": float(np.abs(bins - 1 / _BINS).sum() / 2),
        "opposite": float((np.abs(angle) < 30).sum() / len(images)),
        "area": float(area.mean() / areas.mean()),
        "area_deviation": float(area.std() / areas.std()),
        "center_deviation": float(rows.std() / np.sqrt((centers**2).mean() / 3)),
    }


def _find_shapes(images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tell the shape of each image from its ground; return four arrays [n].

    The hues of ground and shape as complex numbers, the shape's pixels, and the sum of their rows' numbers.
    """
    hues, side = _hues(images), images.shape[1]
    edge = np.ones((side, side), bool)
    edge[2:-2, 2:-2] = False
    ground = hues[:, edge].mean(axis=1)
    mask = (hues * ground.conj()[:, np.newaxis, np.newaxis]).real < 0
    return ground, (hues * mask).sum(axis=(1, 2)), mask.sum(axis=(1, 2)), mask.sum(axis=2) @ np.arange(side)


def _mask(kind: int, radius: float, center: np.ndarray, side: int) -> np.ndarray:
    """Return the part of each pixel that a shape of the area of a disc covers, float64 [side, side]."""
    at = (np.arange(side * _FINER) + 0.5) / _FINER
    y, x = at[:, np.newaxis] - center[0], at[np.newaxis] - center[1]
    if kind == 0:
        inside = y**2 + x**2 < radius**2
    elif kind == 1:
        half = radius * np.sqrt(np.pi) / 2
        inside = (np.abs(y) < half) & (np.abs(x) < half)
    else:
        height = radius * np.sqrt(np.pi * np.sqrt(3))  # of an equilateral triangle, its centroid a third above the base
        inside = (y < height / 3) & (y > np.sqrt(3) * np.abs(x) - 2 / 3 * height)
    return np.asarray(inside.reshape(side, _FINER, side, _FINER).mean(axis=(1, 3)))


def _color(hue: float) -> np.ndarray:
    """Return red, green and blue from 0.2 to 1 of a hue in turns, by three cosines."""
    return 0.6 + 0.4 * np.cos(2 * np.pi * (hue - np.arange(3) / 3))


def _hues(images: np.ndarray) -> np.ndarray:
    """Return each pixel's hue as a complex number, whose size is its chroma: complex128 [n, side, side]."""
    turns: np.ndarray = images.astype(np.float64) @ np.exp(2j * np.pi * np.arange(3) / 3)
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--count", type=int, default=20_000, help="Pictures of each source.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=SIDE, help="Height and width of the pictures in pixels.")
    options = parser.parse_args()
    drawn, kinds = shapes(options.count, options.seed, options.side)
    print(f"what is known of the shapes, measured: {measure(drawn)}", flush=True)
    names = ("disc", "square", "triangle")
    for name in ("photographs", *(f"shapes/{name}" for name in names)):
        (options.output / name).mkdir(parents=True, exist_ok=True)
    cut = crops(options.count, options.seed, options.side)
    for index, (crop, shape, kind) in enumerate(zip(cut, drawn, kinds, strict=True)):
        Image.fromarray(crop).save(options.output / f"photographs/{index:05d}.png")
        Image.fromarray(shape).save(options.output / f"shapes/{names[kind]}/{index:05d}.png")


if __name__ == "__main__":
    main()
