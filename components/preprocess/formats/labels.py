"""The labels of images: which field holds them, and what its values mean, the same in all formats."""

import logging
import math
import re
import reprlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from components.core.errors import DataError
from components.core.sources.files import printable
from components.preprocess.formats.folders import words_of

log = logging.getLogger(__name__)

Label = int | str | None  # of an image; text is the name of its class; None if it has none
AUTO, NONE, FILE = "auto", "none", "file"  # origins of labels, beside `folders.FOLDER` and `folders.PARENT`
# Fields of labels by name, from the first that counts: those of TensorFlow's examples, and others.
_FIELDS = (
    *("image/class/label", "label", "labels", "class", "target", "targets", "image/class/text"),
    *("fine_label", "fine_labels", "y"),  # of CIFAR-100 and Keras
)
_FIELDS_SHOWN = 8
_FIELD_WORDS = {"label", "labels", "class", "classes", "target", "category", "tag", "breed", "species", "emotion"}


class LabelChoice(NamedTuple):
    """Settings that say where labels come from."""

    origin: str = AUTO
    column: str = ""  # field of labels; empty for the one that its name shows
    file: str = ""  # file of labels within the source; empty for those that their names show


BY_NAME = LabelChoice()


class Tally:
    """Number of images in each split, and the labels that occur."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._first: dict[Label, str] = {}  # the first image with each label

    def add(self, name: str, split: str, label: Label) -> None:
        self.counts[split] = self.counts.get(split, 0) + 1
        self._first.setdefault(label, name)

    def labels(self, location: str) -> list[Any]:
        """Return the labels in ascending order, if any; text that is whole numbers in the order of these.

        `DataError` if only some images have a label, labels are of two kinds, or no image is to train on.
        """
        labels = [label for label in self._first if label is not None]
        if labels and None in self._first:
            raise DataError(
                f"{location} has images with a label ({self._first[labels[0]]}) and without one ({self._first[None]}); "
                "give one to all (images beside class folders have none), leave some out by a glob, or pass "
                "--labels-from none"
            )
        if len({type(label) for label in labels}) > 1:
            raise DataError(f"{location} has labels that are text and others that are whole numbers; write one kind")
        if "train" not in self.counts:
            raise DataError(
                f"{location} has images for {' and '.join(self.counts)} but none to train on; name a folder, a file or "
                "an array after `train`"
            )
        is_numbered = all(str(label).isascii() and str(label).isdigit() for label in labels)
        return sorted(labels, key=int if is_numbered else None)


def field_of(fields: Iterable[str], column: str = "") -> str:
    """Return the field that holds labels: `column`, or the one that its name shows; empty if there is none."""
    names = {name.strip().lower(): name for name in fields}
    return next((names[name] for name in ([column.lower()] if column else _FIELDS) if name in names), "")


def may_be_labels(names: Iterable[str]) -> bool:
    return any(_FIELD_WORDS.intersection(words_of(name)) for name in names)


def choose(owner: str, fields: list[str], choice: LabelChoice, default: str = "", quiet: bool = False) -> str:
    """Return the field of labels among those of a file, empty for none, and log the others unless `quiet`.

    `default` counts if no name shows one. `DataError` if the chosen column is no field.
    """
    if choice.origin == NONE:
        return ""
    label = field_of(fields, choice.column) or (default if not choice.column else "")
    others = [printable(name) for name in fields if name != label]
    shown = ", ".join(others[:_FIELDS_SHOWN])
    if choice.column and not label:
        raise DataError(f"label_column {choice.column} is no field of {owner}, which has {shown or 'none'}")
    if not label and may_be_labels(fields) and not quiet:
        log.warning("no labels of %s are read; if one of %s has them, name it by --label-column", owner, shown)
    elif others and not quiet:
        log.info("skipped %d fields of %s: %s", len(others), owner, shown)
    return label


def label_of(where: str, value: Any) -> Label:
    """Return the label that a value means; `DataError` if it means none.

    Missing values, blank text and numbers below 0 stand for no label. Whole numbers may be floating-point; truth
    values, bytes of UTF-8 and lists of one value are labels too.
    """
    while isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        text = printable(value.strip())
        return None if re.fullmatch(r"-\d+|", text) else text
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, int | float | Decimal) or value != value // 1:
        expected = "expected text or a whole number for each image; choose another field by --label-column"
        raise DataError(f"{where} has label {reprlib.repr(value)}, {expected}")
    return int(value) if value >= 0 else None
