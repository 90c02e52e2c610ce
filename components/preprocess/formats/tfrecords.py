"""TFRecord files of images, read without TensorFlow: `tf.train.Example` with an image file and a label.

The image is the bytes feature `image/encoded` or `image` (as of TensorFlow Datasets), a PNG, JPEG or WebP file; the
label is a feature by one of the names of `labels`, or missing. Other features are passed over. Every record has two
checksums, which are compared; no file says how many there should be, so that one cut between two is not noticed.

The name of a file, or of a folder that it is in, says its split.
"""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from components.core.data import pixels, tfrecord
from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.preprocess.formats import labels, stacks
from components.preprocess.formats.stacks import Example, Stack

_LARGEST_RECORD = pixels.LARGEST_FILE + (1 << 20)  # bytes; an image file and its other fields
_IMAGE_FEATURES = ("image/encoded", "image")


def list_stacks(files: Collection[SourceFile], choice: labels.LabelChoice) -> Iterator[Stack]:
    """List the files with the feature of the first record's label, empty if it has none; none if labels are ignored."""
    for number, stack in enumerate(stacks.file_stacks(files)):
        with stacks.open_unpacked(stack.files[0]) as opened:
            first = next(tfrecord.read(opened, _LARGEST_RECORD), None)
        features = _features(first[1], f"{stack.name}: record 0 at byte 0") if first else {}
        others = sorted(name for name in features if name not in _IMAGE_FEATURES)
        label = labels.choose(stack.name, others, choice, quiet=number > 0) if first else ""
        yield dataclasses.replace(stack, arrays=("image",) if choice.origin == labels.NONE else ("image", label))


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the image files of a file of records with their labels; there is no reading of labels alone."""
    (file,) = stack.files
    with stacks.open_unpacked(file) as opened:
        for number, (offset, content) in enumerate(tfrecord.read(opened, _LARGEST_RECORD)):
            yield parsed(content, f"{file.name}: record {number} at byte {offset}", *stack.arrays[1:])


def parsed(record: bytes, where: str, label: str | None = None) -> Example:
    """Return the image file of a serialized `tf.train.Example`, and the label that a feature has, if one is named.

    An empty name stands for the one that its own name shows.
    """
    features = _features(record, where)
    label = labels.field_of(features) if label == "" else label
    image = next((features[name].bytes_list.value for name in _IMAGE_FEATURES if name in features), None)
    if image is None:
        names = ", ".join(sorted(map(printable, features))[:8])
        raise DataError(f"{where} has no feature image/encoded or image, but {names or 'none'}")
    if len(image) != 1:
        raise DataError(f"{where} has an image of {len(image)} values of bytes, expected 1")
    if label is None or label not in features:
        return image[0], None
    kind = features[label].WhichOneof("kind")
    values = [*getattr(features[label], kind).value] if kind else []  # which mean no label
    return image[0], labels.label_of(where, values)


def _features(record: bytes, where: str) -> Any:
    """Return the features of a serialized `tf.train.Example` by name."""
    try:
        return tfrecord.Example.FromString(record).features.feature
    except DecodeError:
        raise DataError(f"{where} is no tf.train.Example") from None
