"""Labels: folders, `labels.csv`, `dataset.json`, `metadata.jsonl` and `.csv`, and those beside WebDataset's images."""

import csv
import io
import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.errors import DataError
from components.preprocess.formats import label_files
from components.preprocess.formats.label_files import Row, Table
from components.preprocess.formats.labels import BY_NAME
from components.preprocess.formats.survey import survey
from tests.inputs.formats import tarred, zipped
from tests.inputs.sources import read_source, write_files
from tests.unit.components.preprocess.formats.test_archives import PACKERS

TWO = {"00000/img00000000.png": b"0", "00000/img00000001.png": b"1"}
AB = {"a/1.png": b"1", "b/2.png": b"2"}
XY = {"x/1.png": b"1", "x/2.png": b"2", "y/3.png": b"3"}


def stylegan_file(labels: object) -> bytes:
    return json.dumps({"labels": labels}).encode()


def metadata(rows: dict[str, object]) -> bytes:
    return "\n".join(json.dumps({"file_name": name, "label": label}) for name, label in rows.items()).encode()


def described(source: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """Classes; split and label of each image, by its content."""
    surveyed, images = read_source(source)
    return surveyed.classes, [image[1:3] for image in sorted(images, key=lambda image: image[3])]


# Files, classes, and the labels and splits of the images in them; `train` is left out.
CASES: dict[str, tuple[dict[str, bytes], list[str], list[int | tuple[str, int]]]] = {
    "stylegan": ({**TWO, "dataset.json": stylegan_file([*zip(TWO, [12, 3], strict=True)])}, ["3", "12"], [1, 0]),
    "no labels": ({**TWO, "dataset.json": stylegan_file(None)}, [], [-1, -1]),
    "another program's": ({**AB, "dataset.json": b'{"info": {}}'}, ["a", "b"], [0, 1]),
    "jsonl": (
        {
            "train/a/1.png": b"1",
            "train/b/2.png": b"2",
            "test/3.png": b"3",
            "train/metadata.jsonl": metadata({"a/1.png": "x", "./b/2.png": "y"}),
            "test/metadata.jsonl": metadata({"3.png": "x"}),
        },
        ["x", "y"],
        [0, 1, ("test", 0)],
    ),
    "csv": ({**AB, "metadata.csv": b"file_name,text,label\na/1.png,,7\nb/2.png,words,10\n"}, ["7", "10"], [0, 1]),
    "captions": ({**AB, "metadata.jsonl": b'{"file_name": "a/1.png", "text": "words"}\n'}, ["a", "b"], [0, 1]),
    "labels.csv comes first": (
        {"1.png": b"1", "metadata.csv": b"file_name,label\n1.png,no\n", "labels.csv": b"file,label\n1.png,yes\n"},
        ["yes"],
        [0],
    ),
    "folders do not count": (
        {**XY, "labels.csv": b"file,label\nx/1.png,dog\ny/3.png,cat\nx/2.png,cat\n"},
        ["cat", "dog"],
        [1, 0, 0],
    ),
    "splits": (
        {**XY, "labels.csv": b"file,label,split\nx/1.png,b,\ny/3.png,a,val\nx/2.png,a,test\n"},
        ["a", "b"],
        [1, ("test", 0), ("validation", 0)],
    ),
    "splits of folders": (
        {"test/1.png": b"1", "train/2.png": b"2", "labels.csv": b"file,label\ntest/1.png,a\ntrain/2.png,a\n"},
        ["a"],
        [("test", 0), 0],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("packer", ["folder", "stored.zip", "packed.tar.gz"])
def test_a_folder_and_an_archive_of_it_have_the_same_labels(tmp_path: Path, name: str, packer: str) -> None:
    files, classes, places = CASES[name]
    if packer == "folder":
        source = write_files(tmp_path / "source", files)
    else:
        source = tmp_path / packer
        source.write_bytes(PACKERS[packer](files))
    assert described(source) == (classes, [("train", place) if isinstance(place, int) else place for place in places])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a/x.png", b"", "and without one (1.png)"),
        ("train/x.png", b"", "folders for splits (train) but also images beside them"),
        ("labels.csv", b"file,label\n", "a header alone"),
        ("labels.csv", b"file,x,y1\n1.png,2,3\n", "the columns file, x, y1; say by --label-column"),
        ("labels.csv", b"file,label\n1.png,cat\nb.png\n", "line 3 has 1 cells, expected 2"),
        ("labels.csv", b"file,label\n1.png,cat\n1.png,dog\n", "line 3 has 1.png"),
        (
            "labels.csv",
            b"file,label,split\n1.png,cat,hold\n",
            "line 2 has split 'hold', expected train, validation or test",
        ),
        ("labels.csv", b"file,label\n2.png,a\n1.png,a\n", "labels.csv has 1 files .* first 2.png"),
        ("labels.csv", b"file,label,split\n1.png,a,test\n", "has images for test"),
        ("dataset.json", b"[" * 100_000, "dataset.json is no JSON"),
        ("dataset.json", stylegan_file([["1.png", [0.5, 0.5]]]), "entry 0 has ['1.png', [0.5, 0.5]], expected"),
        ("metadata.jsonl", b'{"file_name": "1.png", "label": 1}\nno', "line 2 is no JSON"),
        ("metadata.jsonl", metadata({"1.png": 0.5}), "line 1 has label 0.5, expected text"),
        ("metadata.jsonl", metadata({"1.png": 1}) + b"\n" + metadata({"./1.png": 2}), "line 2 has 1.png"),
        ("metadata.jsonl", b"\xff", "metadata.jsonl is not UTF-8"),
        ("metadata.csv", b'file_name,label\n"1.png,a\n', "is no CSV"),
    ],
)
def test_files_that_are_wrong_are_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    folder = write_files(tmp_path, {"1.png": b"1", name: content})
    with pytest.raises(DataError, match=words if ".*" in words else re.escape(words)):
        survey(str(folder))


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_files, "LARGEST_FILE", 20)
    table = b"file,label\n" + bytes(10)
    for source in (
        write_files(tmp_path / "folder", {"1.png": b"1", "labels.csv": table}),
        write_files(tmp_path / "packed", {"x.zip": zipped({"1.png": b"1", "labels.csv": table})}),
    ):
        with pytest.raises(DataError, match=r"labels\.csv .* 20 bytes"):
            survey(str(source))


def test_samples_of_webdataset(tmp_path: Path) -> None:
    """Samples of several files have the same names, and folders are no classes of theirs."""
    for name, labels in (("x-train-000000.tar", [b"10", b"9"]), ("x-val-000000.tar", [b"9\n"])):
        files: dict[str, bytes] = {}
        for number, label in enumerate(labels):
            files |= {f"a/{number}.jpg": b"%d" % number, f"a/{number}.cls": label}
            files[f"a/{number}.json"] = b'{"label": "x"}'
        (tmp_path / name).write_bytes(tarred(files))
    assert described(tmp_path) == (["9", "10"], [("train", 1), ("validation", 0), ("train", 0)])


def test_labels_in_json_beside_images(tmp_path: Path) -> None:
    json_file = b'{"label": "dog", "caption": "x"}'
    others = {"notes.json": b"[", "2.json": b'{"caption": "y"}', "info.txt": b""}
    files = {"1.left.png": b"1", "1.right.png": b"2", "1.json": json_file, **others}
    source = tmp_path / "x.tar"
    source.write_bytes(tarred(files))
    assert described(source) == (["dog"], [("train", 0)] * 2)
    source.write_bytes(tarred({"1.png": b"1", "1.json": b'{"caption": "y"}'}))
    assert described(source) == ([], [("train", -1)])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"1.json": b"{"}, "x.tar/1.json is no JSON"),
        ({"1.json": b'{"label": [1, 2]}'}, "x.tar/1.json has label [1, 2], expected text or a whole number for each"),
        ({"1.cls": b"1", "2.png": b"2"}, "(x.tar/2.png)"),
        ({"1.json": bytes(2 << 20)}, "2,097,152 bytes"),
    ],
)
def test_samples_that_are_wrong_are_refused(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    (tmp_path / "x.tar").write_bytes(tarred({"1.png": b"1", **files}))
    with pytest.raises(DataError, match=re.escape(words)):
        survey(str(tmp_path / "x.tar"))


CELLS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P"))).filter(lambda text: not text.startswith("-"))
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1).filter(
    lambda text: text.isprintable() and "\\" not in text  # which is a slash of Windows
)


@given(
    rows=st.dictionaries(NAMES, st.tuples(CELLS, st.sampled_from(["train", "test"])), min_size=1),
    with_splits=st.booleans(),
    mark=st.booleans(),
)
def test_a_table_is_read_as_the_library_writes_it(
    rows: dict[str, tuple[str, str]], with_splits: bool, mark: bool
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["file", "label", "split"][: 3 if with_splits else 2])
    for name, (label, split) in rows.items():
        writer.writerow([f"./{name}", label, split][: 3 if with_splits else 2])
    content = text.getvalue().encode("utf-8-sig" if mark else "utf-8")
    table = label_files.read(["labels.csv"], lambda _: content, BY_NAME, [], "x/")
    expected = {
        unicodedata.normalize("NFC", name.strip()): Row(
            unicodedata.normalize("NFC", label) or None, split if with_splits else None
        )
        for name, (label, split) in rows.items()
    }
    assert table == Table("x/labels.csv", expected)
