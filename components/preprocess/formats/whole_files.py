"""Formats whose files are read whole, so that a file must fit into memory.

- MATLAB's files of version 5 to 7, as SVHN's: images uint8 [height, width, n] or [height, width, 3, n], and labels.
- CIFAR-10 and CIFAR-100 for Python (cs.toronto.edu/~kriz/cifar.html): pickles of dictionaries, in an archive or
  unpacked, with `data` uint8 [n, 3072], planes of red, green and blue. Nothing but numbers, text, lists, dictionaries
  and arrays is unpickled.
- CSV files of pixels, as Kaggle has MNIST and its successors: a row for each image, with gray from 0 to 255 of square
  images in columns such as `pixel0`, and perhaps a label. Without a header, as of EMNIST, the label is first.
"""

import functools
import io
import math
import pickle
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import first_names
from components.preprocess.formats import archives, labels, stacks
from components.preprocess.formats.folders import split_of
from components.preprocess.formats.labels import LabelChoice
from components.preprocess.formats.stacks import Example, Stack

_LARGEST = 1 << 29  # bytes of a batch of CIFAR; the largest has 155 MB
_CLASS_NAMES = {"labels": "label_names", "fine_labels": "fine_label_names", "coarse_labels": "coarse_label_names"}
_PIXEL = re.compile(r"(pixel|px|p)?_?\d+(x\d+)?", re.IGNORECASE)  # a column, such as `pixel0` or `28x28`
Fields = dict[str, Any]  # images uint8 [n, height, width] or [n, height, width, 3], labels and others, by name


def list_stacks(files: Iterable[SourceFile], choice: LabelChoice) -> Iterator[Stack]:
    """List the images of some files, or of the batches of CIFAR within archives, with the fields of their labels."""
    is_archive = source_listing.is_archive
    # Of an archive each batch of CIFAR, of another file all of it, under an empty name.
    places = [(file, member) for file in files for member in (_batches(file) if is_archive(file.name) else [""])]
    loaded = [(*place, {name: _without_values(values) for name, values in _load(*place).items()}) for place in places]
    meta = {name: names for _, _, fields in loaded for name, names in fields.items() if name in _CLASS_NAMES.values()}
    with_images = [(file, member, fields) for file, member, fields in loaded if not fields.keys() & meta.keys()]
    for file, member, fields in with_images:
        name = f"{file.name}[{member}]" if member else file.name
        images = [field for field, values in fields.items() if np.ndim(values) > 2 and values.dtype == np.uint8]
        if len(images) != 1:
            raise DataError(
                f"{name} has no single array of images, but {first_names([*fields]) or 'nothing'}; save images as PNG "
                "files or as arrays of uint8 in an NPZ file (a table of names goes with the folder of its images)"
            )
        count, *sides = fields[images[0]].shape
        others = [field for field, values in fields.items() if np.size(values) == count]
        label = labels.choose(name, others, choice, others[0] if len(others) == 1 else "")
        split = split_of(name.rpartition("/")[2]) if len(with_images) > 1 else "train"
        arrays = (member, images[0], *([label] if label else []))
        classes = tuple(map(str, meta.get(_CLASS_NAMES.get(label, ""), ())))
        shape = stacks.shape_of(name, (count, *sides))
        yield Stack(name=name, split=split, files=(file,), arrays=arrays, shape=shape, classes=classes)


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the images of a file with their labels; without images, empty ones."""
    member, image, *label = stack.arrays
    fields = _load(stack.files[0], member)
    values = np.ravel(fields[label[0]]).tolist() if label else [None] * len(fields[image])
    images = stacks.upright((pixels.tobytes() for pixels in fields[image]), stack)
    for content, value in zip(images, values, strict=True):
        yield content if with_images else b"", labels.label_of(stack.name, value)


def labels_in(where: str, content: bytes, choice: LabelChoice, count: int) -> list[Any]:
    """Return the labels that a MATLAB file has, one for each of `count` images elsewhere; else raise `DataError`."""
    fields = _of_matlab(where, content)
    vectors = [name for name, values in fields.items() if values.ndim <= 2 and values.size == max(values.shape)]
    label = labels.choose(where, vectors, choice, vectors[0] if len(vectors) == 1 else "")
    if not label:
        raise DataError(f"{where} has the arrays {', '.join(fields)}; say by --label-column which has the labels")
    values: list[Any] = fields[label].ravel().tolist()
    if len(values) != count:
        raise DataError(f"{where} has {len(values):,} labels for {count:,} images; they must be as many")
    return values


@functools.lru_cache(maxsize=1)  # an archive is unpacked to its end to be listed
def _batches(file: SourceFile) -> dict[str, archives.Member]:
    return {member.name: member for member in archives.list_members(file)[1] if source_listing.is_cifar(member.name)}


def _without_values(values: Any) -> Any:
    """Return zeros that take no memory in place of an array of images: those of all files may not fit."""
    return np.broadcast_to(values.dtype.type(0), values.shape) if np.ndim(values) > 2 else values


@functools.lru_cache(maxsize=1)  # a single file is listed, counted and read
def _load(file: SourceFile, member: str) -> Fields:
    with stacks.open_unpacked(file) as opened:
        if member:
            return _of_cifar(next(archives.read_members(file, [_batches(file)[member]], _LARGEST)))
        if source_listing.is_cifar(file.name):
            return _of_cifar(opened.read())
        return (_of_csv if file.name.lower().endswith(".csv") else _of_matlab)(file.name, opened.read())


def _of_matlab(where: str, content: bytes) -> Fields:
    from scipy.io import loadmat

    if content.startswith(b"\x89HDF") or b"MATLAB 7.3" in content[:128]:
        raise DataError(f"{where} is a MATLAB file of version 7.3; save it by `save -v7`, or its arrays as NPZ")
    try:
        arrays = {name: array for name, array in loadmat(io.BytesIO(content)).items() if isinstance(array, np.ndarray)}
    except Exception as error:  # SciPy raises nearly anything on a damaged file
        raise DataError(f"{where} is no MATLAB file of version 5 to 7, or damaged: {error}") from None
    return {name: np.moveaxis(array, -1, 0) if array.ndim > 2 else array for name, array in arrays.items()}


def _of_cifar(content: bytes) -> Fields:
    batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    fields = {name.decode(): np.asarray(value) for name, value in batch.items()}
    if "data" in fields:
        fields["data"] = fields["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    for names in fields.keys() & _CLASS_NAMES.values():
        fields[names] = np.array([printable(name.decode()) for name in fields[names].tolist()])
    return fields


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # bytes, as Python 3 writes them for Python 2
            return lambda text, _: text.encode("latin1")
        if (module.replace("_core", "core"), name) == ("numpy.core.multiarray", "_reconstruct"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]  # NumPy's stubs leave it out
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise DataError(f"a pickle holds {module}.{name}, which may run a program; save the arrays as NPZ")


def _of_csv(where: str, content: bytes) -> Fields:
    first, _, rows = content.partition(b"\n")
    names = [printable(cell.strip(' "\r')) for cell in first.decode("utf-8-sig").split(",")]
    has_header = not all(name.isdigit() for name in names)
    if not has_header:
        has_label = math.isqrt(len(names)) ** 2 != len(names)
        names = ["label"] * has_label + ["0"] * (len(names) - has_label)
    pixels = [number for number, name in enumerate(names) if _PIXEL.fullmatch(name)]
    side = math.isqrt(len(pixels))
    if side < 2 or side * side != len(pixels) or (has_header and not rows.strip()):
        return dict.fromkeys(names)
    values = np.loadtxt(io.BytesIO(content), np.int16, delimiter=",", quotechar='"', skiprows=int(has_header), ndmin=2)
    images = values[:, pixels]
    if images.min() < 0 or images.max() > 255:
        raise DataError(f"{where} has pixels from {images.min()} to {images.max()}, expected 0 to 255")
    others = {name: values[:, number] for number, name in enumerate(names) if number not in pixels}
    return {"pixels": images.reshape(-1, side, side).astype(np.uint8), **others}
