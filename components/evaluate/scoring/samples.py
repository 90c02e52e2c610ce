"""Images that another model drew, from a file of arrays or a folder of image files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from components.core import settings
from components.core.artifacts.datasets import Manifest
from components.core.data import pixels
from components.core.errors import DataError
from components.evaluate.scoring import scores


class Samples(NamedTuple):
    images: np.ndarray  # uint8 [n, height, width, channels]
    labels: np.ndarray | None  # whole numbers [n], indices of the dataset's classes; None if the images have none


def read(setting: str, path: Path, manifest: Manifest, count: int, seed: int) -> Samples:
    """Read samples, at most `count`, in an order that the seed decides; `DataError` if they do not fit the dataset.

    Scores need a random order, and most folders and files are in that of the classes.
    """
    title = f"{setting} {path}"
    stored: Sequence[Path] | np.ndarray
    stored, labels = (_in_folder if path.is_dir() else _in_file)(title, path, manifest)
    if len(stored) < scores.LEAST:
        raise DataError(f"{title} has {len(stored)} images, expected at least {scores.LEAST} to judge by; draw more")
    order = np.random.default_rng(seed).permutation(len(stored))[:count]
    chosen = (stored[number] for number in order)
    images = [one if isinstance(one, np.ndarray) else _decoded(title, one, manifest) for one in chosen]
    return Samples(np.stack(images), None if labels is None else labels[order])


def _in_folder(title: str, folder: Path, manifest: Manifest) -> tuple[list[Path], np.ndarray | None]:
    """Return the files of a folder but hidden ones, and the labels that folders in it give them."""
    files, names = list[Path](), list[str]()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            files.append(path)
            names.append(parts[0] if len(parts) > 1 else "")
    if not any(names):
        return files, None
    for name in names:
        if name not in manifest.classes:
            problem = settings.unknown("folder", name, manifest.classes) if name else "files beside its folders"
            raise DataError(f"{title} has {problem}; expected a folder for each class of the dataset, or no folders")
    return files, np.array([manifest.classes.index(name) for name in names])


def _decoded(title: str, file: Path, manifest: Manifest) -> np.ndarray:
    """Return an image in the dataset's shape, fitted as the dataset's own were."""
    shape, how = manifest.image, manifest.preprocessing
    try:
        image = pixels.from_file(file.read_bytes(), shape, how["resize"], (how.get("background", "white"), 0)).pixels
    except pixels.UndecodableImage as error:
        raise DataError(f"{title} has a file that cannot be used: {file} {error}; repair or remove it") from None
    return np.frombuffer(image, np.uint8).reshape(shape.height, shape.width, shape.channels)


def _in_file(title: str, path: Path, manifest: Manifest) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the images of an NPZ file, and their labels if it has any."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            images, labels = (arrays.get(name) for name in ("images", "labels"))
    except Exception as error:  # NumPy raises nearly anything on a damaged file
        raise DataError(f"{title} cannot be read as an NPZ file: {error}; write it by numpy.savez") from None
    shape, classes = manifest.image, len(manifest.classes)
    sides = (shape.height, shape.width, shape.channels)
    if images is not None and images.shape[1:] == sides[:2] and shape.channels == 1:
        images = images[..., None]
    is_fit = images is not None and images.dtype == np.uint8 and images.shape[1:] == sides
    if is_fit and labels is not None:
        is_fit = labels.dtype.kind in "iu" and labels.shape == images.shape[:1] and {*labels} <= {*range(classes)}
    if not is_fit:
        arrays = {"images": images, "labels": labels}
        content = [f"{name} {array.dtype} {[*array.shape]}" for name, array in arrays.items() if array is not None]
        expected = f"images uint8 [n, {', '.join(map(str, sides))}] and, if any, labels int64 [n] below {classes}"
        raise DataError(
            f"{title} has {' and '.join(content) or 'neither'}, but the dataset needs {expected}; convert it"
        )
    return images, labels
