"""Parquet files of images, as Hugging Face's `datasets` writes and its hub serves them, read through pyarrow.

Images are a column of PNG, JPEG or WebP files: bytes, or a struct with a field `bytes`. Labels are a column of whole
numbers or text. Of several columns the description that `datasets` leaves in the file decides (types `Image` and
`ClassLabel`, which has the names of the classes; huggingface.co/docs/datasets/main/en/about_dataset_features), else
the names `image` or `img`, and `label`. Other columns are not read.

The name of a file, or of a folder that it is in, says its split. Nothing says how large a value is before it is read:
a file made to do harm can take some 8 GB of memory, four times the largest page that the format allows.
"""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from components.core.errors import DataError, StageError
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.decode import pixels
from components.preprocess.formats import stacks
from components.preprocess.formats.stacks import Example, Stack

if TYPE_CHECKING:
    from pyarrow import Field
    from pyarrow.parquet import ParquetFile

log = logging.getLogger(__name__)

_IMAGE_NAMES = ("image", "img")
_LABEL_NAME = "label"
_IMAGES_AT_ONCE = 4  # each may be large, and values of a dictionary are repeated in memory
_LABELS_AT_ONCE = 1 << 16
_NAMES_SHOWN = 8
_LONGEST_REASON = 200


@dataclasses.dataclass(frozen=True)
class _Columns:
    """The columns of a file that are read."""

    image: str
    of_struct: bool  # whether image files are in the field `bytes` of the column
    label: str  # empty without labels
    classes: tuple[str, ...]  # names of the labels by value; empty without names

    @property
    def images(self) -> str:
        """The column of bytes, as pyarrow names it."""
        return f"{self.image}.bytes" if self.of_struct else self.image


@dataclasses.dataclass(frozen=True)
class TableStack(Stack):
    """The images of a table with their labels, in two of its columns."""

    file: SourceFile
    columns: _Columns
    value_of: dict[str, int]  # the values of labels that are text

    def examples(self) -> Iterator[Example]:
        """Read both columns."""
        columns, number = self.columns, 0
        columns_read = [columns.images, *([columns.label] if columns.label else [])]
        with _open_parquet(self.file) as opened:
            for batch in opened.iter_batches(_IMAGES_AT_ONCE, columns=columns_read, use_threads=False):
                images = batch.column(columns.image).flatten()[0] if columns.of_struct else batch.column(columns.image)
                labels = batch.column(columns.label).to_pylist() if columns.label else [None] * len(images)
                for scalar, label in zip(images, labels, strict=True):
                    buffer = scalar.as_buffer()
                    image = buffer[: pixels.LARGEST_FILE + 1].to_pybytes() if buffer is not None else b""
                    # The first image decides; others are quarantined.
                    if number == 0 and not pixels.is_image_file(image):
                        raise DataError(
                            f"{self.name} has no PNG, JPEG or WebP file in column {printable(columns.image)} of its "
                            "first row; write the content of image files there, as `Dataset.to_parquet` does"
                        )
                    number += 1
                    yield image, self.value_of.get(label, _whole(label))


def list_stacks(files: Collection[SourceFile]) -> list[Stack]:
    """Read the labels of files, and list those with images; a single file is for `train` under any name."""
    columns, counts = {}, {}
    labels_of_files: dict[SourceFile, set[Any]] = {}
    for file in files:
        with _open_parquet(file) as opened:
            columns[file] = _columns_of(file, opened)
            counts[file] = opened.metadata.num_rows
            if not 0 <= counts[file] <= stacks.MOST_IMAGES:
                raise DataError(
                    f"{file.name} says that it has {counts[file]:,} rows, expected {stacks.MOST_IMAGES:,} at most"
                )
            labels_of_files[file] = _labels_of(file, opened, columns[file].label)
    names_of_files = {chosen.classes for chosen in columns.values() if chosen.classes}
    if len(names_of_files) > 1:
        raise DataError(f"{min(file.name for file in files)} and others name their classes in different ways")
    classes = next(iter(names_of_files), ())
    texts = sorted({label for labels in labels_of_files.values() for label in labels if isinstance(label, str)})
    if texts and any(isinstance(label, int) for labels in labels_of_files.values() for label in labels):
        raise DataError("some labels are text and others whole numbers; write one kind in all files")
    value_of = {text: value for value, text in enumerate(texts)}
    listed: list[Stack] = []
    for file in files:
        if not counts[file]:
            continue
        split = stacks.split_of(file.name) if len(files) > 1 else "train"
        values = sorted(value_of.get(label, label) for label in labels_of_files[file] if label is not None)
        if values and classes and values[-1] >= len(classes):
            raise DataError(f"{file.name} has a label {values[-1]}, and names for {len(classes)} classes")
        names = [*(classes or map(printable, texts))]
        listed.append(TableStack(file.name, split, counts[file], None, values, names, file, columns[file], value_of))
    return listed


def _whole(label: Any) -> int | None:
    return label if isinstance(label, int) and label >= 0 else None


@contextlib.contextmanager
def _open_parquet(file: SourceFile) -> Iterator["ParquetFile"]:
    """Open a file; turn pyarrow's errors on a damaged one into an error for users."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{file.name} is a Parquet file, and pyarrow is not installed: pip install pyarrow") from None
    with open_file(file.location, file.checksum) as opened:
        try:
            # No thread of pyarrow may read: if Python ends while the thread waits for its lock, the process aborts.
            yield pyarrow.parquet.ParquetFile(opened, page_checksum_verification=True, pre_buffer=False)
        except (StageError, MemoryError):
            raise
        except OSError as error:
            if error.errno:  # the disk's; pyarrow's errors have no errno
                raise
            raise _damaged(file, error) from None
        except (pyarrow.ArrowException, ValueError, KeyError) as error:
            raise _damaged(file, error) from None


def _damaged(file: SourceFile, error: Exception) -> DataError:
    shown = " ".join(printable(str(error)).split())[:_LONGEST_REASON]
    return DataError(f"{file.name} is no Parquet file, or is damaged: {shown}")


def _columns_of(file: SourceFile, opened: "ParquetFile") -> _Columns:
    import pyarrow.types as arrow_types

    fields: dict[str, Field] = {field.name: field for field in opened.schema_arrow}
    features = _features_of(opened)

    def is_bytes(field: "Field") -> bool:
        return bool(arrow_types.is_binary(field.type) or arrow_types.is_large_binary(field.type))

    def has_bytes(field: "Field") -> bool:
        return arrow_types.is_struct(field.type) and any(part.name == "bytes" and is_bytes(part) for part in field.type)

    def is_label(field: "Field") -> bool:
        kind = field.type
        return bool(arrow_types.is_integer(kind) or arrow_types.is_string(kind) or arrow_types.is_large_string(kind))

    def described(kind: str) -> list[str]:
        return [name for name in fields if features.get(name, {}).get("_type") == kind]

    images = [name for name, field in fields.items() if is_bytes(field) or has_bytes(field)]
    images = [name for name in described("Image") if name in images] or images
    image = images[0] if len(images) == 1 else next((name for name in _IMAGE_NAMES if name in images), "")
    if not image:
        names = ", ".join([printable(f"{name} ({field.type})") for name, field in fields.items()][:_NAMES_SHOWN])
        raise DataError(
            f"{file.name} has no single column of image files: {names or 'no columns'}; expected "
            f"bytes, or a struct with bytes, in a column {_IMAGE_NAMES[0]}"
        )
    labels = (name for name in (_LABEL_NAME, *described("ClassLabel")) if name in fields and is_label(fields[name]))
    label = next(labels, "")
    left_out = [printable(name) for name in fields if name not in (image, label)]
    if left_out:
        log.info("skipped %d columns of %s: %s", len(left_out), file.name, ", ".join(left_out[:_NAMES_SHOWN]))
    names_of_classes = features.get(label, {}).get("names") or ()
    return _Columns(image, has_bytes(fields[image]), label, tuple(printable(str(name)) for name in names_of_classes))


def _features_of(opened: "ParquetFile") -> dict[str, Any]:
    """Return the features that `datasets` recorded, by column."""
    content = (opened.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(content)["info"]["features"]
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _labels_of(file: SourceFile, opened: "ParquetFile", column: str) -> set[Any]:
    """Return the labels that occur; None is among them if a row has no label."""
    import pyarrow.compute

    labels: set[Any] = set()
    if column:
        for batch in opened.iter_batches(_LABELS_AT_ONCE, columns=[column], use_threads=False):
            labels.update(pyarrow.compute.unique(batch.column(0)).to_pylist())
    labels = {_whole(label) if not isinstance(label, str) else label or None for label in labels}
    if None in labels and len(labels) > 1:
        raise DataError(
            f"{file.name} has labels in column {printable(column)} for some rows alone; give one to all or to none"
        )
    return labels
