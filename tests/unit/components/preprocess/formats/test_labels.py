"""Splits and classes of images, from folders and from `labels.csv`."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.artifacts import datasets
from components.core.errors import DataError
from components.preprocess.formats import label_files, labels
from components.preprocess.formats.labels import Row, Table


def table(content: bytes) -> Table:
    return label_files.parse_labels("labels.csv", "", content)


@given(
    rows=st.dictionaries(
        st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1).filter(str.isprintable),
        st.tuples(
            st.text(st.characters(codec="utf-8", categories=("L", "N", "P"))), st.sampled_from(["train", "test"])
        ),
    ),
    with_splits=st.booleans(),
    mark=st.booleans(),
)
def test_a_table_is_read_as_the_library_writes_it(
    rows: dict[str, tuple[str, str]], with_splits: bool, mark: bool
) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(["file", "label", "split"][: 3 if with_splits else 2])
    for name, (label, split) in rows.items():
        writer.writerow([f"./{name}", label, split][: 3 if with_splits else 2])
    expected = {name: Row(label, split if with_splits else None) for name, (label, split) in rows.items()}
    assert table(written.getvalue().encode("utf-8-sig" if mark else "utf-8")).rows == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "begins with '', expected a header file,label or file,label,split"),
        (b"name,class\na.png,cat\n", "begins with 'name,class'"),
        (b"file,label\na.png,cat\nb.png\n", "line 3 has 1 cells, expected 2 (file,label)"),
        (b"file,label\na.png,cat\na.png,dog\n", "line 3 has a.png"),
        (b"file,label,split\na.png,cat,hold\n", "line 2 has split 'hold', expected one of train"),
        (b"file,label\na\xff.png,cat\n", "UTF-8"),
        (b'file,label\n"a.png,cat\n', "CSV"),
    ],
)
def test_wrong_tables_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=f"^labels.csv.*{re.escape(words)}"):
        table(content)


def test_a_table_decides_and_folders_do_not() -> None:
    names = ["x/1.png", "x/2.png", "y/3.png"]
    labeled = labels.labeled("src", names, table(b"file,label\nx/1.png,dog\ny/3.png,cat\nx/2.png,cat\n"))
    assert ([*labeled.each(names)], labeled.classes) == ([("train", 1), ("train", 0), ("train", 0)], ["cat", "dog"])
    with_splits = table(b"file,label,split\nx/1.png,dog,\ny/3.png,cat,val\nx/2.png,cat,test\n")
    expected = [("train", 1), ("test", 0), ("validation", 0)]
    assert [*labels.labeled("src", names, with_splits).each(names)] == expected
    without = labels.labeled("src", names, table(b"file,label\nx/1.png,\ny/3.png,\nx/2.png,\n"))
    assert (without.classes, next(without.each(names))) == ([], ("train", datasets.NO_LABEL))


def test_splits_come_from_folders_where_the_table_has_none() -> None:
    names = ["test/1.png", "train/2.png"]
    labeled = labels.labeled("src", names, table(b"file,label\ntest/1.png,a\ntrain/2.png,a\n"))
    assert [*labeled.each(names)] == [("test", 0), ("train", 0)]
    assert labeled.counts == {"test": 1, "train": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"file,label\n1.png,a\n2.png,a\n3.png,a\n", "labels.csv has 1 files .* first 3.png"),
        (b"file,label\n1.png,a\n", "labels.csv .* 1 images, first 2.png"),
        (b"file,label\n1.png,a\n2.png,\n", r"^src .* labels.csv .*\(2.png\)"),
        (b"file,label,split\n1.png,a,test\n2.png,a,test\n", "^src has images for test"),
    ],
)
def test_a_table_of_other_files_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        labels.labeled("src", ["1.png", "2.png"], table(content))


def test_classes_that_are_numbers_are_in_their_order() -> None:
    names = [f"{number}/x.png" for number in (10, 9, 100)]
    assert labels.labeled("src", names).classes == ["9", "10", "100"]
    assert labels.labeled("src", [*names, "a/x.png"]).classes == ["10", "100", "9", "a"]
