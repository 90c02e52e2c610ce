"""Survey a source before anything is decoded: its parts, classes, splits, shape. Read the parts."""

import csv
import dataclasses
import gzip
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from components.core.artifacts.datasets import NO_LABEL, ImageShape
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, contents_of, printable
from components.core.sources.source_listing import Listing, first_names
from components.preprocess.decode.pool import IMAGES_AT_ONCE
from components.preprocess.formats import archives, arrays, folders, idx, label_files, parquet, tfrecords, whole_files
from components.preprocess.formats.archives import Member
from components.preprocess.formats.folders import FOLDER, PARENT, Layout
from components.preprocess.formats.label_files import Names, Row, Table
from components.preprocess.formats.labels import AUTO, BY_NAME, FILE, NONE, Label, LabelChoice, Tally
from components.preprocess.formats.stacks import Example, Stack

log = logging.getLogger(__name__)


class Original(NamedTuple):
    """One image of the source."""

    name: str
    split: str  # of the source
    label: int
    content: bytes
    file: SourceFile | None = None  # set if the image is a file; if that is too large to be decoded, it is not read


class ImagesPart(NamedTuple):
    """Some image files, each with its split and label."""

    images: tuple[tuple[SourceFile, str, int], ...]


class ArchivePart(NamedTuple):
    """Some images of an archive, in its order, each with its split and label."""

    file: SourceFile
    images: tuple[tuple[Member, str, int], ...]


Part = Stack | ImagesPart | ArchivePart  # some images of a source, which one worker reads, on any machine
_OF_ONE_SET = (source_listing.ARRAYS, source_listing.PARQUET, source_listing.TFRECORDS, source_listing.PIXEL_TABLES)
_DIGITS = Stack(name=source_listing.DIGITS, split="train", shape=ImageShape(8, 8, 1))


class Survey(NamedTuple):
    kind: str  # `digits`, or that of the source's `Listing`
    parts: Iterable[Part]  # can be iterated once
    counts: dict[str, int]  # number of images in each split that the source has
    classes: list[str]  # names of the classes by label; empty without classes
    stored: ImageShape | None = None  # shape of images kept as plain pixels; None for image files


def survey(location: str, listing: Listing | None = None, choice: LabelChoice = BY_NAME) -> Survey:
    """Survey `digits`, or files, which may be listed already; `DataError` without images, or for contradictions."""
    if location == source_listing.DIGITS:
        return _survey_stacks(location, location, [], choice)
    listing = listing or source_listing.list_source(location, label_file=choice.file)
    if listing.kind == source_listing.IMAGES:
        return _survey_images(location, listing, choice)
    if listing.kind == source_listing.ARCHIVES:
        return _survey_archives(location, listing, choice)
    return _survey_stacks(location, listing.kind, [*listing.files], choice)


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
        label = part.numbers.get(str(stored_label), NO_LABEL)
        yield Original(f"{part.name}[{number - 1}]", part.split, label, content)
    if number != part.count:
        raise DataError(f"{part.name} had {part.count:,} images, now {number:,}; the source changed while it was read")


def _survey_stacks(location: str, kind: str, files: list[SourceFile], choice: LabelChoice) -> Survey:
    """Count images and labels of stacks of images, each read from start to end by one worker."""
    list_stacks, examples = _FORMATS[kind]
    if kind in _OF_ONE_SET:
        _require_one_set(location, files)
    listed, tally, counted = [*list_stacks(files, choice)], Tally(), list[Stack]()
    for stack in listed:
        count = 0
        for count, (_, label) in enumerate(examples(stack, False), 1):
            tally.add(f"{stack.name}[{count - 1}]", stack.split, label)
        if count:
            counted.append(dataclasses.replace(stack, kind=kind, count=count))
    if not (shapes := {stack.name: stack.shape for stack in counted}):
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
    fields = sorted({printable(stack.arrays[-1].removesuffix(".npy")) for stack in counted if stack.arrays[1:]})
    _log_reading(tally, "names" if len(tally.counts) > 1 else "", classes, " and ".join(fields) or "the files")
    return Survey(kind=kind, parts=parts, counts=tally.counts, classes=classes, stored=counted[0].shape)


def _require_one_set(location: str, files: list[SourceFile]) -> None:
    """Refuse files whose names say that they are of several sets, unless a glob names them."""
    sets = {name: file.name for file in files if (name := folders.set_of(file.name))}
    if len(sets) > 1 and not source_listing.is_glob(location):
        first, second, *_ = sorted(sets.values())
        raise DataError(
            f"{location} holds several sets by the names of files, such as {first} and {second}; name one of them, or "
            "all of them by a glob if they are one"
        )


def _log_reading(tally: Tally, splits_by: str, classes: list[str], classes_by: str) -> None:
    """Say in one line what counts as splits and as classes."""
    counts = ", ".join(f"{count:,} {split}" for split, count in tally.counts.items())
    splits = f"{counts} images by {splits_by}" if splits_by else f"{counts} images, no splits"
    named = f"{len(classes):,} classes by {classes_by}: {first_names(classes)}" if classes else "no classes"
    log.info("source: %s; %s", splits, named)


def _digits(_: Stack, with_images: bool) -> Iterator[Example]:
    """Yield scikit-learn's digits; their values from 0 to 16 become 0 to 255, rounded."""
    with gzip.open(source_listing.digits_file(), "rt", encoding="ascii", newline="") as file:
        for cells in csv.reader(file):
            *values, label = (int(float(cell)) for cell in cells)
            yield bytes((value * 255 + 8) // 16 for value in values), label


class _Places:
    """Split and label of each image, by a row of a table or by the folders that it is in."""

    def __init__(self, location: str, names: Iterable[str], choice: LabelChoice) -> None:
        self.names = names
        paths_of_folders = {name.rpartition("/")[0] for name in names}
        self.layout = folders.lay_out(location, paths_of_folders, PARENT if choice.origin == PARENT else FOLDER)
        images = ((self._in(name).class_name or "", name.rpartition("/")[2]) for name in names)
        are_shards = choice.origin == AUTO and folders.are_shards(images)
        self.folders_are_classes = choice.origin in (AUTO, FOLDER, PARENT) and not are_shards

    def of(self, name: str, row: Row | None) -> tuple[str, Label]:
        place = self._in(name)
        if row is not None:
            return row.split or place.split, None if row.label is None else str(row.label)
        return place.split, place.class_name if self.folders_are_classes else None

    def _in(self, name: str) -> folders.Place:
        return self.layout.places[name.rpartition("/")[0]]


def _survey_images(location: str, listing: Listing, choice: LabelChoice) -> Survey:
    companions, tally = folders.companions(listing.names), Tally()
    names = [name for name in listing.names if name not in companions] if companions else listing.names
    places = _Places(location, names, choice)
    table = _table_beside(listing, choice, names, places.layout)
    rows = table.of(names, places.layout.passed_over, choice) if table else {}
    for name in names:
        tally.add(name, *places.of(name, rows.get(name)))
    classes, number_of = _classes(location, tally, places, table, choice)
    if classes and table is None and Path(location).is_dir():  # in a bucket no folder is empty
        _warn_of_empty_folders(Path(location), places.layout)
    files = (file for file in listing.files if file.name not in companions)
    located = ((file, *places.of(file.name, rows.get(file.name))) for file in files)
    images = ((file, split, number_of[label]) for file, split, label in located)

    def parts() -> Iterator[ImagesPart]:
        """Yield the parts one by one: all together may not fit into memory."""
        while batch := tuple(itertools.islice(images, IMAGES_AT_ONCE)):
            yield ImagesPart(batch)

    return Survey(kind=listing.kind, parts=parts(), counts=tally.counts, classes=classes)


def _survey_archives(location: str, listing: Listing, choice: LabelChoice) -> Survey:
    members_of = {file: archives.list_members(file) for file in listing.files}
    if not any(images for images, _ in members_of.values()):
        if any(source_listing.is_cifar(member.name) for _, others in members_of.values() for member in others):
            return _survey_stacks(location, source_listing.CIFAR, [*listing.files], choice)
        remedy = source_listing.next_steps(member.name for _, others in members_of.values() for member in others)
        raise DataError(f"{location} holds archives without images; expected PNG, JPEG or WebP files in them{remedy}")
    prefix_of = _prefixes_in_source(members_of)
    images_of = {
        file: {member: prefix_of[file] + member.name for member in images} for file, (images, _) in members_of.items()
    }
    companions = folders.companions([path for images in images_of.values() for path in images.values()])
    for file, images in images_of.items():
        images_of[file] = {member: path for member, path in images.items() if path not in companions}
    paths, tally = [path for images in images_of.values() for path in images.values()], Tally()
    places = _Places(location, paths, choice)
    passed_over = places.layout.passed_over
    table = _table_beside(listing, choice, paths, places.layout)
    rows_of = dict.fromkeys(images_of, table.of(paths, passed_over, choice) if table else {})
    if choice.origin in (AUTO, FILE) and not table:
        several = len(images_of) > 1
        table_of = {
            file: _table_in(file, [*images], members_of[file][1], choice, several) for file, images in images_of.items()
        }
        table = next(filter(None, table_of.values()), None)
        for file, own_table in table_of.items() if table else ():
            name, rows = own_table or Table(file.name, {})  # the images of an archive without one have no labels
            in_place = Table(name, {prefix_of[file] + path: row for path, row in rows.items()})
            rows_of[file] = in_place.of([*images_of[file].values()], passed_over, choice)
    located: dict[SourceFile, list[tuple[Member, str, Label]]] = {}
    for file, images in images_of.items():
        located[file] = [(member, *places.of(path, rows_of[file].get(path))) for member, path in images.items()]
        for member, split, label in located[file]:
            tally.add(f"{file.name}/{member.name}", split, label)
    classes, number_of = _classes(location, tally, places, table, choice)
    parts = list[Part]()
    for file, placed in located.items():
        numbered = [(member, split, number_of[label]) for member, split, label in placed]
        # Of a zip file of this machine some members can be read without the ones before them.
        has_ranges = not file.in_bucket and all(member.method is not None for member, _, _ in numbered)
        at_once = IMAGES_AT_ONCE if has_ranges else max(1, len(numbered))
        starts = range(0, len(numbered), at_once)
        parts += [ArchivePart(file, tuple(numbered[start : start + at_once])) for start in starts]
    return Survey(kind=listing.kind, parts=parts, counts=tally.counts, classes=classes)


def _table_beside(listing: Listing, choice: LabelChoice, names: Names, layout: Layout) -> Table | None:
    """Read the files of labels beside images or archives; those of one for all images lie above all of them."""
    if choice.origin not in (AUTO, FILE):
        return None
    above_all = {"", *itertools.accumulate(layout.passed_over.split("/"), "{}/{}".format)}
    files = [
        file
        for file in listing.labels
        if choice.file
        or file.name.rpartition("/")[2] in source_listing.METADATA
        or file.name.rpartition("/")[0] in above_all
    ]
    table = label_files.beside(files, choice, names)
    if table is None and choice.origin == FILE and listing.kind == source_listing.IMAGES:
        raise DataError(
            f"labels_from file needs a file of labels, {', '.join(source_listing.LABEL_NAMES)}, or one that "
            "--label-file names"
        )
    return table


def _classes(
    location: str, tally: Tally, places: _Places, table: Table | None, choice: LabelChoice
) -> tuple[list[str], dict[Label, int]]:
    """Return the names of the classes, and the number of each by its label; log what they were made of."""
    if choice.column and table is None:
        raise DataError(f"label_column {choice.column} needs a file of labels in {location}; name it by --label-file")
    in_order = tally.labels(location)
    classes = [printable(str(label)) for label in in_order]
    by_folders = f"folders {first_names(sorted(places.layout.split_folders))}" if places.layout.split_folders else ""
    by_classes = table.name if table else "folders" if places.folders_are_classes else "nothing"
    _log_reading(tally, by_folders, classes, by_classes)
    spelled = {name.casefold(): name for name in classes}
    if twice := [name for name in classes if spelled[name.casefold()] != name]:
        log.warning("classes differ by capital letters alone: %s and %s", twice[0], spelled[twice[0].casefold()])
    if table is None and classes:
        folders.warn_of_doubts(classes, places.layout)
    elif table is None and choice.origin != NONE:
        folders.warn_of_words(places.names)
    return classes, {label: number for number, label in enumerate(in_order)} | {None: NO_LABEL}


def _warn_of_empty_folders(source: Path, layout: Layout) -> None:
    """Warn of folders beside those of classes that hold no images."""
    named = {place.class_folder for place in layout.places.values()}
    above = {folder.rpartition("/")[0] for folder in named if folder}
    listed = (path for folder in above for path in (source / folder).iterdir() if path.is_dir())
    shown = {printable(path.relative_to(source).as_posix()) for path in listed if not path.name.startswith(".")}
    if empty := sorted(shown - named):
        log.warning("%d folders of %s hold no images and are no classes: %s", len(empty), source, first_names(empty))


def _table_in(
    file: SourceFile, images: list[Member], others: list[Member], choice: LabelChoice, several: bool
) -> Table | None:
    """Return the labels that files of labels within an archive, or those of WebDataset, give its images."""
    wanted = (choice.file,) if choice.file else source_listing.LABEL_NAMES
    label_members = {m.name: m for m in others if m.name in wanted or m.name.rpartition("/")[2] in wanted}
    others = [member for member in others if member.name not in label_members]
    if left_out := [member.name for member in others if not label_files.is_of_sample(member.name)]:
        remedy = source_listing.next_steps(left_out)
        message = "skipped %d members of %s that are no images by name: %s" + remedy
        log.log(logging.WARNING if remedy else logging.INFO, message, len(left_out), file.name, first_names(left_out))

    def content_of(name: str) -> bytes:
        return next(archives.read_members(file, [label_members[name]]))

    names = [image.name for image in images]
    table = label_files.read(label_members, content_of, choice, names, f"{file.name}/")
    if table is None and (label_of := label_files.sample_labels(file, images, others, choice)):
        split = folders.split_of(file.name) if several else None
        table = Table(file.name, {name: Row(label_of.get(name), split) for name in names})
    return table


def _prefixes_in_source(members_of: dict[SourceFile, tuple[list[Member], list[Member]]]) -> dict[SourceFile, str]:
    """Return what precedes members' paths as if each archive were unpacked in place, `train.zip` into `train`."""
    prefix_of = {}
    for file, (images, _) in members_of.items():
        *above, file_name = file.name.split("/")
        stem = file_name.partition(".")[0]
        tops = {name.split("/")[0] for name in [file.name, *(image.name for image in images)] if "/" in name}
        if folders.is_split(stem) and not any(map(folders.is_split, tops)):
            above.append(stem)
        prefix_of[file] = "".join(f"{folder}/" for folder in above)
    return prefix_of


_Examples = Callable[[Stack, bool], Iterator[Example]]
# How the stacks of a source are listed and read, by the kinds of `source_listing.list_source`.
_FORMATS: dict[str, tuple[Callable[[list[SourceFile], LabelChoice], Iterable[Stack]], _Examples]] = {
    source_listing.DIGITS: (lambda _, __: [_DIGITS], _digits),
    source_listing.IDX: (idx.list_stacks, idx.examples),
    source_listing.ARRAYS: (arrays.list_stacks, arrays.examples),
    source_listing.NPY: (arrays.list_stacks, arrays.examples),
    source_listing.TFRECORDS: (tfrecords.list_stacks, tfrecords.examples),
    source_listing.PARQUET: (parquet.list_stacks, parquet.examples),
    **dict.fromkeys(
        (source_listing.CIFAR, source_listing.MATLAB, source_listing.PIXEL_TABLES),
        (whole_files.list_stacks, whole_files.examples),
    ),
}
