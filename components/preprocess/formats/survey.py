"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import gzip
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources import sources
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, contents_of, printable
from components.core.sources.sources import Listing
from components.core.storage import buckets
from components.preprocess.decode import pixels
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import archives, idx, labels, npz, tfrecords
from components.preprocess.formats.archives import Member
from components.preprocess.formats.stacks import Example, Original, Stack

log = logging.getLogger(__name__)

_FILES_AT_ONCE = IMAGES_AT_ONCE, 1 << 20  # images, bytes
_PIXELS_AT_ONCE = 1000, 16 << 20
_NAMES_SHOWN = 5
_IMAGES_DEFAULT = ImageShape(64, 64, 3)


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        most = pixels.LARGEST_FILE
        # One that has grown since it was listed is read as far as shows that.
        contents = contents_of([file for file, _, _ in self.images if file.bytes <= most], most + 1)
        for file, split, label in self.images:
            yield Original(file.name, split, label, next(contents) if file.bytes <= most else b"", file)


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """Some images of an archive, in the order in which they lie there, each with its split and label."""

    file: SourceFile
    images: tuple[tuple[Member, str, int], ...]

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        contents = archives.read_members(self.file, [member for member, _, _ in self.images])
        for (member, split, label), content in zip(self.images, contents, strict=True):
            yield Original(f"{self.file.name}/{member.name}", split, label, content)


Part = Stack | ImagesPart | ArchivePart  # some images of a source, which one worker reads, on any machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source holds."""

    kind: str  # `digits`, or that of the source's `Listing`
    parts: Iterable[Part]
    counts: dict[str, int]  # number of images in each split that the source has
    classes: list[str]  # names of the classes by label; empty if there are none
    stored: ImageShape | None = None  # shape of images kept as plain pixels; None for image files

    @property
    def natural(self) -> ImageShape:
        """The shape that the dataset's images have unless another is asked for."""
        return self.stored or _IMAGES_DEFAULT


def survey(place: str, listing: Listing | None = None) -> Survey:
    """Survey `digits`, or files, which may have been listed already.

    Raises:
        DataError: The source holds no images, or contradicts itself.
    """
    if place == sources.DIGITS:
        return _survey_stacks(place, place, [DIGITS])
    listing = listing or sources.list_source(place)
    return _FORMATS[listing.kind](place, listing)


def read(part: Part) -> Iterator[list[Original]]:
    """Yield the images of one part, some at a time; `DataError` if a file is damaged or missing."""
    most, most_bytes = _PIXELS_AT_ONCE if isinstance(part, Stack) and part.shape else _FILES_AT_ONCE
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


def _read_digits() -> Iterator[Example]:
    """Yield scikit-learn's digits; their values from 0 to 16 become 0 to 255, rounded."""
    with gzip.open(sources.digits_file(), "rt", encoding="ascii", newline="") as file:
        for cells in csv.reader(file):
            *values, label = (int(float(cell)) for cell in cells)
            yield bytes((value * 255 + 8) // 16 for value in values), label


DIGITS = Stack(sources.DIGITS, "train", 1797, ImageShape(8, 8, 1), range(10), _read_digits)


def _survey_stacks(place: str, kind: str, found: Sequence[Stack]) -> Survey:
    """Survey images that lie one after another in files, each read from start to end by one worker."""
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
        kind=kind,
        parts=[dataclasses.replace(stack, values=values) for stack in found],
        counts=counts,
        classes=[*next((stack.classes for stack in found if len(stack.classes) == len(values)), map(str, values))],
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
    parts = ImageParts(listing.files, found)
    return Survey(kind=listing.kind, parts=parts, counts=found.counts, classes=found.classes)


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
    return Survey(kind=listing.kind, parts=parts, counts=found.counts, classes=found.classes)


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
    if listing.labels is not None:
        return labels.read_table(listing.labels)
    within = [(file, table) for file, _, table in held if table is not None]
    if not within:
        return None
    file, table = within[0]
    if len(held) > 1:
        raise DataError(f"{file.name} has a {sources.LABELS} and is not the only archive; put one for all beside them")
    (content,) = archives.read_members(file, [table])
    return labels.parsed_table(f"{file.name}/{table.name}", content)


def _in_stacks(list_stacks: Callable[[Collection[SourceFile]], list[Stack]]) -> Callable[[str, Listing], Survey]:
    return lambda place, listing: _survey_stacks(place, listing.kind, list_stacks([*listing.files]))


# What surveys the sources of each kind of `sources.list_source`.
_FORMATS: dict[str, Callable[[str, Listing], Survey]] = {
    sources.IDX: _in_stacks(idx.list_stacks),
    sources.ARRAYS: _in_stacks(npz.list_stacks),
    sources.TFRECORDS: _in_stacks(tfrecords.list_stacks),
    sources.IMAGES: _survey_images,
    sources.ARCHIVES: _survey_archives,
}
