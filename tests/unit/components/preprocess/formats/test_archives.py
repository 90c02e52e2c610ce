"""Archives: they give what a folder of the same files gives, and every way in which they can be wrong."""

import bz2
import gzip
import io
import logging
import random
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DataError
from components.core.sources import source_listing
from components.preprocess.formats import archives, survey
from tests.inputs.formats import entry, tarred, zipped
from tests.inputs.sources import read_source, stored, write_files

FILES = {
    "cats/1.png": b"one",
    "cats/deep/2.JPG": bytes(5000),
    "dogs/3.webp": b"",
    "dogs/4.png": random.Random(0).randbytes(700),
}


PACKERS = {
    "deflated.zip": zipped,
    "stored.zip": lambda files: zipped(files, zipfile.ZIP_STORED),
    "gnu.tar": tarred,
    "pax.tar": lambda files: tarred(files, tarfile.PAX_FORMAT),
    "packed.tar.gz": lambda files: gzip.compress(tarred(files), mtime=0),
    "packed.tgz": lambda files: gzip.compress(tarred(files, tarfile.USTAR_FORMAT), mtime=0),
    "packed.tar.bz2": lambda files: bz2.compress(tarred(files)),
}


def described(source: Path) -> tuple[list[str], dict[str, int], list[tuple[str, int, bytes]]]:
    surveyed, images = read_source(source)
    return surveyed.classes, surveyed.counts, sorted(image[1:] for image in images)


PATHS = st.lists(
    st.text("ab é", min_size=1, max_size=3).filter(str.strip)
    | st.sampled_from(["train", "Testing", "val set", "seg_train", "seg_test", "00001"]),
    min_size=1,
    max_size=4,
).map(lambda parts: "/".join(parts) + ".png")


@settings(max_examples=60)
@given(
    files=st.dictionaries(PATHS, st.binary(max_size=600), min_size=1, max_size=8),
    packer=st.sampled_from(sorted(PACKERS)),
    top=st.sampled_from(["./", "photos of me/"]),
    split_folders=st.booleans(),
)
def test_an_archive_is_read_as_the_folder_that_was_packed(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], packer: str, top: str, split_folders: bool
) -> None:
    folder = tmp_path_factory.mktemp("source")
    packed = folder / f"x-{packer}"
    prefix = "Train/" if split_folders else ""
    files = {prefix + name: content for name, content in {**files, "b/b.png": b"b", "c/c.png": b"c"}.items()}
    packed.write_bytes(PACKERS[packer]({top + name: content for name, content in files.items()}))
    for place in ("in", f"within/{top}"):
        write_files(folder / place, files)
    try:
        expected = described(folder / "in")
    except DataError:  # images within class folders and beside them, or within splits and beside them
        for source in (packed, folder / "within"):
            with pytest.raises(DataError):
                described(source)
    else:
        assert described(packed) == described(folder / "within") == expected


@pytest.mark.parametrize("packer", PACKERS)
def test_members_keep_their_names_and_others_are_logged(
    tmp_path: Path, packer: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"../notes.txt": b"x", "cats/.hidden.png": b"x", "__MACOSX/cats/._1.png": b"x", "inner.zip": zipped(FILES)}
    file = stored(tmp_path / packer, PACKERS[packer]({**FILES, **more}))
    with caplog.at_level(logging.INFO):
        members, others = archives.list_members(file)
        survey.survey(file.location)
    assert [member.name for member in members] == list(FILES)
    assert [member.name for member in others] == ["notes.txt", "inner.zip"]
    logged = [
        "notes.txt, inner.zip; unpack archives first",
        "4 train images, no splits; 2 classes by folders: cats, dogs",
    ]
    assert [message.partition(": ")[2] for message in caplog.messages] == logged
    assert list(archives.read_members(file, members)) == list(FILES.values())
    monkeypatch.setattr(survey, "IMAGES_AT_ONCE", 3)
    counts = [len([*survey.read(part)]) for part in read_source(file.location)[0].parts]
    assert counts == ([3, 1] if packer.endswith(".zip") else [4])  # of which some can be read alone
    assert [path.name for path in tmp_path.iterdir()] == [packer]


def test_several_archives_lie_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "train.zip").write_bytes(zipped({"x/cats/1.png": b"1", "x/dogs/2.png": b"2"}))
    (tmp_path / "test.tar").write_bytes(tarred({"x/cats/3.png": b"3"}))
    assert described(tmp_path) == (
        ["cats", "dogs"],
        {"test": 1, "train": 2},
        [("test", 0, b"3"), ("train", 0, b"1"), ("train", 1, b"2")],
    )


def test_labels_lie_in_an_archive_or_beside_all(tmp_path: Path) -> None:
    table = b"file,label,split\n1.png,dog,train\n2.png,cat,test\n"
    images = {"all/1.png": b"1", "all/2.png": b"2"}
    (tmp_path / "photos.zip").write_bytes(zipped({**images, "all/labels.csv": table}))
    expected = (["cat", "dog"], {"train": 1, "test": 1}, [("test", 0, b"2"), ("train", 1, b"1")])
    assert described(tmp_path / "photos.zip") == expected
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "1.zip").write_bytes(zipped({"1.png": b"1"}))
    (folder / "2.zip").write_bytes(zipped({"2.png": b"2"}))
    before = source_listing.contents(str(folder)).fingerprint
    (folder / "labels.csv").write_bytes(table)
    assert described(folder) == expected
    assert source_listing.contents(str(folder)).fingerprint != before
    (folder / "labels.csv").rename(tmp_path / "labels.csv")
    (folder / "2.zip").write_bytes(zipped({"2.png": b"2", "labels.csv": table}))
    with pytest.raises(DataError, match=r"2\.zip/labels\.csv .* first 1\.png"):
        described(folder)


def encrypted() -> bytes:
    content = bytearray(zipped({"a.png": b"x"}))
    struct.pack_into("<H", content, content.rindex(b"PK\1\2") + 8, 1)
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.zip", zipped({"a.png": b"x", "./a.png": b"y"}), "a.png"),
        ("x.tar", tarred({"a.png": b"x"}, tarfile.GNU_FORMAT, entry("a.png")), "a.png"),
        ("x.zip", encrypted(), "encrypted (a.png)"),
        ("x.zip", zipped({"notes.txt": b"x"}), "without images"),
        ("x.zip", zipped(FILES, zipfile.ZIP_STORED).replace(b"one", b"own"), "damaged"),
        ("x.zip", zipped(FILES)[:-9], "damaged"),
        ("x.tar", tarred(FILES)[:4000], "damaged"),
        ("x.tar.gz", gzip.compress(tarred(FILES), mtime=0)[:-9], "damaged"),
        ("x.tar", tarred(FILES).replace(b"dogs/3", b"dogs/5"), "cut short, or"),
        ("x.tar", entry("a.png", -1024).tobuf(tarfile.GNU_FORMAT) + bytes(1024), "damaged"),
    ],
)
def test_archives_that_are_wrong_are_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    with pytest.raises(DataError) as raised:
        read_source(tmp_path / name, content)
    assert name in str(raised.value)
    assert words in str(raised.value)


def test_links_of_an_archive_are_logged_and_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    links = [entry("link.png", 0, kind, "../../../etc/passwd") for kind in (tarfile.SYMTYPE, tarfile.FIFOTYPE)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.png", b"x")
        link = zipfile.ZipInfo("link.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    for name, content, count in (
        ("x.tar", tarred({"a.png": b"x"}, tarfile.GNU_FORMAT, *links), 2),
        ("x.zip", packed.getvalue(), 1),
    ):
        assert read_source(tmp_path / name, content)[1] == [(f"{name}/a.png", "train", -1, b"x")]
        assert caplog.messages[-1].endswith(": " + ", ".join(["link.png"] * count))


def test_of_a_member_too_large_no_more_is_unpacked_than_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_FILE", 1000)
    bomb = bytes(3_000_000)
    for packer in PACKERS:
        _, images = read_source(tmp_path / packer, PACKERS[packer]({"a.png": bomb, "b.png": b"x"}))
        assert [image[3] for image in images] == [bytes(1001), b"x"]
    lying = bytearray(zipped({"a.png": bomb}))
    struct.pack_into("<I", lying, lying.rindex(b"PK\1\2") + 24, 10)  # declares 10 bytes
    with pytest.raises(DataError, match=r"x\.zip .*a\.png"):
        read_source(tmp_path / "x.zip", bytes(lying))
