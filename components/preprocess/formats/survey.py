"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import functools
import gzip
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, contents_of, printable
from components.core.sources.source_listing import Listing, first_names
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import archives, idx, label_files, npz, parquet, splits_and_labels, tfrecords
from components.preprocess.formats.archives import Member
from components.preprocess.formats.splits_and_labels import Original, Row, Table, Tally
from components.preprocess.formats.stacks import Example, Stack, file_stacks

log = logging.getLogger(__name__)


class ImagesPart(NamedTuple):
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]


class ArchivePart(NamedTuple):
    """Some images of an archive, in its order, each with its split and label."""

    file: SourceFile
    images: tuple[tuple[Member, str, int], ...]


Part = Stack | ImagesPart | ArchivePart  # some images of a source, which one worker reads, on any machine
_DIGITS = Stack(name=source_listing.DIGITS, split="train", shape=ImageShape(8, 8, 1))


class Survey(NamedTuple):
    kind: str  # `digits`, or that of the source's `Listing`
    parts: Iterable[Part]  # can be iterated once
    counts: dict[str, int]  # number of images in each split that the source has
    classes: list[str]  # names of the classes by label; empty without classes
    stored: ImageShape | None = None  # shape of images kept as plain pixels; None for image files


def survey(location: str, listing: Listing | None = None) -> Survey:
    """Survey `digits`, or files, which may be listed already; `DataError` without images, or for contradictions."""
    if location == source_listing.DIGITS:
        return _survey_stacks(location, location, [])
    listing = listing or source_listing.list_source(location)
    if listing.kind == source_listing.IMAGES:
        return _survey_images(location, listing)
    if listing.kind == source_listing.ARCHIVES:
        return _survey_archives(location, listing)
    return _survey_stacks(location, listing.kind, [*listing.files])


def read(part: Part) -> Iterator[Original]:
    """Yield the images of one part; `DataError` if a file is damaged or missing."""
    if isinstance(part, ArchivePart):
        members = archives.read_members(part.file, [member for member, _, _ in part.images])
        for (member, split, label), content in zip(part.images, members, strict=True):
            yield Original(f"{part.file.name}/{member.name}", split, label, content)
        return
    if isinstance(part, ImagesPart):
        most = pixels.LARGEST_FILE
        # One that has grown since the listing is read just far enough to notice.
        contents = contents_of([file for file, _, _ in part.images if file.bytes <= most], most + 1)
        for file, split, label in part.images:
            yield Original(file.name, split, label, next(contents) if file.bytes <= most else b"", file)
        return
    number = 0
    for number, (content, stored_label) in enumerate(_FORMATS[part.kind][1](part, True), 1):
        if (stored_label is not None or part.numbers) and str(stored_label) not in part.numbers:
            raise DataError(f"{part.name} has a new label {stored_label}; the source changed while it was read")
        # Raw pixels have no shape. The first image decides; others are quarantined.
        if number == 1 and part.shape is None and not pixels.is_image_file(content):
            raise DataError(
                f"{part.name} begins with an image of {len(content):,} bytes that is no PNG, JPEG or WebP file; "
                "pixels as they are go into NPZ or IDX files; of a dataset of this pipeline give the source that it "
                "was made of"
            )
        label = part.numbers.get(str(stored_label), datasets.NO_LABEL)
        yield Original(f"{part.name}[{number - 1}]", part.split, label, content)
    if number != part.count:
        raise DataError(
            f"{part.name} had {part.count:,} images and has {number:,} now; the source changed while it was read"
        )


def _survey_stacks(location: str, kind: str, files: list[SourceFile]) -> Survey:
    """Count images and labels of stacks of images, each read from start to end by one worker."""
    list_stacks, examples = _FORMATS[kind]
    listed, tally, counted = [*list_stacks(files)], Tally(), list[Stack]()
    for stack in listed:
        count = 0
        for count, (_, label) in enumerate(examples(stack, False), 1):
            tally.add(f"{stack.name}[{count - 1}]", stack.split, label)
        if count:
            counted.append(dataclasses.replace(stack, kind=kind, count=count))
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
    class_names = names.pop() if names else ()
    is_named = all(label in range(len(class_names)) for label in labels_in_order)
    classes = [class_names[label] if is_named else printable(str(label)) for label in labels_in_order]
    numbers = {str(label): number for number, label in enumerate(labels_in_order)}
    parts = [dataclasses.replace(stack, numbers=numbers) for stack in counted]
    return Survey(kind=kind, parts=parts, counts=tally.counts, classes=classes, stored=counted[0].shape)


def _digits(_: Stack, with_images: bool) -> Iterator[Example]:
    """Yield scikit-learn's digits; their values from 0 to 16 become 0 to 255, rounded."""
    with gzip.open(source_listing.digits_file(), "rt", encoding="ascii", newline="") as file:
        for cells in csv.reader(file):
            *values, label = (int(float(cell)) for cell in cells)
            yield bytes((value * 255 + 8) // 16 for value in values), label


def _survey_images(location: str, listing: Listing) -> Survey:
    names, tally = listing.names, Tally()
    table = label_files.beside(listing.labels)
    splits_and_labels.require_same_files(names, table)
    split_folders = splits_and_labels.has_split_folders(names)
    split_and_class = functools.partial(splits_and_labels.split_and_class, location, split_folders, table)
    for name in names:
        tally.add(name, *split_and_class(name))
    classes, label_of = tally.classes(location)
    if classes and table is None and Path(location).is_dir():  # in a bucket no folder is empty
        depth = 2 if split_folders else 1
        with_images = {"/".join(name.split("/")[:depth]) for name in names if name.count("/") >= depth}
        folders = [path for path in Path(location).glob("*/" * depth) if not path.name.startswith(".")]
        empty = sorted({printable(path.relative_to(location).as_posix()) for path in folders} - with_images)
        if empty:
            message = "%d folders of %s hold no images and are no classes: %s"
            log.warning(message, len(empty), location, first_names(empty))
    located = ((file, *split_and_class(file.name)) for file in listing.files)
    images = ((file, split, label_of[class_name]) for file, split, class_name in located)

    def parts() -> Iterator[ImagesPart]:
        """Yield the parts one by one: all together may not fit into memory."""
        while batch := tuple(itertools.islice(images, IMAGES_AT_ONCE)):
            yield ImagesPart(batch)

    return Survey(kind=listing.kind, parts=parts(), counts=tally.counts, classes=classes)


def _survey_archives(location: str, listing: Listing) -> Survey:
    members_of, table_of = {}, {}
    for file in listing.files:
        members_of[file], table_of[file] = _list_archive(file, several=len(listing.files) > 1)
    path_of = _paths_in_source(members_of)
    paths = [path_of(file, member.name) for file, members in members_of.items() for member in members]
    if not paths:
        raise DataError(f"{location} holds archives without images; expected PNG, JPEG or WebP files in them")
    table = label_files.beside(listing.labels)
    splits_and_labels.require_same_files(paths, table)
    has_own_tables = table is None and any(table_of.values())
    split_folders, tally = splits_and_labels.has_split_folders(paths), Tally()
    located: dict[SourceFile, list[tuple[Member, str, str | None]]] = {file: [] for file in members_of}
    for file, members in members_of.items():
        if has_own_tables:  # the images of an archive without one have no labels
            name, rows = table_of[file] or Table(file.name, {})
            table = Table(name, {path_of(file, member): row for member, row in rows.items()})
            splits_and_labels.require_same_files([path_of(file, member.name) for member in members], table)
        for member in members:
            path = path_of(file, member.name)
            split_and_label = splits_and_labels.split_and_class(location, split_folders, table, path)
            tally.add(f"{file.name}/{member.name}", *split_and_label)
            located[file].append((member, *split_and_label))
    classes, label_of = tally.classes(location)
    parts = list[Part]()
    for file, images_of_file in located.items():
        images = [(member, split, label_of[class_name]) for member, split, class_name in images_of_file]
        # Of a zip file of this machine some members can be read without the ones before them.
        has_ranges = not file.in_bucket and all(member.method is not None for member, _, _ in images)
        at_once = IMAGES_AT_ONCE if has_ranges else max(1, len(images))
        starts = range(0, len(images), at_once)
        parts += [ArchivePart(file, tuple(images[start : start + at_once])) for start in starts]
    return Survey(kind=listing.kind, parts=parts, counts=tally.counts, classes=classes)


def _list_archive(file: SourceFile, several: bool) -> tuple[list[Member], Table | None]:
    """Return the images of an archive, and the labels that its files of labels, or those of WebDataset, give them."""
    images, others = archives.list_members(file)
    label_members = {m.name: m for m in others if m.name.rpartition("/")[2] in source_listing.LABEL_NAMES}
    others = [member for member in others if member.name not in label_members]
    left_out = [member.name for member in others if not label_files.is_of_sample(member.name)]
    if left_out:
        message = "skipped %d members of %s that are no images by name: %s"
        log.info(message, len(left_out), file.name, first_names(left_out))

    def content_of(name: str) -> bytes:
        return next(archives.read_members(file, [label_members[name]]))

    table = label_files.read(label_members, content_of, f"{file.name}/")
    if table is None and (label_of := label_files.sample_labels(file, images, others)):
        split = splits_and_labels.split_of(file.name) if several else None
        table = Table(file.name, {image.name: Row(label_of.get(image.name), split) for image in images})
    return images, table


def _paths_in_source(members_of: dict[SourceFile, list[Member]]) -> Callable[[SourceFile, str], str]:
    """Return a function for a member's path as if each archive were unpacked in place, `train.zip` into `train`.

    A single top folder that holds all images is ignored; archives of a folder have one.
    """
    names_of = {file: [member.name for member in members] for file, members in members_of.items()}
    tops = {name.partition("/")[0] if "/" in name else "" for names in names_of.values() for name in names}
    passed_over = len(tops) == 1 and "" not in tops and not tops & splits_and_labels.SPLIT_FOLDERS.keys()
    top = f"{min(tops)}/" if passed_over else ""
    prefixes = {}
    for file, names in names_of.items():
        *folders, file_name = file.name.split("/")
        stem = file_name.partition(".")[0]
        if stem in splits_and_labels.SPLIT_FOLDERS and not splits_and_labels.has_split_folders([*names, file.name]):
            folders.append(stem)
        prefixes[file] = "".join(f"{folder}/" for folder in folders)
    return lambda file, name: prefixes[file] + name.removeprefix(top)


_Examples = Callable[[Stack, bool], Iterator[Example]]
# How the stacks of a source are listed and read, by the kinds of `source_listing.list_source`.
_FORMATS: dict[str, tuple[Callable[[list[SourceFile]], Iterable[Stack]], _Examples]] = {
    source_listing.DIGITS: (lambda _: [_DIGITS], _digits),
    source_listing.IDX: (idx.list_stacks, idx.examples),
    source_listing.ARRAYS: (npz.list_stacks, npz.examples),
    source_listing.TFRECORDS: (file_stacks, tfrecords.examples),
    source_listing.PARQUET: (parquet.list_stacks, parquet.examples),
}
