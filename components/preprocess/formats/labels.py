"""The split and the label of each image, by its folders or by a file of labels."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from components.core.artifacts import datasets
from components.core.errors import DataError
from components.core.sources.catalog import Rows

SPLIT_FOLDERS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
SPLIT_WORDS = {**SPLIT_FOLDERS, "valid": "validation"}  # in the names of files and arrays that hold many images


class Row(NamedTuple):
    """Split and label of an image in a file of labels."""

    label: str  # the name of its class; empty for none
    split: str | None  # None if the file has no splits


class Table(NamedTuple):
    """Contents of a file of labels."""

    name: str  # of the file, for messages
    rows: dict[str, Row] | None  # by the paths of images; None if no image has a label

    def add(self, path: str, row: Row, where: str) -> None:
        """Add a row; `DataError` for a second one of the same path."""
        if self.rows is None or path in self.rows:
            raise DataError(f"{where} has {path} for the second time; keep one of the two")
        self.rows[path] = row


@dataclasses.dataclass(frozen=True)
class Labeled:
    """Split and class of each image of a source."""

    split_and_class_of: Callable[[str], tuple[str, str]]  # the split and the name of the class of an image
    classes: list[str]  # names of the classes by label
    counts: dict[str, int]  # number of images in each split

    def each(self, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield the split and the label of each of some images of the source."""
        label_of = {name: label for label, name in enumerate(self.classes)} | {"": datasets.NO_LABEL}
        for name in names:
            split, class_name = self.split_and_class_of(name)
            yield split, label_of[class_name]


def labeled(location: str, names: Rows[str] | list[str], table: Table | None = None) -> Labeled:
    """Find the splits and classes of a source's images, given by their paths within it.

    Classes that are all numbers are sorted by number, others by name.

    Raises:
        DataError: Only some images have a class, folders contradict each other, no image is to train on, or the file of
            labels lacks an image or has one that is not there.
    """
    if table is not None and table.rows is not None:
        _require_same_files(names, table.name, table.rows)
    split_and_class_of = functools.partial(_split_and_class, location, table, has_split_folders(names))
    counts: dict[str, int] = {}
    first: dict[str, str] = {}  # first image of each class
    for name in names:
        split, class_name = split_and_class_of(name)
        counts[split] = counts.get(split, 0) + 1
        first.setdefault(class_name, name)
    classes = sorted(first.keys() - {""})
    if all(name.isascii() and name.isdigit() for name in classes):
        classes.sort(key=int)
    if classes and "" in first:
        where, remedy = "within class folders and beside them", "move them all into folders"
        if table is not None:
            where, remedy = f"with a label in {table.name} and without one", "give a label to all or to none"
        raise DataError(f"{location} has images {where} ({first['']}); {remedy}")
    if "train" not in counts:
        expected = "in a folder `train`" if table is None else "to train on"
        raise DataError(f"{location} has images for {' and '.join(counts)} but none {expected}")
    return Labeled(split_and_class_of, classes, counts)


def has_split_folders(names: Iterable[str]) -> bool:
    """Return whether the folders at the top are splits."""
    return any("/" in name and name.split("/")[0] in SPLIT_FOLDERS for name in names)


def _split_and_class(location: str, table: Table | None, split_folders: bool, name: str) -> tuple[str, str]:
    """Return split and class of an image; the class is empty without classes."""
    if table is None:
        return by_folders(location, split_folders, name)
    row = table.rows[name] if table.rows is not None else Row("", None)
    return row.split or by_folders(location, split_folders, name)[0], row.label


def _require_same_files(names: Rows[str] | list[str], table: str, rows: dict[str, Row]) -> None:
    paths = set(names)
    if len(paths) < len(names):
        raise DataError(f"{table} cannot tell images apart that have one path in several archives; rename them")
    unknown = [name for name in rows if name not in paths]
    if unknown:
        raise DataError(
            f"{table} has {len(unknown):,} files that are not there, first {unknown[0]}; remove them, or "
            "give their paths within the source"
        )
    missing = [name for name in names if name not in rows]
    if missing:
        raise DataError(
            f"{table} has no row for {len(missing):,} images, first {missing[0]}; add them, or take these images away"
        )


def by_folders(location: str, split_folders: bool, name: str) -> tuple[str, str]:
    """Return the split of an image, and its class: the first folder below the split."""
    folders = name.split("/")[:-1]
    if not split_folders:
        return "train", folders[0] if folders else ""
    if not folders or folders[0] not in SPLIT_FOLDERS:
        raise DataError(
            f"{location} has folders for splits ({', '.join(SPLIT_FOLDERS)}) but also {name}; "
            "move it into one of them (a class of such a name goes within a folder `train`)"
        )
    return SPLIT_FOLDERS[folders[0]], folders[1] if len(folders) > 1 else ""
