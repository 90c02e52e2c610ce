"""The index of a source: which files are not read again, and that it never changes an answer."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.sources import source_listing
from components.core.sources.catalog import Catalog, Checksum
from components.core.sources.files import SourceFile
from components.core.sources.index import SourceIndex
from tests.fakes.gcs.server import Server

_LONG_AGO = 1_000_000_000
FilesRead = Callable[[Path, Path], str]
_TICK = 0.02  # seconds; longer than a tick of the file system's clock


def fingerprint(source: str, index: str = "") -> str:
    return source_listing.contents(source, index).fingerprint


def settle(folder: Path) -> None:
    """Make files look old, so that an index trusts them."""
    for path in folder.rglob("*.*"):
        os.utime(path, (_LONG_AGO, _LONG_AGO))
    time.sleep(_TICK)


@pytest.fixture(name="pets")
def settled_pets(pets: Path) -> Path:
    settle(pets)
    return pets


@pytest.fixture
def files_read(caplog: pytest.LogCaptureFixture) -> FilesRead:
    """Fingerprint with an index, compare with one without, and return how many files were read."""

    def count(source: Path, index: Path) -> str:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            digest = fingerprint(str(source), str(index))
        assert digest == fingerprint(str(source))
        (line,) = (message for message in caplog.messages if message.startswith("read "))
        return line.removeprefix("read ").partition(" files;")[0]

    return count


def sealed(lines: list[bytes]) -> bytes:
    """Return an index of these lines, whose sha256 is right."""
    content = b"".join(lines)
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def test_only_what_changed_is_read(pets: Path, tmp_path: Path, files_read: FilesRead) -> None:
    index = tmp_path / "index"
    assert files_read(pets, index) == "3 of 3"
    assert files_read(pets, index) == "0 of 3"
    (pets / "cats" / "1.png").write_bytes(b"7")
    (pets / "cats" / "2.JPG").rename(pets / "dogs" / "2.JPG")
    (pets / "new.png").write_bytes(b"8")
    settle(pets)  # touches all
    assert files_read(pets, index) == "4 of 4"
    assert files_read(pets, index) == "0 of 4"
    (pets / "new.png").unlink()
    assert files_read(pets, index) == "0 of 3"
    (path,) = index.iterdir()
    names = [json.loads(line)[0] for line in path.read_text().splitlines()[2:]]
    assert names == ["cats/1.png", "dogs/2.JPG", "dogs/3.jpeg"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[:-1],
        lambda whole: whole.replace(b"dogs/3", b"dogs/7"),
        lambda whole: b"SQLite format 3\0\xff" + whole,
        lambda whole: sealed([b"[3", *whole.splitlines(keepends=True)[1:]]),
    ],
)
def test_a_damaged_index_is_reported_and_made_again(
    pets: Path,
    tmp_path: Path,
    files_read: FilesRead,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    index = tmp_path / "index"
    files_read(pets, index)
    (path,) = index.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert files_read(pets, index) == "3 of 3"
    assert [record.levelno for record in caplog.records if str(path) in record.message] == [logging.WARNING]
    assert files_read(pets, index) == "0 of 3"
    assert str(path) not in caplog.text


def test_an_index_of_another_source_is_not_believed(pets: Path, tmp_path: Path, files_read: FilesRead) -> None:
    index, other = tmp_path / "index", tmp_path / "other"
    shutil.copytree(pets, other)
    settle(other)
    files_read(pets, index)
    (own,) = index.iterdir()
    assert files_read(other, index) == "3 of 3"
    (others,) = set(index.iterdir()) - {own}
    others.write_bytes(own.read_bytes())
    assert files_read(other, index) == "3 of 3"
    assert files_read(pets, index) == "0 of 3"


def test_every_part_of_a_stamp_counts(tmp_path: Path) -> None:
    parts = [3, _LONG_AGO, _LONG_AGO, 7]
    stamp = " ".join(map(str, parts))
    index = SourceIndex(str(tmp_path), "pets")
    near, far = (f"3 {index._began - before} {_LONG_AGO} 7" for before in (2_000_000_000, 2_000_000_001))
    late = f"3 {_LONG_AGO} {index._began} 7"
    written = [Checksum(name, text, "a" * 64) for name, text in zip("1234", (stamp, far, near, late), strict=True)]
    index.write(written, 4)
    assert [*SourceIndex(str(tmp_path), "pets").entries()] == written[:2]
    for number in range(len(parts)):
        another = " ".join(str(part + (number == at)) for at, part in enumerate(parts))
        catalog = Catalog("pets", [(0, SourceFile("1", "1", 3, another))])
        catalog.note(SourceIndex(str(tmp_path), "pets").entries())
        assert len(catalog.unread(0)) == 1


def test_an_index_in_a_bucket(pets: Path, bucket: Server, caplog: pytest.LogCaptureFixture) -> None:
    expected = fingerprint(str(pets))
    assert fingerprint(str(pets), "gs://b/fingerprints") == expected
    (name,) = bucket.objects["b"]
    assert name.startswith("fingerprints/")
    assert fingerprint(str(pets), "gs://b/fingerprints") == expected
    bucket.deny("storage.objects.create")
    (pets / "4.png").write_bytes(b"4")
    assert fingerprint(str(pets), "gs://b/fingerprints") != expected
    assert "gs://b/fingerprints/" in caplog.text


def test_several_at_once_do_no_harm(pets: Path, tmp_path: Path, files_read: FilesRead) -> None:
    index = tmp_path / "index"
    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(fingerprint, [str(pets)] * 8, [str(index)] * 8)} == {fingerprint(str(pets))}
    assert len(list(index.iterdir())) == 1
    assert files_read(pets, index) == "0 of 3"


CHANGES = st.lists(st.tuples(st.sampled_from(["write", "remove", "rename", "backdate"]), st.integers(0, 4)), max_size=6)


@given(st.lists(CHANGES, min_size=1, max_size=4), st.data())
def test_no_answer_depends_on_the_index(rounds: list[list[tuple[str, int]]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, index = Path(folder, "source"), Path(folder, "index")
        source.mkdir()
        (source / "always.png").write_bytes(b"1")
        for changes in rounds:
            for action, number in changes:
                path = source / f"{number}.png"
                if action == "write":
                    path.write_bytes(data.draw(st.binary(min_size=1, max_size=1)))
                elif action == "backdate" and path.exists():
                    os.utime(path, (_LONG_AGO, _LONG_AGO))
                elif action == "remove":
                    path.unlink(missing_ok=True)
                elif action == "rename" and path.exists():
                    path.rename(source / f"{(number + 1) % 5}.png")
            assert fingerprint(str(source), str(index)) == fingerprint(str(source))
