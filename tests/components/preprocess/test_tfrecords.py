"""TFRecord files of images: read as TensorFlow writes them, and every way in which they can be wrong."""

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from components import records, sources
from components.errors import DataError
from components.preprocess import tfrecords
from components.preprocess.survey import Survey, read, survey
from components.preprocess.tfrecords import Example
from components.sources import SourceFile
from tests.faults.corruption import damages


def png(seed: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (3, 3, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def serialised(**features: Any) -> bytes:
    """TensorFlow's own encoding of an example; `/` is written `__` here."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(each, bytes) for each in values):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if all(isinstance(each, int) for each in values):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    named = {name.replace("__", "/"): feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()


def framed(*examples: bytes) -> bytes:
    return b"".join(records.frame(examples))


def held(path: Path, content: bytes) -> tuple[Survey, list[tuple[str, str, int, bytes]]]:
    """What a file is surveyed as, and its images in order, each part read by itself as a worker gets it."""
    path.write_bytes(content)
    found = survey(str(path))
    parts = pickle.loads(pickle.dumps(found.parts))  # noqa: S301 - our own
    return found, [image[:4] for part in parts for some in read(part) for image in some]


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
    labelled = {label_name: label} if label_name else {}
    content = serialised(**others, **{image_name: image}, **labelled)
    assert tfrecords.parsed(content) == Example(image, label if label_name and label >= 0 else None)


@given(data=st.data())
def test_what_tensorflow_refuses_is_refused_and_what_it_reads_is_read_alike(data: st.DataObject) -> None:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    content = bytearray(serialised(image=b"abc", label=7, more=[1.5]))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = tfrecords.parsed(bytes(content))
    except tfrecords._NoExample:
        return
    try:
        features = tf.train.Example.FromString(bytes(content)).features.feature
    except DecodeError:  # names that are not UTF-8, groups, fields of another type: whatever else is in a record
        return
    name = "image/encoded" if "image/encoded" in features else "image"
    assert [found.image] == list(features[name].bytes_list.value)
    labels = [features[name].int64_list.value for name in ("image/class/label", "label") if name in features]
    assert found.label == (labels[0][0] if labels and labels[0][0] >= 0 else None)


def test_a_file_that_tensorflow_wrote(tmp_path: Path) -> None:
    import tensorflow as tf

    images = [png(number) for number in range(250)]
    for packing, name in (("", "x.tfrecord"), ("GZIP", "y.tfrecord")):
        with tf.io.TFRecordWriter(str(tmp_path / name), packing) as writer:
            for number, image in enumerate(images):
                writer.write(serialised(image__encoded=image, image__class__label=5 + number % 3, image__height=3))
        content = (tmp_path / name).read_bytes()
        found, read_images = held(tmp_path / name, content)
        assert (found.kind, found.classes, found.counts) == (sources.TFRECORDS, ["5", "6", "7"], {"train": 250})
        assert read_images == [(f"{name}[{n}]", "train", n % 3, image) for n, image in enumerate(images)]
        sizes = [[len(some) for some in read(part)] for part in found.parts]
        assert sizes == ([[50] * 5] if packing else [[50]] * 5)


def test_a_record_whose_length_begins_as_gzip_does(tmp_path: Path) -> None:
    image = png(0)
    padding = 0x088B1F - len(serialised(image=image, pad=bytes(500_000))) + 500_000
    example = serialised(image=image, pad=bytes(padding))
    assert len(example) == 0x088B1F
    assert held(tmp_path / "x.tfrecord", framed(example))[1] == [("x.tfrecord[0]", "train", -1, image)]


def test_splits_are_told_by_the_names_of_files(tmp_path: Path) -> None:
    for name, count in (
        ("mnist-train.tfrecord-00000-of-00002", 3),
        ("mnist-train.tfrecord-00001-of-00002", 2),
        ("mnist-test.tfrecord-00000-of-00001", 1),
        ("val/x.tfrecord", 1),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(framed(*(serialised(image=png(n), label=n) for n in range(count))))
    found = survey(str(tmp_path))
    assert (found.counts, found.classes) == ({"test": 1, "train": 5, "validation": 1}, ["0", "1", "2"])
    assert [part.split for part in found.parts if hasattr(part, "split")] == ["test", "train", "train", "validation"]


IMAGE = png(0)
WRONG: list[tuple[bytes, str]] = [
    (b"", "has no record in its TFRecord files"),
    (b"<html>404 not found</html>", "x.tfrecord is no TFRecord file, or damaged: the length of record 0 at byte 0"),
    (framed(b"no example"), "record 0 at byte 0 is no tf.train.Example"),
    (b"more", "x.tfrecord is no TFRecord file, or damaged: the length of record 1"),
    ((1 << 40).to_bytes(8, "little") + tfrecords._checksum((1 << 40).to_bytes(8, "little")), "1,099,511,627,776 bytes"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_wrong_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    before = framed(serialised(image=IMAGE)) if content == b"more" else b""
    with pytest.raises(DataError) as raised:
        held(tmp_path / "x.tfrecord", before + content)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"picture": IMAGE, "label": 1}, "has no feature image/encoded or image, but label, picture"),
        ({"image": bytes(784)}, "has an image of 784 bytes that is no PNG, JPEG or WebP file; pixels as they are go"),
        ({"image": [IMAGE, IMAGE]}, "has an image of 2 values of bytes, expected 1"),
        ({"image": 5}, "has an image of 0 values of bytes, expected 1"),
        ({"image": IMAGE, "label": [1, 2]}, "has a label of 2 whole numbers, expected 1"),
        ({"image": IMAGE, "label": b"cat"}, "has a label of 0 whole numbers, expected 1"),
    ],
)
def test_wrong_examples_are_refused(tmp_path: Path, features: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as raised:
        held(tmp_path / "x.tfrecord", framed(serialised(**features)))
    assert f"x.tfrecord: record 0 at byte 0 {message}" in str(raised.value)


def test_labels_for_some_and_files_for_no_training(tmp_path: Path) -> None:
    both = framed(serialised(image=IMAGE, label=1), serialised(image=IMAGE, label=-1))
    with pytest.raises(
        DataError, match=r"has labels, but none for record 1 of x\.tfrecord; give one to all or to none"
    ):
        held(tmp_path / "x.tfrecord", both)
    (tmp_path / "a").mkdir()
    for name in ("test", "val"):
        (tmp_path / "a" / f"{name}.tfrecord").write_bytes(framed(serialised(image=IMAGE)))
    with pytest.raises(DataError, match="has images for test and validation but no file with train in its name"):
        survey(str(tmp_path / "a"))


def test_a_dataset_of_this_pipeline_is_no_source(tmp_path: Path) -> None:
    shard = framed(records.encode_example(bytes(64), 3))
    with pytest.raises(DataError, match="of a dataset of this pipeline give the source that it was made of"):
        held(tmp_path / "train-00000-of-00001.tfrecord", shard)


@pytest.mark.parametrize("gzipped", [False, True])
def test_no_file_that_is_cut_or_flipped_is_read_as_another(tmp_path: Path, gzipped: bool) -> None:
    """But for a cut between two records."""
    content = framed(serialised(image=IMAGE, label=1), serialised(image=png(1), label=2))
    whole = gzip.compress(content, mtime=0) if gzipped else content
    _, wanted = held(tmp_path / "x.tfrecord", whole)
    for damage, left in list(damages(whole))[::2]:
        try:
            _, found = held(tmp_path / "x.tfrecord", left)
        except DataError as error:
            assert str(error).isprintable()  # noqa: PT017 - either way is right
        else:
            assert len(left) == len(framed(serialised(image=IMAGE, label=1))) or found == wanted, damage


def test_a_file_that_changed_after_it_was_surveyed(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(serialised(image=IMAGE)))
    examples = tfrecords.Examples(SourceFile("x.tfrecord", str(path), path.stat().st_size), 0, 0, 2)
    with pytest.raises(DataError, match=r"x\.tfrecord ends before record 1; the source changed meanwhile"):
        list(tfrecords.read_examples(examples))
