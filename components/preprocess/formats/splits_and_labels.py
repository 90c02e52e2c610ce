"""Splits and labels of images: by folders, by a file of labels, or as their format says them."""

import re
import reprlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from components.core.artifacts import datasets
from components.core.errors import DataError
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, printable

SPLIT_FOLDERS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
SPLIT_WORDS = {**SPLIT_FOLDERS, "valid": "validation"}  # in the names of files and arrays that hold many images
Label = int | str | None  # of an image; text is the name of its class; None if it has none


class Original(NamedTuple):
    """One image of the source."""

    name: str
    split: str  # of the source
    label: int
    content: bytes
    file: SourceFile | None = None  # set if the image is a file; if that is too large to be decoded, it is not read


class Row(NamedTuple):
    """Label and split of an image in a file of labels."""

    label: str | None
    split: str | None  # None if the file has no splits


class Table(NamedTuple):
    """Contents of a file of labels."""

    name: str  # of the file, for messages
    rows: dict[str, Row]  # by the paths of images; empty if no image has a label


class Tally:
    """Number of images in each split, and the labels that occur."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._first: dict[Label, str] = {}  # the first image with each label

    def add(self, name: str, split: str, label: Label) -> None:
        self.counts[split] = self.counts.get(split, 0) + 1
        self._first.setdefault(label, name)

    def labels(self, location: str) -> list[Any]:
        """Return the labels in ascending order, if any.

        `DataError` if only some images have a label, labels are of two kinds, or no image is to train on.
        """
        labels = [label for label in self._first if label is not None]
        if labels and None in self._first:
            raise DataError(
                f"{location} has images with a label ({self._first[labels[0]]}) and without one ({self._first[None]}); "
                "give one to all or to none (images beside class folders have none)"
            )
        if len({type(label) for label in labels}) > 1:
            raise DataError(f"{location} has labels that are text and others that are whole numbers; write one kind")
        if "train" not in self.counts:
            raise DataError(
                f"{location} has images for {' and '.join(self.counts)} but none to train on; name a folder, a file or "
                "an array after `train`"
            )
        return sorted(labels)

    def classes(self, location: str) -> tuple[list[str], dict[Label, int]]:
        """Return classes, by number if all are numbers, else by name, and each one's label; raises as `labels`."""
        classes = self.labels(location)
        if all(name.isascii() and name.isdigit() for name in classes):
            classes.sort(key=int)
        return classes, {name: label for label, name in enumerate(classes)} | {None: datasets.NO_LABEL}


def text_of(where: str, label: Any) -> str | None:
    """Return the label that a file of text has for an image; `DataError` if it is not text or a whole number."""
    if isinstance(label, bool) or not isinstance(label, str | int | None):
        raise DataError(f"{where} has label {reprlib.repr(label)}, expected text or a whole number")
    return None if label in (None, "") else printable(str(label))


def split_of(*names: str) -> str:
    """Return the split that occurs as a word in the first name that has one, the last such word; else `train`."""
    words = [word for name in reversed(names) for word in re.findall("[a-z]+", name.lower())]
    return next((SPLIT_WORDS[word] for word in reversed(words) if word in SPLIT_WORDS), "train")


def has_split_folders(names: Iterable[str]) -> bool:
    """Return whether the folders at the top are splits."""
    return any("/" in name and name.split("/")[0] in SPLIT_FOLDERS for name in names)


def split_and_class(location: str, split_folders: bool, table: Table | None, path: str) -> tuple[str, str | None]:
    """Return the split and the class of an image, by a file of labels, or by folders: the first below the split."""
    row = table and table.rows.get(path, Row(None, None))
    if row and row.split:
        return row.split, row.label
    split, folders = "train", path.split("/")[:-1]
    if split_folders:
        if not folders or folders[0] not in SPLIT_FOLDERS:
            raise DataError(
                f"{location} has folders for splits ({', '.join(SPLIT_FOLDERS)}) but also {path}; "
                "move it into one of them (a class of such a name goes within a folder `train`)"
            )
        split = SPLIT_FOLDERS[folders.pop(0)]
    return split, row.label if row else next(iter(folders), None)


def require_same_files(names: Rows[str] | list[str], table: Table | None) -> None:
    """Refuse a file of labels that lacks an image, or has one that is not there."""
    if table is None or not table.rows:
        return
    paths = set(names)
    if len(paths) < len(names):
        raise DataError(f"{table.name} cannot tell images apart that have one path in several archives; rename them")
    unknown = [name for name in table.rows if name not in paths]
    if unknown:
        raise DataError(
            f"{table.name} has {len(unknown):,} files that are not there, first {unknown[0]}; remove them, or "
            "give their paths within the source"
        )
    missing = [name for name in names if name not in table.rows]
    if missing:
        raise DataError(
            f"{table.name} has no row for {len(missing):,} images, first {missing[0]}; add them, or take these images "
            "away"
        )
