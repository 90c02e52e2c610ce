"""What a source holds, told before anything is decoded: its parts, classes, splits, shape; and reading the parts."""

import csv
import dataclasses
import gzip
import hashlib
import itertools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from components import buckets, records, sources
from components.errors import DataError
from components.long_lists import LongList
from components.preprocess import archives, idx, labels, npz, pixels, tfrecords
from components.preprocess.archives import Member
from components.preprocess.decoder import IMAGES_AT_ONCE
from components.preprocess.examples import Original
from components.records import ImageShape
from components.sources import Listing, SourceFile

log = logging.getLogger(__name__)

# github.com/zalandoresearch/fashion-mnist, "Labels"; told by the sha256 of the training labels, unpacked.
FASHION_MNIST_CLASSES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip
_FASHION_MNIST_LABELS = "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
_BYTES_AT_ONCE = 1 << 20
_NAMES_SHOWN = 5
_DIGITS_COUNT = 1797
_IMAGES_DEFAULT = ImageShape(64, 64, 3)


@dataclasses.dataclass(frozen=True)
class DigitsPart:
    """All of scikit-learn's digits."""


@dataclasses.dataclass(frozen=True)
class IdxPart:
    """The images from `start` to before `stop` of an IDX file.

    `labels` has a byte for each, or is empty if there are none; `label_values` are the values that stand for labels 0,
    1, ... in them.
    """

    images: SourceFile
    split: str
    start: int
    stop: int
    labels: bytes
    label_values: bytes


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """Some images of an archive, in the order in which they lie there, each with its split and label."""

    file: SourceFile
    members: tuple[tuple[Member, str, int], ...]


@dataclasses.dataclass(frozen=True)
class NpzPart:
    """The images from `start` to before `stop` of an array, and their labels, 32 bit each; empty if there are none."""

    images: npz.Images
    start: int
    stop: int
    labels: bytes


@dataclasses.dataclass(frozen=True)
class TfrecordPart:
    """Some examples of a TFRecord file, and their labels, 32 bit each."""

    examples: tfrecords.Examples
    split: str
    labels: bytes


Part = DigitsPart | IdxPart | ImagesPart | ArchivePart | NpzPart | TfrecordPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source holds.

    Attributes:
        kind: `digits`, or that of the source's `Listing`.
        parts: What `read` reads, each on whatever machine.
        counts: Number of images in each split that the source has.
        classes: Names of the classes by label; empty where there are none.
        stored: Shape of images kept as plain pixels; None for image files.
        natural: The shape that the dataset's images have unless another is asked for.
    """

    kind: str
    parts: Iterable[Part]
    counts: dict[str, int]
    classes: list[str]
    stored: ImageShape | None
    natural: ImageShape


def survey(place: str, listing: Listing | None = None) -> Survey:
    """Surveys `digits`, or files.

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
    match listing.kind:
        case sources.IDX:
            return _survey_idx([*listing.files])
        case sources.TFRECORDS:
            return _survey_tfrecords(place, [*listing.files])
        case sources.ARRAYS:
            return _survey_npz(place, [*listing.files])
        case sources.ARCHIVES:
            return _survey_archives(place, listing)
        case _:
            return _survey_images(place, listing)


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
        case ArchivePart():
            yield from _read_archive(part)
        case NpzPart():
            yield from _read_npz(part)
        case TfrecordPart():
            yield from _read_tfrecords(part)


def _survey_idx(files: list[SourceFile]) -> Survey:
    pairs = idx.pair_files(files)
    counts, shapes, values_of = {}, {}, {}
    for pair in pairs:
        counts[pair.split], shapes[pair.images.name] = idx.describe_images(pair.images)
        if pair.labels is not None:
            count = idx.count_labels(pair.labels)
            if count != counts[pair.split]:
                raise DataError(
                    f"{pair.images.name} has {counts[pair.split]:,} images, "
                    f"{pair.labels.name} has {count:,} labels; they must be as many"
                )
            values_of[pair.split] = idx.read_labels(pair.labels)
    _require_one_shape(shapes)
    values, shape = bytes(sorted(set().union(*values_of.values()))), next(iter(shapes.values()))
    parts: list[Part] = []
    for pair in pairs:
        count, of_split = counts[pair.split], values_of.get(pair.split, b"")
        at_once = idx.images_at_once(shape) if idx.can_be_read_from_the_middle(pair.images) else count
        for start in range(0, count, at_once):
            stop = min(start + at_once, count)
            parts.append(IdxPart(pair.images, pair.split, start, stop, of_split[start:stop], values))
    return Survey(
        kind=sources.IDX,
        parts=parts,
        counts=counts,
        classes=_idx_classes(values, values_of.get("train", b"")),
        stored=shape,
        natural=shape,
    )


def _require_one_shape(shapes: dict[str, ImageShape]) -> None:
    """Refuses shapes that differ, by the files or arrays that have them."""
    if len(set(shapes.values())) > 1:
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DataError(f"the images of all splits must have one shape: {described}")


def _idx_classes(values: bytes, train_labels: bytes) -> list[str]:
    header = b"\0\0\x08\x01" + len(train_labels).to_bytes(4)
    if hashlib.sha256(header + train_labels).hexdigest() == _FASHION_MNIST_LABELS:
        return FASHION_MNIST_CLASSES
    return [str(value) for value in values]


def _read_idx(part: IdxPart) -> Iterator[list[Original]]:
    label_of = {value: label for label, value in enumerate(part.label_values)}
    labels_of = [label_of[value] for value in part.labels] or [records.NO_LABEL] * (part.stop - part.start)
    number = part.start
    for images in idx.read_images(part.images, part.start, part.stop):
        some = labels_of[number - part.start :][: len(images)]
        yield [
            Original(f"{part.images.name}[{n}]", part.split, label, image)
            for n, (image, label) in enumerate(zip(images, some, strict=True), number)
        ]
        number += len(images)


def _survey_npz(place: str, files: list[SourceFile]) -> Survey:
    arrays = [images for file in files for images in npz.list_images(file)]
    _require_one_shape({f"{images.file.name}[{images.array}]": images.shape for images in arrays})
    unlabelled = [images for images in arrays if not images.labels]
    if unlabelled and len(unlabelled) < len(arrays):
        raise DataError(
            f"{place} has labels, but none for {unlabelled[0].array} of {unlabelled[0].file.name}; add them, or take "
            "all labels away"
        )
    values_of = [npz.read_labels(images) if images.labels else np.empty(0, int) for images in arrays]
    values = sorted(set[int]().union(*(np.unique(found).tolist() for found in values_of)))
    counts: dict[str, int] = {}
    parts: list[Part] = []
    for images, found in zip(arrays, values_of, strict=True):
        counts[images.split] = counts.get(images.split, 0) + images.count
        label_of = np.searchsorted(values, found).astype("<i4")
        at_once = npz.images_at_once(images) if images.offset is not None else images.count
        for start in range(0, images.count, at_once):
            stop = min(start + at_once, images.count)
            parts.append(NpzPart(images, start, stop, label_of[start:stop].tobytes()))
    if "train" not in counts:
        raise DataError(f"{place} has images for {' and '.join(counts)} but none to train on; call their array x_train")
    shape = arrays[0].shape
    return Survey(
        kind=sources.ARRAYS,
        parts=parts,
        counts=counts,
        classes=[str(value) for value in values],
        stored=shape,
        natural=shape,
    )


def _read_npz(part: NpzPart) -> Iterator[list[Original]]:
    name, split = f"{part.images.file.name}[{part.images.array}]", part.images.split
    labels_of = np.frombuffer(part.labels, "<i4").tolist()
    number = part.start
    for images in npz.read_images(part.images, part.start, part.stop):
        numbers = range(number, number + len(images))
        yield [
            Original(f"{name}[{n}]", split, labels_of[n - part.start] if labels_of else records.NO_LABEL, image)
            for n, image in zip(numbers, images, strict=True)
        ]
        number += len(images)


def _survey_tfrecords(place: str, files: list[SourceFile]) -> Survey:
    entries_of = [(file, tfrecords.list_examples(file)) for file in files]
    values = sorted({entry.label for _, entries in entries_of for entry in entries if entry.label is not None})
    for file, entries in entries_of:
        number = next((number for number, entry in enumerate(entries) if entry.label is None), None)
        if values and number is not None:
            raise DataError(
                f"{place} has labels, but none for record {number} of {file.name}; give one to all or to none"
            )
    label_of: dict[int | None, int] = {value: label for label, value in enumerate(values)} | {None: records.NO_LABEL}
    counts: dict[str, int] = {}
    parts: LongList[Part] = LongList()
    for file, entries in entries_of:
        split = tfrecords.split_of(file) if len(files) > 1 else "train"
        counts[split] = counts.get(split, 0) + len(entries)
        at_once = IMAGES_AT_ONCE if tfrecords.can_be_read_from_the_middle(file) else max(1, len(entries))
        remaining, first = iter(entries), 0
        while some := [*itertools.islice(remaining, at_once)]:
            labels_of_some = np.array([label_of[entry.label] for entry in some], "<i4").tobytes()
            parts.append(
                TfrecordPart(tfrecords.Examples(file, first, some[0].offset, len(some)), split, labels_of_some)
            )
            first += len(some)
    if not len(parts):
        raise DataError(f"{place} has no record in its TFRecord files")
    if not counts.get("train"):
        raise DataError(f"{place} has images for {' and '.join(counts)} but no file with train in its name")
    return Survey(
        kind=sources.TFRECORDS,
        parts=parts,
        counts=counts,
        classes=[str(value) for value in values],
        stored=None,
        natural=_IMAGES_DEFAULT,
    )


def _read_tfrecords(part: TfrecordPart) -> Iterator[list[Original]]:
    name, first = part.examples.file.name, part.examples.first
    read_again = zip(tfrecords.read_examples(part.examples), np.frombuffer(part.labels, "<i4").tolist(), strict=True)
    return _some_at_a_time(
        Original(f"{name}[{number}]", part.split, label, example.image)
        for number, (example, label) in enumerate(read_again, first)
    )


def _survey_images(place: str, listing: Listing) -> Survey:
    names = LongList(file.name for file in listing.files)
    table = labels.read_table(listing.labels) if listing.labels else None
    found = labels.labelled(place, names, table)
    empty = _folders_without_images(place, names) if found.classes and table is None else []
    if empty:
        shown = ", ".join(empty[:_NAMES_SHOWN])
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), place, shown)
    return Survey(
        kind=sources.IMAGES,
        parts=ImageParts(listing.files, found),
        counts=found.counts,
        classes=found.classes,
        stored=None,
        natural=_IMAGES_DEFAULT,
    )


class ImageParts:
    """The parts of a source of image files, made as they are asked for, as there may be more than memory holds.

    Args:
        files: The files.
        labelled: Where they belong.
    """

    def __init__(self, files: LongList[SourceFile], labelled: labels.Labelled) -> None:
        self._files, self._labelled = files, labelled

    def are_hashed(self) -> bool:
        """Whether the sha256 of each file is known: of all or of none, as a source lies on this machine or not."""
        return all(file.sha256 for file in itertools.islice(self._files, 1))

    def __iter__(self) -> Iterator[ImagesPart]:
        files = iter(self._files)
        while some := [*itertools.islice(files, IMAGES_AT_ONCE)]:
            places = self._labelled.each(file.name for file in some)
            yield ImagesPart(tuple((file, *place) for file, place in zip(some, places, strict=True)))


def _folders_without_images(place: str, names: LongList[str]) -> list[str]:
    """Folders where classes are, of a source on this machine, that hold no image."""
    if buckets.is_uri(place):
        return []
    depth = 2 if labels.has_split_folders(names) else 1
    with_images = {tuple(name.split("/")[:depth]) for name in names if name.count("/") >= depth}
    found = (path.relative_to(place) for path in Path(place).glob("/".join("*" * depth)) if path.is_dir())
    parts = [tuple(sources.printable(part) for part in path.parts) for path in found]
    return sorted("/".join(path) for path in parts if path not in with_images and not path[-1].startswith("."))


def _survey_archives(place: str, listing: Listing) -> Survey:
    held = [(file, *archives.list_members(file)) for file in listing.files]
    names = _names_in_archives([(file, [member.name for member in members]) for file, members, _ in held])
    if not names:
        raise DataError(f"{place} holds archives without images; expected PNG, JPEG or WebP files in them")
    found = labels.labelled(place, names, _table_of_archives(listing, held))
    split_and_label, parts = found.each(names), list[Part]()
    for file, members, _ in held:
        images = [(member, *next(split_and_label)) for member in members]
        at_once = IMAGES_AT_ONCE if archives.can_be_read_from_the_middle(file) else max(1, len(images))
        starts = range(0, len(images), at_once)
        parts += [ArchivePart(file, tuple(images[start : start + at_once])) for start in starts]
    return Survey(
        kind=sources.ARCHIVES,
        parts=parts,
        counts=found.counts,
        classes=found.classes,
        stored=None,
        natural=_IMAGES_DEFAULT,
    )


def _names_in_archives(held: list[tuple[SourceFile, list[str]]]) -> list[str]:
    """The paths of images as if each archive were unpacked into the folder where it lies, `train.zip` into `train`.

    A folder at the top that holds all there is, as archives of a folder have one, is passed over.
    """
    tops = {name.partition("/")[0] if "/" in name else "" for _, names in held for name in names}
    passed_over = len(tops) == 1 and "" not in tops and not tops & labels.SPLIT_FOLDERS.keys()
    found = []
    for file, names in held:
        *folders, name = file.name.split("/")
        stem = name.partition(".")[0]
        if stem in labels.SPLIT_FOLDERS and not labels.has_split_folders([*names, file.name]):
            folders.append(stem)
        within = [name.partition("/")[2] for name in names] if passed_over else names
        found += ["/".join([*folders, name]) for name in within]
    return found


def _table_of_archives(
    listing: Listing, held: list[tuple[SourceFile, list[Member], Member | None]]
) -> dict[str, labels.Row] | None:
    """What `labels.csv` says, beside the archives or within the only one."""
    within = [(file, table) for file, _, table in held if table is not None]
    if listing.labels is not None:
        return labels.read_table(listing.labels)
    if len(within) > 1 or (within and len(held) > 1):
        raise DataError(
            f"{within[0][0].name} has a {sources.LABELS} and is not the only archive; put one for all beside them"
        )
    for file, table in within:
        (content,) = archives.read_members(file, [table])
        return labels.parsed_table(f"{file.name}/{table.name}", content)
    return None


def _read_images(part: ImagesPart) -> Iterator[list[Original]]:
    most = pixels.LARGEST_FILE

    def content(file: SourceFile) -> bytes:
        # One that has grown since it was listed is read as far as shows that.
        return b"" if file.bytes > most else sources.content_of(file, most + 1)

    return _some_at_a_time(Original(file.name, split, label, content(file), file) for file, split, label in part.images)


def _read_archive(part: ArchivePart) -> Iterator[list[Original]]:
    contents = archives.read_members(part.file, [member for member, _, _ in part.members])
    return _some_at_a_time(
        Original(f"{part.file.name}/{member.name}", split, label, content)
        for (member, split, label), content in zip(part.members, contents, strict=True)
    )


def _some_at_a_time(originals: Iterable[Original]) -> Iterator[list[Original]]:
    """Yields as many together as have `_BYTES_AT_ONCE`, or one that has more, and no more than `IMAGES_AT_ONCE`."""
    found: list[Original] = []
    size = 0
    for original in originals:
        if found and (size + len(original.content) > _BYTES_AT_ONCE or len(found) == IMAGES_AT_ONCE):
            yield found
            found, size = [], 0
        found.append(original)
        size += len(original.content)
    if found:
        yield found


def _read_digits() -> list[Original]:
    with gzip.open(sources.digits_file(), "rt", encoding="ascii", newline="") as file:
        rows = [[int(float(value)) for value in row] for row in csv.reader(file)]
    # 0..16 becomes 0..255, to the nearest
    return [
        Original(f"{sources.DIGITS}[{n}]", "train", row[64], bytes((value * 255 + 8) // 16 for value in row[:64]))
        for n, row in enumerate(rows)
    ]
