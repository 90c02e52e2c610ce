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
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import first_names
from components.preprocess.formats import labels, stacks
from components.preprocess.formats.labels import Label, LabelChoice
from components.preprocess.formats.stacks import Example, Stack

if TYPE_CHECKING:
    from pyarrow import Schema
    from pyarrow.parquet import ParquetFile

_IMAGE_NAMES = ("image", "img")
_IMAGE_TYPE = re.compile(r"^(struct<(.*, )?bytes: )?(large_)?binary\b")  # of columns, as pyarrow writes it
_IMAGES_AT_ONCE = 4  # each may be large, and values of a dictionary are repeated in memory
_LABELS_AT_ONCE = 1 << 16


def list_stacks(files: Collection[SourceFile], choice: LabelChoice) -> Iterator[Stack]:
    """List the files of tables, with the columns of their images and labels."""
    for number, stack in enumerate(stacks.file_stacks(files)):
        with _open_parquet(stack.files[0]) as opened:
            yield _with_columns(stack, opened.schema_arrow, choice, quiet=number > 0)


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the image files of a table with their labels; without images, empty ones."""
    (file,), (image, *label) = stack.files, stack.arrays
    with _open_parquet(file) as opened:
        in_struct = str(opened.schema_arrow.field(image).type).startswith("struct")
        columns = [*([f"{image}.bytes" if in_struct else image] if with_images else []), *label]
        at_once = _IMAGES_AT_ONCE if with_images else _LABELS_AT_ONCE
        for batch in opened.iter_batches(at_once, columns=columns, use_threads=False):
            values = batch.column(label[0]).to_pylist() if label else [None] * len(batch)
            contents: Iterable[bytes] = itertools.repeat(b"", len(batch))
            if with_images:
                column = batch.column(image)
                buffers = (scalar.as_buffer() for scalar in (column.flatten()[0] if in_struct else column))
                contents = (buffer[: pixels.LARGEST_FILE + 1].to_pybytes() if buffer else b"" for buffer in buffers)
            yield from zip(contents, (_label(stack, value) for value in values), strict=True)


def _label(stack: Stack, value: Any) -> Label:
    label = labels.label_of(stack.name, value)
    if stack.classes and isinstance(label, int) and label >= len(stack.classes):
        raise DataError(f"{stack.name} has a label {label}, and names for {len(stack.classes)} classes")
    return label


@contextlib.contextmanager
def _open_parquet(file: SourceFile) -> Iterator["ParquetFile"]:
    import pyarrow.parquet

    with stacks.open_unpacked(file) as opened:
        # No thread of pyarrow may read: if Python ends while the thread waits for its lock, the process aborts.
        yield pyarrow.parquet.ParquetFile(opened, page_checksum_verification=True, pre_buffer=False)


def _with_columns(stack: Stack, schema: "Schema", choice: LabelChoice, quiet: bool) -> Stack:
    """Choose the columns of images and labels."""
    fields = {field.name: field.type for field in schema}
    features: dict[str, Any] = {}  # that `datasets` recorded, by column
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        recorded = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        features = {name: feature for name, feature in recorded.items() if isinstance(feature, dict)}
    types = {name: features.get(name, {}).get("_type") for name in fields}
    images = [name for name, kind in fields.items() if _IMAGE_TYPE.search(str(kind))]
    images = [name for name in images if types[name] == "Image"] or images
    image = images[0] if len(images) == 1 else next((name for name in _IMAGE_NAMES if name in images), "")
    if not image:
        names = first_names([printable(f"{name} ({kind})") for name, kind in fields.items()])
        raise DataError(
            f"{stack.name} has no single column of image files: {names or 'no columns'}; expected bytes of PNG, JPEG "
            f"or WebP files in a column {_IMAGE_NAMES[0]}, or a struct with bytes; save lists of pixels as an NPZ file"
        )
    others = [name for name in fields if name != image]
    recorded = [name for name in others if types[name] == "ClassLabel"]
    label = labels.choose(stack.name, others, choice, recorded[0] if recorded else "", quiet)
    classes = features.get(label, {}).get("names") or ()
    arrays = (image, label) if label else (image,)
    return dataclasses.replace(stack, arrays=arrays, classes=tuple(printable(str(name)) for name in classes))
