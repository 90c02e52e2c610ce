"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import functools
import gzip
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources import sources
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, content_of, printable
from components.core.sources.sources import Listing
from components.core.storage import buckets
from components.preprocess.decode import pixels
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import archives, idx, labels, npz, tfrecords
from components.preprocess.formats.archives import Member
from components.preprocess.formats.stacks import Stack

log = logging.getLogger(__name__)

_FILES_AT_ONCE = IMAGES_AT_ONCE, 1 << 20  # images, bytes
_PIXELS_AT_ONCE = 1000, 16 << 20
_NAMES_SHOWN = 5
_DIGITS_COUNT = 1797
_IMAGES_DEFAULT = ImageShape(64, 64, 3)


class Original(NamedTuple):
    """One image as the source holds it: its name there, the split it was found in, its label, its bytes.

    `file` is where they were read from, if they are a file by themselves.
    """

    name: str
    split: str
    label: int
    content: bytes
    file: SourceFile | None = None

    @property
    def is_unread(self) -> bool:
        """Whether it is a file that is too large to be decoded; its content is empty."""
        return self.file is not None and self.file.bytes > pixels.LARGEST_FILE


class Part(Protocol):
    """Some images of a source, which one worker reads."""

    @property
    def count(self) -> int:
        """Number of images; 0 for a whole file."""

    @property
    def has_pixels(self) -> bool:
        """Whether contents are plain pixels, not image files."""

    def originals(self) -> Iterator[Original]:
        """Yield the images; `DataError` if a file is damaged or missing."""


@dataclasses.dataclass(frozen=True)
class DigitsPart:
    """All of scikit-learn's digits."""

    count = 0
    has_pixels = True

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        with gzip.open(sources.digits_file(), "rt", encoding="ascii", newline="") as file:
            for number, cells in enumerate(csv.reader(file)):
                *pixels_to_16, label = (int(float(cell)) for cell in cells)
                content = bytes((value * 255 + 8) // 16 for value in pixels_to_16)  # 0..16 becomes 0..255, rounded
                yield Original(f"{sources.DIGITS}[{number}]", "train", label, content)


@dataclasses.dataclass(frozen=True)
class StackPart:
    """All images of a stack, and the values that stand for labels 0, 1, ... in all stacks of the source."""

    stack: Stack
    values: tuple[int, ...]
    count = 0

    @property
    def has_pixels(self) -> bool:
        """Whether contents are plain pixels, not image files."""
        return self.stack.shape is not None

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        label_of: dict[int | None, int] = {value: label for label, value in enumerate(self.values)}
        label_of |= {None: datasets.NO_LABEL}
        for number, (content, value) in enumerate(self.stack.examples()):
            if value not in label_of:
                raise DataError(f"{self.stack.name} has a new label {value}; the source changed while it was read")
            yield Original(f"{self.stack.name}[{number}]", self.stack.split, label_of[value], content)


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]
    has_pixels = False

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.images)

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        most = pixels.LARGEST_FILE
        for file, split, label in self.images:
            # One that has grown since it was listed is read as far as shows that.
            content = b"" if file.bytes > most else content_of(file, most + 1)
            yield Original(file.name, split, label, content, file)


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """Some images of an archive, in the order in which they lie there, each with its split and label."""

    file: SourceFile
    members: tuple[tuple[Member, str, int], ...]
    has_pixels = False

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.members)

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        contents = archives.read_members(self.file, [member for member, _, _ in self.members])
        for (member, split, label), content in zip(self.members, contents, strict=True):
            yield Original(f"{self.file.name}/{member.name}", split, label, content)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source holds."""

    kind: str  # `digits`, or that of the source's `Listing`
    parts: Iterable[Part]  # each can be read on another machine
    counts: dict[str, int]  # number of images in each split that the source has
    classes: list[str]  # names of the classes by label; empty if there are none
    stored: ImageShape | None = None  # shape of images kept as plain pixels; None for image files

    @property
    def natural(self) -> ImageShape:
        """The shape that the dataset's images have unless another is asked for."""
        return self.stored or _IMAGES_DEFAULT


def survey(place: str, listing: Listing | None = None) -> Survey:
    """Survey `digits`, or files.

    Args:
        place: Which.
        listing: Its files, if they were listed already.

    Raises:
        DataError: The source holds no images, or contradicts itself.
    """
    if place == sources.DIGITS:
        classes = [str(digit) for digit in range(10)]
        counts = {"train": _DIGITS_COUNT}
        return Survey(kind=place, parts=[DigitsPart()], counts=counts, classes=classes, stored=ImageShape(8, 8, 1))
    listing = listing or sources.list_source(place)
    return _FORMATS[listing.kind](place, listing)


def read(part: Part) -> Iterator[list[Original]]:
    """Yield the images of one part, some at a time; raises as `Part.originals`."""
    most, most_bytes = _PIXELS_AT_ONCE if part.has_pixels else _FILES_AT_ONCE
    found: list[Original] = []
    size = 0
    for original in part.originals():
        if found and (size + len(original.content) > most_bytes or len(found) == most):
            yield found
            found, size = [], 0
        found.append(original)
        size += len(original.content)
    if found:
        yield found


def _survey_stacks(
    list_stacks: Callable[[Collection[SourceFile]], Sequence[Stack]], place: str, listing: Listing
) -> Survey:
    """Survey images that lie one after another in files, each read from start to end by one worker."""
    found = list_stacks([*listing.files])
    if not found:
        raise DataError(f"{place} has no images in its files")
    shapes = {stack.name: stack.shape for stack in found}
    if len(set(shapes.values())) > 1:
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DataError(f"the images of all splits must have one shape: {described}")
    unlabelled = next((stack.name for stack in found if not stack.values), "")
    values = sorted({value for stack in found for value in stack.values})
    if values and unlabelled:
        raise DataError(f"{place} has labels, but none for {unlabelled}; add them, or take all labels away")
    counts: dict[str, int] = {}
    for stack in found:
        counts[stack.split] = counts.get(stack.split, 0) + stack.count
    if "train" not in counts:
        held = " and ".join(counts)
        raise DataError(f"{place} has images for {held} but none to train on; name a file or an array after `train`")
    return Survey(
        kind=listing.kind,
        parts=[StackPart(stack, tuple(values)) for stack in found],
        counts=counts,
        classes=idx.class_names(found, values),
        stored=found[0].shape,
    )


def _survey_images(place: str, listing: Listing) -> Survey:
    names = listing.names
    table = labels.read_table(listing.labels) if listing.labels else None
    found = labels.labelled(place, names, table)
    empty = _folders_without_images(place, names) if found.classes and table is None else []
    if empty:
        shown = ", ".join(empty[:_NAMES_SHOWN])
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), place, shown)
    return Survey(
        kind=listing.kind,
        parts=ImageParts(listing.files, found),
        counts=found.counts,
        classes=found.classes,
    )


class ImageParts:
    """The parts of a source of image files, made while they are iterated, as there may be more than memory holds."""

    def __init__(self, files: Rows[SourceFile], labelled: labels.Labelled) -> None:
        self._files, self._labelled = files, labelled

    def __iter__(self) -> Iterator[ImagesPart]:
        files = iter(self._files)
        while some := [*itertools.islice(files, IMAGES_AT_ONCE)]:
            places = self._labelled.each(file.name for file in some)
            yield ImagesPart(tuple((file, *place) for file, place in zip(some, places, strict=True)))


def _folders_without_images(place: str, names: Rows[str]) -> list[str]:
    """Folders where classes are, of a source on this machine, that hold no image."""
    if buckets.is_uri(place):
        return []
    depth = 2 if labels.has_split_folders(names) else 1
    with_images = {tuple(name.split("/")[:depth]) for name in names if name.count("/") >= depth}
    found = (path.relative_to(place) for path in Path(place).glob("/".join("*" * depth)) if path.is_dir())
    parts = [tuple(printable(part) for part in path.parts) for path in found]
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
        at_once = IMAGES_AT_ONCE if archives.has_ranges(file) else max(1, len(images))
        starts = range(0, len(images), at_once)
        parts += [ArchivePart(file, tuple(images[start : start + at_once])) for start in starts]
    return Survey(
        kind=listing.kind,
        parts=parts,
        counts=found.counts,
        classes=found.classes,
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


# What surveys the sources of each kind of `sources.list_source`.
_FORMATS: dict[str, Callable[[str, Listing], Survey]] = {
    sources.IDX: functools.partial(_survey_stacks, idx.list_stacks),
    sources.ARRAYS: functools.partial(_survey_stacks, npz.list_stacks),
    sources.TFRECORDS: functools.partial(_survey_stacks, tfrecords.list_stacks),
    sources.IMAGES: _survey_images,
    sources.ARCHIVES: _survey_archives,
}
