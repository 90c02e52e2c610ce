"""What a source holds, told before anything is decoded: its parts, classes, splits, shape; and reading the parts."""

import csv
import dataclasses
import gzip
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

from components import records, sources
from components.errors import DataError
from components.preprocess import idx, pixels
from components.preprocess.examples import Original
from components.records import ImageShape
from components.sources import Listing, SourceFile

log = logging.getLogger(__name__)

# github.com/zalandoresearch/fashion-mnist, "Labels"; told by the sha256 of the training labels, unpacked.
FASHION_MNIST_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip
_FASHION_MNIST_LABELS = "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
_SPLIT_FOLDERS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
_FILES_AT_ONCE = 100
_BYTES_AT_ONCE = 32 << 20
_NAMES_SHOWN = 5
_DIGITS_COUNT = 1797
_IMAGES_DEFAULT = ImageShape(64, 64, 3)


@dataclasses.dataclass(frozen=True)
class DigitsPart:
    """All of scikit-learn's digits."""


@dataclasses.dataclass(frozen=True)
class IdxPart:
    """One split of IDX files; `label_values` are the values that stand for labels 0, 1, ... in them."""

    pair: idx.IdxPair
    label_values: bytes


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]


Part = DigitsPart | IdxPart | ImagesPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source holds.

    Attributes:
        kind: `digits`, `idx` or `images`.
        parts: What `read` reads, each on whatever machine.
        counts: Number of images in each split that the source has.
        classes: Names of the classes by label; empty where there are none.
        stored: Shape of images kept as plain pixels; None for image files.
        natural: The shape that the dataset's images have unless another is asked for.
    """

    kind: str
    parts: list[Part]
    counts: dict[str, int]
    classes: list[str]
    stored: ImageShape | None
    natural: ImageShape


def survey(place: str, listing: Listing | None = None) -> Survey:
    """Surveys `digits`, or a folder or URI.

    Args:
        place: Which.
        listing: Its files, if they were listed already.

    Raises:
        DataError: The source holds no images, or contradicts itself.
    """
    if place == sources.DIGITS:
        shape, classes = ImageShape(8, 8, 1), [str(digit) for digit in range(10)]
        counts = {"train": _DIGITS_COUNT}
        return Survey(kind=place, parts=[DigitsPart()], counts=counts, classes=classes, stored=shape, natural=shape)
    listing = listing or sources.list_source(place)
    return _survey_idx(listing.files) if listing.kind == sources.IDX else _survey_images(place, listing.files)


def read(part: Part) -> Iterator[list[Original]]:
    """Yields the images of one part, some at a time.

    Raises:
        DataError: A file is damaged or gone.
    """
    match part:
        case DigitsPart():
            yield _read_digits()
        case IdxPart():
            yield from _read_idx(part)
        case ImagesPart():
            yield from _read_images(part)


def _survey_idx(files: list[SourceFile]) -> Survey:
    pairs = idx.pair_files(files)
    counts, shapes, labels = {}, {}, {}
    for pair in pairs:
        counts[pair.split], shapes[pair.images.name] = idx.describe_images(pair.images)
        if pair.labels is not None:
            count = idx.count_labels(pair.labels)
            if count != counts[pair.split]:
                raise DataError(
                    f"{pair.images.name} has {counts[pair.split]:,} images, "
                    f"{pair.labels.name} has {count:,} labels; they must be as many"
                )
            labels[pair.split] = idx.read_labels(pair.labels)
    if len(set(shapes.values())) > 1:
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DataError(f"the images of all splits must have one shape: {described}")
    values = bytes(sorted(set().union(*labels.values())))
    shape = next(iter(shapes.values()))
    return Survey(
        kind=sources.IDX,
        parts=[IdxPart(pair, values) for pair in pairs],
        counts=counts,
        classes=_idx_classes(values, labels.get("train", b"")),
        stored=shape,
        natural=shape,
    )


def _idx_classes(values: bytes, train_labels: bytes) -> list[str]:
    header = b"\0\0\x08\x01" + len(train_labels).to_bytes(4)
    if hashlib.sha256(header + train_labels).hexdigest() == _FASHION_MNIST_LABELS:
        return FASHION_MNIST_CLASSES
    return [str(value) for value in values]


def _read_idx(part: IdxPart) -> Iterator[list[Original]]:
    file, split = part.pair.images, part.pair.split
    labels = b"" if part.pair.labels is None else idx.read_labels(part.pair.labels)
    label_of = {value: label for label, value in enumerate(part.label_values)}
    start = 0
    for images in idx.read_images(file):
        numbers = range(start, start + len(images))
        yield [
            Original(f"{file.name}[{n}]", split, label_of[labels[n]] if labels else records.NO_LABEL, image)
            for n, image in zip(numbers, images, strict=True)
        ]
        start += len(images)


def _survey_images(place: str, files: list[SourceFile]) -> Survey:
    split_folders = _has_split_folders(files)
    found = [(file, *_split_and_class(place, file, split_folders)) for file in files]
    classes = sorted({name for _, _, name in found if name})
    if classes and any(not name for _, _, name in found):
        loose = next(file.name for file, _, name in found if not name)
        raise DataError(
            f"{place} has images within class folders and beside them ({loose}); move them all into folders"
        )
    empty = _folders_without_images(place, files, split_folders) if classes else []
    if empty:
        shown = ", ".join(empty[:_NAMES_SHOWN])
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), place, shown)
    label_of = {name: label for label, name in enumerate(classes)} | {"": records.NO_LABEL}
    labelled = [(file, split, label_of[name]) for file, split, name in found]
    counts: dict[str, int] = {}
    for _, split, _ in labelled:
        counts[split] = counts.get(split, 0) + 1
    if "train" not in counts:
        raise DataError(f"{place} has images for {' and '.join(counts)} but none in a folder `train`")
    starts = range(0, len(labelled), _FILES_AT_ONCE)
    return Survey(
        kind=sources.IMAGES,
        parts=[ImagesPart(tuple(labelled[start : start + _FILES_AT_ONCE])) for start in starts],
        counts=counts,
        classes=classes,
        stored=None,
        natural=_IMAGES_DEFAULT,
    )


def _folders_without_images(place: str, files: list[SourceFile], split_folders: bool) -> list[str]:
    """Folders where classes are, of a source on this machine, that hold no image."""
    if sources.is_uri(place):
        return []
    depth = 2 if split_folders else 1
    with_images = {tuple(file.name.split("/")[:depth]) for file in files if file.name.count("/") >= depth}
    found = (path.relative_to(place) for path in Path(place).glob("/".join("*" * depth)) if path.is_dir())
    parts = [tuple(sources.printable(part) for part in path.parts) for path in found]
    return sorted("/".join(path) for path in parts if path not in with_images and not path[-1].startswith("."))


def _has_split_folders(files: list[SourceFile]) -> bool:
    return any("/" in file.name and file.name.split("/")[0] in _SPLIT_FOLDERS for file in files)


def _split_and_class(place: str, file: SourceFile, split_folders: bool) -> tuple[str, str]:
    """The split of an image file, and its class: the first folder below the split; empty where there is none."""
    folders = file.name.split("/")[:-1]
    if not split_folders:
        return "train", folders[0] if folders else ""
    if not folders or folders[0] not in _SPLIT_FOLDERS:
        raise DataError(
            f"{place} has folders for splits ({', '.join(_SPLIT_FOLDERS)}) but also {file.name}; "
            "move it into one of them (a class of such a name goes within a folder `train`)"
        )
    return _SPLIT_FOLDERS[folders[0]], folders[1] if len(folders) > 1 else ""


def _read_images(part: ImagesPart) -> Iterator[list[Original]]:
    """Yields some images at a time, of no more bytes together than `_BYTES_AT_ONCE` or than one file has."""
    found: list[Original] = []
    size = 0
    for file, split, label in part.images:
        content = _content(file)
        if found and size + len(content) > _BYTES_AT_ONCE:
            yield found
            found, size = [], 0
        found.append(Original(file.name, split, label, content, file))
        size += len(content)
    if found:
        yield found


def _content(file: SourceFile) -> bytes:
    """What a file holds; of one that is too large to be decoded, enough to tell."""
    with sources.open_file(file.place, file.checksum) as opened:
        return opened.read(pixels.LARGEST_FILE + 1)


def _read_digits() -> list[Original]:
    with gzip.open(sources.digits_file(), "rt", encoding="ascii", newline="") as file:
        rows = [[int(float(value)) for value in row] for row in csv.reader(file)]
    # 0..16 becomes 0..255, to the nearest
    return [
        Original(f"{sources.DIGITS}[{n}]", "train", row[64], bytes((value * 255 + 8) // 16 for value in row[:64]))
        for n, row in enumerate(rows)
    ]
