"""Parquet files of images: which columns are read, and every way in which they can be wrong."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.preprocess.formats.survey import survey
from tests.inputs.formats import parquet
from tests.inputs.sources import picture, read_source

IMAGES = [picture(number) for number in range(9)]


def structs(images: list[bytes | None]) -> list[dict[str, Any] | None]:
    return [{"bytes": image, "path": "x.png"} for image in images]


@given(
    labels=st.lists(st.integers(0, 2**40), min_size=9, max_size=9)
    | st.lists(st.text(min_size=1).filter(str.isprintable), min_size=9, max_size=9)
    | st.none(),
    in_struct=st.booleans(),
    large=st.booleans(),
    packing=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
)
def test_a_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, labels: list[Any] | None, in_struct: bool, large: bool, packing: str
) -> None:
    path = tmp_path_factory.mktemp("source") / "x.parquet"
    kind = pyarrow.large_binary() if large else pyarrow.binary()
    images = pyarrow.array(structs([*IMAGES]) if in_struct else IMAGES, None if in_struct else kind)
    columns = {"img": images, "width": [3] * 9, **({} if labels is None else {"label": labels})}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression=packing, row_group_size=2)
    surveyed, read = read_source(path)
    assert (surveyed.kind, surveyed.counts) == (source_listing.PARQUET, {"train": 9})
    assert [name for name, *_ in read] == [f"x.parquet[{number}]" for number in range(9)]
    assert [content for *_, content in read] == IMAGES
    assert [surveyed.classes[label] if surveyed.classes else None for _, _, label, _ in read] == (
        [None] * 9 if labels is None else [str(label) for label in labels]
    )
    assert surveyed.classes == ([] if labels is None else [str(label) for label in sorted(set(labels))])


def test_the_description_of_datasets_decides(tmp_path: Path) -> None:
    features = {
        "photo": {"_type": "Image"},
        "fine": {"_type": "ClassLabel", "names": ["ant", "bee", "cow"]},
        "coarse": {"_type": "ClassLabel", "names": ["all"]},
    }
    other = [b"not an image"] * 3
    content = parquet(features, image=other, fine=[2, 0, 2], photo=IMAGES[:3], coarse=[0] * 3)
    surveyed, read = read_source(tmp_path / "x.parquet", content)
    assert [content for *_, content in read] == IMAGES[:3]
    assert (surveyed.classes, [label for _, _, label, _ in read]) == (["ant", "cow"], [1, 0, 1])


def test_splits_are_recognized_by_names_and_classes_are_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    for name, labels in (("train-00000-of-00001", ["b", "a"]), ("test-00000-of-00001", ["c"]), ("val/x", ["a"])):
        (tmp_path / f"{name}.parquet").write_bytes(parquet(image=IMAGES[: len(labels)], label=labels))
    (tmp_path / "train-empty.parquet").write_bytes(
        parquet(image=pyarrow.array([], pyarrow.binary()), label=pyarrow.array([], pyarrow.string()))
    )
    surveyed, read = read_source(tmp_path)
    assert (surveyed.counts, surveyed.classes) == ({"test": 1, "train": 2, "validation": 1}, ["a", "b", "c"])
    assert [(split, label) for _, split, label, _ in read] == [
        ("test", 2), ("train", 1), ("train", 0), ("validation", 0)
    ]  # fmt: skip


def test_what_is_no_image_file_is_left_to_the_quarantine(tmp_path: Path) -> None:
    _, read = read_source(tmp_path / "x.parquet", parquet(image=structs([IMAGES[0], b"<html>", None])))
    assert [content for *_, content in read] == [IMAGES[0], b"<html>", b""]


def test_of_a_value_that_is_too_large_no_more_is_kept_than_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "LARGEST_FILE", 1000)
    _, read = read_source(tmp_path / "x.parquet", parquet(image=[IMAGES[0], bytes(5000)]))
    assert [len(content) for *_, content in read] == [len(IMAGES[0]), 1001]


WHOLE = parquet(image=IMAGES, label=[*range(9)])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (WHOLE[:-20], "x.parquet is damaged"),
        (b"PAR1" + bytes(200) + WHOLE[204:], "x.parquet is damaged"),
        (parquet(label=[1]), ": label (int64)"),
        (parquet(a=IMAGES[:1], b=IMAGES[:1]), "a (binary), b (binary); expected bytes"),
        (parquet(image=[[0, 1]]), "image (list<"),
        (parquet(image=structs([b"", IMAGES[0]])), "image of 0 bytes"),
        (parquet(image=IMAGES[:2], label=[1, None]), "without one (x.parquet[1])"),
        (parquet({"label": {"_type": "ClassLabel", "names": ["a"]}}, image=IMAGES[:1], label=[1]), "label 1, and"),
        (parquet(image=pyarrow.array([], pyarrow.binary())), "no images"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        read_source(tmp_path / "x.parquet", content)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (parquet(image=IMAGES[:1], label=["a"]), parquet(image=IMAGES[:1], label=[1]), "text and others"),
        (
            parquet({"label": {"_type": "ClassLabel", "names": ["a"]}}, image=IMAGES[:1], label=[0]),
            parquet({"label": {"_type": "ClassLabel", "names": ["b"]}}, image=IMAGES[:1], label=[0]),
            "in different ways",
        ),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path: Path, one: bytes, other: bytes, words: str) -> None:
    (tmp_path / "train.parquet").write_bytes(one)
    (tmp_path / "test.parquet").write_bytes(other)
    with pytest.raises(DataError, match=words):
        survey(str(tmp_path))


def test_no_thread_of_the_reader_is_left_to_abort_the_end_of_the_process(tmp_path: Path) -> None:
    """It met that end now and then, with SIGABRT. A process of its own, because other tests start threads."""
    (tmp_path / "x.parquet").write_bytes(WHOLE)
    program = """
import os, sys
import pyarrow.compute, pyarrow.parquet
from tests.inputs.sources import read_source
before = os.listdir("/proc/self/task")
assert len(read_source(sys.argv[1])[1]) == 9
assert os.listdir("/proc/self/task") == before
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.parquet")], check=True)
