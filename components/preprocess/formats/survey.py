"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import functools
import gzip
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, contents_of, printable
from components.core.sources.source_listing import Listing
from components.core.storage import buckets
from components.preprocess.decode import pixels
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import archives, idx, label_files, labels, npz, parquet, tfrecords, webdataset
from components.preprocess.formats.archives import Member
from components.preprocess.formats.labels import Table, Tally
from components.preprocess.formats.stacks import Example, Original, Stack, of_files

log = logging.getLogger(__name__)

_FILES_AT_ONCE = IMAGES_AT_ONCE, 1 << 20  # images, bytes
_PIXELS_AT_ONCE = 1000, 16 << 20
_NAMES_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class ImagesPart:
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """Some images of an archive, in its order, each with its split and label."""

    file: SourceFile
    images: tuple[tuple[Member, str, int], ...]


Part = Stack | ImagesPart | ArchivePart  # some images of a source, which one worker reads, on any machine
DIGITS = Stack(
    kind=source_listing.DIGITS,
    name=source_listing.DIGITS,
    split="train",
    shape=ImageShape(8, 8, 1),
    count=1797,
    numbers={str(digit): digit for digit in range(10)},
)


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
        return _survey_stacks(location, location, [])
    listing = listing or source_listing.list_source(location)
    if listing.kind == source_listing.IMAGES:
        return _survey_images(location, listing)
    if listing.kind == source_listing.ARCHIVES:
        return _survey_archives(location, listing)
    return _survey_stacks(location, listing.kind, [*listing.files])


def read(part: Part) -> Iterator[list[Original]]:
    """Yield the images of one part, some at a time; `DataError` if a file is damaged or missing."""
    most, most_bytes = _PIXELS_AT_ONCE if isinstance(part, Stack) and part.shape else _FILES_AT_ONCE
    originals: list[Original] = []
    size = 0
    for original in _originals(part):
        if originals and (size + len(original.content) > most_bytes or len(originals) == most):
            yield originals
            originals, size = [], 0
        originals.append(original)
        size += len(original.content)
    if originals:
        yield originals


def _originals(part: Part) -> Iterator[Original]:
    if isinstance(part, Stack):
        yield from _originals_of_stack(part)
    elif isinstance(part, ArchivePart):
        members = archives.read_members(part.file, [member for member, _, _ in part.images])
        for (member, split, label), content in zip(part.images, members, strict=True):
            yield Original(f"{part.file.name}/{member.name}", split, label, content)
    else:
        most = pixels.LARGEST_FILE
        # One that has grown since the listing is read just far enough to notice.
        contents = contents_of([file for file, _, _ in part.images if file.bytes <= most], most + 1)
        for file, split, label in part.images:
            yield Original(file.name, split, label, next(contents) if file.bytes <= most else b"", file)


def _originals_of_stack(stack: Stack) -> Iterator[Original]:
    number = 0
    for number, (content, label) in enumerate(_FORMATS[stack.kind][1](stack, True), 1):
        if (label is not None or stack.numbers) and str(label) not in stack.numbers:
            raise DataError(f"{stack.name} has a new label {label}; the source changed while it was read")
        # Raw pixels have no shape. The first image decides; others are quarantined.
        if number == 1 and stack.shape is None and not pixels.is_image_file(content):
            raise DataError(
                f"{stack.name} begins with an image of {len(content):,} bytes that is no PNG, JPEG or WebP file; "
                "pixels as they are go into NPZ or IDX files; of a dataset of this pipeline give the source that it "
                "was made of"
            )
        label_number = stack.numbers.get(str(label), datasets.NO_LABEL)
        yield Original(f"{stack.name}[{number - 1}]", stack.split, label_number, content)
    if number != stack.count:
        raise DataError(
            f"{stack.name} had {stack.count:,} images and has {number:,} now; the source changed while it was read"
        )


def _survey_stacks(location: str, kind: str, files: list[SourceFile]) -> Survey:
    """Count images and labels of stacks of images, each read from start to end by one worker."""
    list_stacks, examples = _FORMATS[kind]
    listed, tally, counted = list_stacks(files), Tally(), list[Stack]()
    for stack in listed:
        count = 0
        for count, (_, label) in enumerate(examples(stack, False), 1):
            tally.add(f"{stack.name}[{count - 1}]", stack.split, label)
        if count:
            counted.append(dataclasses.replace(stack, count=count))
    shapes = {stack.name: stack.shape for stack in counted}
    if not shapes:
        raise DataError(f"{location} has no images in its files")
    if len(set(shapes.values())) > 1:
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DataError(f"the images of all splits must have one shape: {described}")
    labels_in_order = tally.labels(location)
    names = {stack.classes for stack in listed if stack.classes}
    if len(names) > 1:
        raise DataError(f"files of {location} name their classes in different ways; write the same names to all")
    names_by_label = dict(enumerate(names.pop() if names else ()))
    if not all(label in names_by_label for label in labels_in_order):
        names_by_label = {label: printable(str(label)) for label in labels_in_order}
    numbers = {str(label): number for number, label in enumerate(labels_in_order)}
    return Survey(
        kind=kind,
        parts=[dataclasses.replace(stack, numbers=numbers) for stack in counted],
        counts=tally.counts,
        classes=[names_by_label[label] for label in labels_in_order],
        stored=counted[0].shape,
    )


def _digits(_: Stack, with_images: bool) -> Iterator[Example]:
    """Yield scikit-learn's digits; their values from 0 to 16 become 0 to 255, rounded."""
    with gzip.open(source_listing.digits_file(), "rt", encoding="ascii", newline="") as file:
        for cells in csv.reader(file):
            *values, label = (int(float(cell)) for cell in cells)
            yield bytes((value * 255 + 8) // 16 for value in values), label


def _survey_images(location: str, listing: Listing) -> Survey:
    names, tally = listing.names, Tally()
    table = label_files.beside(listing.labels)
    labels.require_same_files(names, table)
    split_folders = labels.has_split_folders(names)

    def split_and_class(name: str) -> tuple[str, str | None]:
        return labels.split_and_class(location, split_folders, table, name)

    for name in names:
        tally.add(name, *split_and_class(name))
    classes = tally.classes(location)
    empty = _folders_without_images(location, names) if classes and table is None else []
    if empty:
        shown = ", ".join(empty[:_NAMES_SHOWN])
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), location, shown)
    numbers = labels.numbers_of(classes)

    def parts() -> Iterator[ImagesPart]:
        """Yield the parts one by one: all together may not fit into memory."""
        files = iter(listing.files)
        while batch := [*itertools.islice(files, IMAGES_AT_ONCE)]:
            located = ((file, *split_and_class(file.name)) for file in batch)
            yield ImagesPart(tuple((file, split, numbers[class_name]) for file, split, class_name in located))

    return Survey(kind=listing.kind, parts=parts(), counts=tally.counts, classes=classes)


def _folders_without_images(location: str, names: Rows[str]) -> list[str]:
    """Return the class folders of a local source that hold no image."""
    if buckets.is_uri(location):
        return []
    depth = 2 if labels.has_split_folders(names) else 1
    with_images = {tuple(name.split("/")[:depth]) for name in names if name.count("/") >= depth}
    folders = (path.relative_to(location) for path in Path(location).glob("/".join("*" * depth)) if path.is_dir())
    parts = [tuple(printable(part) for part in path.parts) for path in folders]
    return sorted("/".join(path) for path in parts if path not in with_images and not path[-1].startswith("."))


def _survey_archives(location: str, listing: Listing) -> Survey:
    members_of, table_of = {}, {}
    for file in listing.files:
        members_of[file], table_of[file] = _list_archive(file, several=len(listing.files) > 1)
    path_of = _paths_in_source(members_of)
    paths = [path_of(file, member.name) for file, members in members_of.items() for member in members]
    if not paths:
        raise DataError(f"{location} holds archives without images; expected PNG, JPEG or WebP files in them")
    table = label_files.beside(listing.labels)
    labels.require_same_files(paths, table)
    has_own_tables = table is None and any(table_of.values())
    split_folders, tally = labels.has_split_folders(paths), Tally()
    located: dict[SourceFile, list[tuple[Member, str, str | None]]] = {}
    for file, members in members_of.items():
        if has_own_tables:  # the images of an archive without one have no labels
            name, rows = table_of[file] or Table(file.name, {})
            table = Table(name, {path_of(file, member): row for member, row in rows.items()})
            labels.require_same_files([path_of(file, member.name) for member in members], table)
        located[file] = []
        for member in members:
            place = labels.split_and_class(location, split_folders, table, path_of(file, member.name))
            tally.add(f"{file.name}/{member.name}", *place)
            located[file].append((member, *place))
    classes = tally.classes(location)
    numbers, parts = labels.numbers_of(classes), list[Part]()
    for file, images_of_file in located.items():
        images = [(member, split, numbers[class_name]) for member, split, class_name in images_of_file]
        at_once = IMAGES_AT_ONCE if archives.has_ranges(file, members_of[file]) else max(1, len(images))
        starts = range(0, len(images), at_once)
        parts += [ArchivePart(file, tuple(images[start : start + at_once])) for start in starts]
    return Survey(kind=listing.kind, parts=parts, counts=tally.counts, classes=classes)


def _list_archive(file: SourceFile, several: bool) -> tuple[list[Member], Table | None]:
    """Return the images of an archive, and the labels that its files of labels, or those of WebDataset, give them."""
    images, others = archives.list_members(file)
    label_members = {m.name: m for m in others if m.name.rpartition("/")[2] in source_listing.LABEL_NAMES}
    others = [member for member in others if member.name not in label_members]
    left_out = [member.name for member in others if not webdataset.is_label(member.name)]
    if left_out:
        shown = ", ".join(left_out[:_NAMES_SHOWN])
        log.info("skipped %d members of %s that are no images by name: %s", len(left_out), file.name, shown)

    def content_of(name: str) -> bytes:
        return next(archives.read_members(file, [label_members[name]]))

    table = label_files.read(label_members, content_of, f"{file.name}/")
    if table is None and (label_of := webdataset.labels_of(file, images, others)):
        split = labels.split_of(file.name) if several else None
        table = Table(file.name, {image.name: labels.Row(label_of.get(image.name), split) for image in images})
    return images, table


def _paths_in_source(members_of: dict[SourceFile, list[Member]]) -> Callable[[SourceFile, str], str]:
    """Return a function for a member's path as if each archive were unpacked in place, `train.zip` into `train`.

    A single top folder that holds all images is ignored; archives of a folder have one.
    """
    names_of = {file: [member.name for member in members] for file, members in members_of.items()}
    tops = {name.partition("/")[0] if "/" in name else "" for names in names_of.values() for name in names}
    passed_over = len(tops) == 1 and "" not in tops and not tops & labels.SPLIT_FOLDERS.keys()
    top = f"{min(tops)}/" if passed_over else ""
    prefixes = {}
    for file, names in names_of.items():
        *folders, file_name = file.name.split("/")
        stem = file_name.partition(".")[0]
        if stem in labels.SPLIT_FOLDERS and not labels.has_split_folders([*names, file.name]):
            folders.append(stem)
        prefixes[file] = "".join(f"{folder}/" for folder in folders)
    return lambda file, name: prefixes[file] + name.removeprefix(top)


# How the stacks of a source are listed and read, by the kinds of `source_listing.list_source`.
_FORMATS: dict[str, tuple[Callable[[list[SourceFile]], list[Stack]], Callable[[Stack, bool], Iterator[Example]]]] = {
    source_listing.DIGITS: (lambda _: [DIGITS], _digits),
    source_listing.IDX: (idx.list_stacks, idx.examples),
    source_listing.ARRAYS: (npz.list_stacks, npz.examples),
    source_listing.TFRECORDS: (functools.partial(of_files, source_listing.TFRECORDS), tfrecords.examples),
    source_listing.PARQUET: (parquet.list_stacks, parquet.examples),
}
