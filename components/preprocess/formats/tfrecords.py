"""TFRecord files of images, read without TensorFlow: `tf.train.Example` with an image file and a label.

The image is the bytes feature `image/encoded` or `image` (as of TensorFlow Datasets), a PNG, JPEG or WebP file; the
label is the int64 feature `image/class/label` or `label`, or missing. Other features are passed over. Every record has
two checksums, which are compared; no file says how many there should be, so that one cut between two is not noticed.

The name of a file, or of a folder that it is in, says its split.
"""

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from components.core.data import pixels, tfrecord
from components.core.errors import DataError
from components.core.sources.files import printable
from components.preprocess.formats import stacks
from components.preprocess.formats.stacks import Example, Stack

_LARGEST_RECORD = pixels.LARGEST_FILE + (1 << 20)  # bytes; an image file and its other fields
_IMAGE_FEATURES = ("image/encoded", "image")
_LABEL_FEATURES = ("image/class/label", "label")


def examples(stack: Stack, with_images: bool = True) -> Iterator[Example]:
    """Yield the image files of a file of records with their labels; there is no reading of labels alone."""
    (file,) = stack.files
    with stacks.open_unpacked(file) as opened:
        for number, (offset, content) in enumerate(tfrecord.read(opened, _LARGEST_RECORD)):
            yield parsed(content, f"{file.name}: record {number} at byte {offset}")


def parsed(record: bytes, where: str) -> Example:
    """Return the image file and the label of a serialized `tf.train.Example`; a label below 0 stands for none."""
    try:
        features = tfrecord.Example.FromString(record).features.feature
    except DecodeError:
        raise DataError(f"{where} is no tf.train.Example") from None
    image = next((features[name].bytes_list.value for name in _IMAGE_FEATURES if name in features), None)
    if image is None:
        names = ", ".join(sorted(map(printable, features))[:8])
        raise DataError(f"{where} has no feature image/encoded or image, but {names or 'none'}")
    if len(image) != 1:
        raise DataError(f"{where} has an image of {len(image)} values of bytes, expected 1")
    labels = next((features[name].int64_list.value for name in _LABEL_FEATURES if name in features), [-1])
    if len(labels) != 1:
        raise DataError(f"{where} has a label of {len(labels)} whole numbers, expected 1")
    return image[0], labels[0] if labels[0] >= 0 else None
