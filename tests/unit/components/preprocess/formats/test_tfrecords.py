"""TFRecord files of images: read as TensorFlow writes them, and every way in which they can be wrong."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.data import tfrecord
from components.core.errors import DataError
from components.core.sources import source_listing
from components.preprocess.formats import tfrecords
from components.preprocess.formats.survey import read
from tests.inputs.sources import framed, framed_example, picture, read_source


def serialized(**features: Any) -> bytes:
    """TensorFlow's own encoding of an example; `/` is written `__` here."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(item, bytes) for item in values):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if all(isinstance(item, int) for item in values):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    named = {name.replace("__", "/"): feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()


values = (
    st.binary(max_size=9)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
    | st.lists(st.floats(width=32), max_size=3)
)


@given(
    image=st.binary(min_size=1, max_size=300),
    image_name=st.sampled_from(["image", "image__encoded"]),
    label=st.integers(-(2**63), 2**63 - 1),
    label_name=st.sampled_from(["label", "image__class__label", ""]),
    others=st.dictionaries(st.text("abcé", min_size=1), values, max_size=4),
)
def test_examples_are_read_as_tensorflow_writes_them(
    image: bytes, image_name: str, label: int, label_name: str, others: dict[str, Any]
) -> None:
    labeled = {label_name: label} if label_name else {}
    content = serialized(**others, **{image_name: image}, **labeled)
    expected = label if label_name and label >= 0 else None
    assert tfrecords.parsed(content, "x", "") == (image, expected)
    assert tfrecords.parsed(content, "x", label_name.replace("__", "/")) == (image, expected)
    assert tfrecords.parsed(content, "x") == (image, None)


def test_a_file_that_tensorflow_wrote(tmp_path: Path) -> None:
    import tensorflow as tf

    images = [picture(number) for number in range(250)]
    for packing, name in (("", "x.tfrecord"), ("GZIP", "y.tfrecord")):
        with tf.io.TFRecordWriter(str(tmp_path / name), packing) as writer:
            for number, image in enumerate(images):
                writer.write(serialized(image__encoded=image, image__class__label=5 + number % 3, image__height=3))
        surveyed, read_images = read_source(tmp_path / name)
        assert surveyed.kind == source_listing.TFRECORDS
        assert (surveyed.classes, surveyed.counts) == (["5", "6", "7"], {"train": 250})
        assert read_images == [(f"{name}[{n}]", "train", n % 3, image) for n, image in enumerate(images)]


def test_a_record_whose_length_begins_as_gzip_does(tmp_path: Path) -> None:
    image = picture(0)
    padding = 0x088B1F - len(serialized(image=image, pad=bytes(500_000))) + 500_000
    example = serialized(image=image, pad=bytes(padding))
    assert len(example) == 0x088B1F
    assert read_source(tmp_path / "x.tfrecord", framed(example))[1] == [("x.tfrecord[0]", "train", -1, image)]


IMAGE = picture(0)
RECORD = framed(serialized(image=IMAGE, label=1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no images"),
        (framed(b"no example"), "x.tfrecord: record 0 at byte 0 is no tf.train.Example"),
        (RECORD + b"more", f"record 1 at byte {len(RECORD)}"),
        (tfrecord._head(1 << 40), "1,099,511,627,776 bytes"),
        # A shard of a dataset of this pipeline.
        (framed_example(bytes(64), 3), "image of 64 bytes"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        read_source(tmp_path / "x.tfrecord", content)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"picture": IMAGE, "label": 1}, "has no feature image/encoded or image, but label, picture"),
        ({"image": [IMAGE, IMAGE]}, "image of 2 values"),
        ({"image": IMAGE, "label": [1, 2]}, r"label \[1, 2\], expected text or a whole number"),
    ],
)
def test_wrong_examples_are_refused(features: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=f"^x .*{words}"):
        tfrecords.parsed(serialized(**features), "x", "")


@pytest.mark.parametrize(
    ("now", "message"), [([1], r"x\.tfrecord had 2 .* now 1"), ([1, 3], r"x\.tfrecord .* label 3")]
)
def test_a_file_that_changed_after_it_was_surveyed(tmp_path: Path, now: list[int], message: str) -> None:
    surveyed, _ = read_source(
        tmp_path / "x.tfrecord", framed(*(serialized(image=IMAGE, label=label) for label in (1, 2)))
    )
    (tmp_path / "x.tfrecord").write_bytes(framed(*(serialized(image=IMAGE, label=label) for label in now)))
    with pytest.raises(DataError, match=message):
        [*itertools.chain.from_iterable(map(read, surveyed.parts))]
