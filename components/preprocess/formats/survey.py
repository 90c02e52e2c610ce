"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import gzip
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, contents_of, printable
from components.core.sources.source_listing import Listing
from components.core.storage import buckets
from components.preprocess.decode import pixels
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import (
    archives,
    idx,
    label_files,
    labels,
    npz,
    parquet,
    stacks,
    tfrecords,
    webdataset,
)
from components.preprocess.formats.archives import Member
from components.preprocess.formats.idx import IdxStack
from components.preprocess.formats.label_files import LabelFile
from components.preprocess.formats.npz import ArrayStack
from components.preprocess.formats.parquet import TableStack
from components.preprocess.formats.stacks import Example, Original, Stack
from components.preprocess.formats.tfrecords import RecordStack

log = logging.getLogger(__name__)

_FILES_AT_ONCE = IMAGES_AT_ONCE, 1 << 20  # images, bytes
_PIXELS_AT_ONCE = 1000, 16 << 20
_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        most = pixels.LARGEST_FILE
        # One that has grown since the listing is read just far enough to notice.
        contents = contents_of([file for file, _, _ in self.images if file.bytes <= most], most + 1)
        for file, split, label in self.images:
            yield Original(file.name, split, label, next(contents) if file.bytes <= most else b"", file)


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """Some images of an archive, in its order, each with its split and label."""

    file: SourceFile
    images: tuple[tuple[Member, str, int], ...]

    def originals(self) -> Iterator[Original]:
        """Yield the images."""
        contents = archives.read_members(self.file, [member for member, _, _ in self.images])
        for (member, split, label), content in zip(self.images, contents, strict=True):
            yield Original(f"{self.file.name}/{member.name}", split, label, content)


@dataclasses.dataclass(frozen=True)
class DigitsStack(Stack):
    """scikit-learn's digits."""

    def examples(self) -> Iterator[Example]:
        """Yield the digits; their values from 0 to 16 become 0 to 255, rounded."""
        with gzip.open(source_listing.digits_file(), "rt", encoding="ascii", newline="") as file:
            for cells in csv.reader(file):
                *values, label = (int(float(cell)) for cell in cells)
                yield bytes((value * 255 + 8) // 16 for value in values), label


Part = Stack | ImagesPart | ArchivePart  # some images of a source, which one worker reads, on any machine
READABLE = IdxStack | ArrayStack | RecordStack | TableStack | DigitsStack | ImagesPart | ArchivePart  # its classes
DIGITS = DigitsStack(source_listing.DIGITS, "train", 1797, ImageShape(8, 8, 1), [*range(10)], [])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """Images of a source, with classes and counts."""

    kind: str  # `digits`, or that of the source's `Listing`
    parts: Iterable[Part]  # can be iterated once
    counts: dict[str, int]  # number of images in each split that the source has
    classes: list[str]  # names of the classes by label; empty without classes
    stored: ImageShape | None = None  # shape of images kept as plain pixels; None for image files


def survey(location: str, listing: Listing | None = None) -> Survey:
    """Survey `digits`, or files, which may have been listed already.

    Raises:
        DataError: The source holds no images, or contradicts itself.
    """
    if location == source_listing.DIGITS:
        return _survey_stacks(location, location, [DIGITS])
    listing = listing or source_listing.list_source(location)
    return _FORMATS[listing.kind](location, listing)


def read(part: Part) -> Iterator[list[Original]]:
    """Yield the images of one part, some at a time; `DataError` if a file is damaged or missing."""
    most, most_bytes = _PIXELS_AT_ONCE if isinstance(part, Stack) and part.shape else _FILES_AT_ONCE
    originals: list[Original] = []
    size = 0
    for original in part.originals():
        if originals and (size + len(original.content) > most_bytes or len(originals) == most):
            yield originals
            originals, size = [], 0
        originals.append(original)
        size += len(original.content)
    if originals:
        yield originals


def _survey_stacks(location: str, kind: str, listed: Sequence[Stack]) -> Survey:
    """Survey stacks of images, each file read from start to end by one worker."""
    if not listed:
        raise DataError(f"{location} has no images in its files")
    shapes = {stack.name: stack.shape for stack in listed}
    if len(set(shapes.values())) > 1:
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DataError(f"the images of all splits must have one shape: {described}")
    unlabeled = next((stack.name for stack in listed if not stack.values), "")
    values = sorted({value for stack in listed for value in stack.values})
    if values and unlabeled:
        raise DataError(f"{location} has labels, but none for {unlabeled}; add them, or take all labels away")
    counts: dict[str, int] = {}
    for stack in listed:
        counts[stack.split] = counts.get(stack.split, 0) + stack.count
    if "train" not in counts:
        raise DataError(
            f"{location} has images for {' and '.join(counts)} but none to train on; name a file or an array after "
            "`train`"
        )
    names = next((stack.classes for stack in listed if stack.classes), ())
    is_named = all(0 <= value < len(names) for value in values)
    return Survey(
        kind=kind,
        parts=[dataclasses.replace(stack, values=values) for stack in listed],
        counts=counts,
        classes=[names[value] if is_named else str(value) for value in values],
        stored=listed[0].shape,
    )


def _survey_images(location: str, listing: Listing) -> Survey:
    names = listing.names
    table = label_files.beside(listing.labels)
    labeled = labels.labeled(location, names, table)
    empty = _folders_without_images(location, names) if labeled.classes and table is None else []
    if empty:
        shown = ", ".join(empty[:_NAMES_SHOWN])
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), location, shown)
    parts = _image_parts(iter(listing.files), labeled)
    return Survey(kind=listing.kind, parts=parts, counts=labeled.counts, classes=labeled.classes)


def _image_parts(files: Iterator[SourceFile], labeled: labels.Labeled) -> Iterator[ImagesPart]:
    """Yield the parts of a source of image files: all together may not fit into memory."""
    while batch := [*itertools.islice(files, IMAGES_AT_ONCE)]:
        locations = labeled.each(file.name for file in batch)
        yield ImagesPart(tuple((file, *location) for file, location in zip(batch, locations, strict=True)))


def _folders_without_images(location: str, names: Rows[str]) -> list[str]:
    """Return the class folders of a local source that hold no image."""
    if buckets.is_uri(location):
        return []
    depth = 2 if labels.has_split_folders(names) else 1
    with_images = {tuple(name.split("/")[:depth]) for name in names if name.count("/") >= depth}
    folders = (path.relative_to(location) for path in Path(location).glob("/".join("*" * depth)) if path.is_dir())
    parts = [tuple(printable(part) for part in path.parts) for path in folders]
    return sorted("/".join(path) for path in parts if path not in with_images and not path[-1].startswith("."))


class HeldArchive(NamedTuple):
    """An archive and its members."""

    file: SourceFile
    images: list[Member]
    table: labels.Table | None  # labels of its images, by their names in it


def _survey_archives(location: str, listing: Listing) -> Survey:
    held_archives = [_hold(file, several=len(listing.files) > 1) for file in listing.files]
    path_of = _paths_in_source(held_archives)
    names = [path_of(file, image.name) for file, images, _ in held_archives for image in images]
    if not names:
        raise DataError(f"{location} holds archives without images; expected PNG, JPEG or WebP files in them")
    table = label_files.beside(listing.labels)
    if table is None and any(archive.table for archive in held_archives):
        # Several archives may have the same path: each table is for its own archive.
        table = _table_of_archives(location, held_archives, path_of, labels.has_split_folders(names))
        names = [f"{file.name}/{path_of(file, image.name)}" for file, images, _ in held_archives for image in images]
    labeled = labels.labeled(location, names, table)
    split_and_label, parts = labeled.each(names), list[Part]()
    for file, members, _ in held_archives:
        images = [(member, *next(split_and_label)) for member in members]
        at_once = IMAGES_AT_ONCE if archives.has_ranges(file) else max(1, len(images))
        starts = range(0, len(images), at_once)
        parts += [ArchivePart(file, tuple(images[start : start + at_once])) for start in starts]
    return Survey(kind=listing.kind, parts=parts, counts=labeled.counts, classes=labeled.classes)


def _hold(file: SourceFile, several: bool) -> HeldArchive:
    """List an archive, and read its files of labels, or those of WebDataset."""
    images, others = archives.list_members(file)

    def reading(member: Member) -> Callable[[], bytes]:
        return lambda: next(archives.read_members(file, [member]))

    tables, samples, left_out = [], [], []
    for member in others:
        if member.name.rpartition("/")[2] in source_listing.LABEL_NAMES:
            tables.append(LabelFile(f"{file.name}/{member.name}", member.name, reading(member)))
        elif webdataset.is_label(member.name):
            samples.append(member)
        else:
            left_out.append(member.name)
    if left_out:
        shown = ", ".join(left_out[:_NAMES_SHOWN])
        log.info("skipped %d members of %s that are no images by name: %s", len(left_out), file.name, shown)
    table = label_files.read(tables)
    if table is None and (label_of := webdataset.labels_of(file, images, samples)):
        split = stacks.split_of(file.name) if several else None
        rows = {image.name: labels.Row(label_of.get(image.name, ""), split) for image in images}
        table = labels.Table(file.name, rows)
    return HeldArchive(file, images, table)


def _paths_in_source(held_archives: list[HeldArchive]) -> Callable[[SourceFile, str], str]:
    """Return a function for a member's path as if each archive were unpacked in place, `train.zip` into `train`.

    A single top folder that holds all images is ignored; archives of a folder have one.
    """
    all_names = {archive.file: [image.name for image in archive.images] for archive in held_archives}
    tops = {name.partition("/")[0] if "/" in name else "" for names in all_names.values() for name in names}
    passed_over = len(tops) == 1 and "" not in tops and not tops & labels.SPLIT_FOLDERS.keys()
    top = f"{min(tops)}/" if passed_over else ""
    prefixes = {}
    for file, names in all_names.items():
        *folders, name = file.name.split("/")
        stem = name.partition(".")[0]
        if stem in labels.SPLIT_FOLDERS and not labels.has_split_folders([*names, file.name]):
            folders.append(stem)
        prefixes[file] = "".join(f"{folder}/" for folder in folders)
    return lambda file, name: prefixes[file] + name.removeprefix(top)


def _table_of_archives(
    location: str, held_archives: list[HeldArchive], path_of: Callable[[SourceFile, str], str], split_folders: bool
) -> labels.Table:
    """Return the labels of several archives, by archive and path; splits that they lack come from folders."""
    merged = labels.Table(next(archive.table.name for archive in held_archives if archive.table), {})
    for file, images, table in held_archives:
        rows = table.rows if table else {}
        for name, row in ({image.name: labels.Row("", None) for image in images} if rows is None else rows).items():
            path = path_of(file, name)
            split = row.split or labels.by_folders(location, split_folders, path)[0]
            merged.add(f"{file.name}/{path}", labels.Row(row.label, split), merged.name)
    return merged


def _in_stacks(list_stacks: Callable[[Collection[SourceFile]], list[Stack]]) -> Callable[[str, Listing], Survey]:
    return lambda location, listing: _survey_stacks(location, listing.kind, list_stacks([*listing.files]))


# Functions that survey the sources of each kind of `source_listing.list_source`.
_FORMATS: dict[str, Callable[[str, Listing], Survey]] = {
    source_listing.IDX: _in_stacks(idx.list_stacks),
    source_listing.ARRAYS: _in_stacks(npz.list_stacks),
    source_listing.TFRECORDS: _in_stacks(tfrecords.list_stacks),
    source_listing.PARQUET: _in_stacks(parquet.list_stacks),
    source_listing.IMAGES: _survey_images,
    source_listing.ARCHIVES: _survey_archives,
}
