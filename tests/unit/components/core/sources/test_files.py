"""Files of a source: hostile names, special files, files that change while they are read."""

import hashlib
import logging
import os
import socket
from pathlib import Path

import pytest

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, contents_of, open_file, sha256_of
from components.core.storage import buckets
from tests.fakes.gcs.server import Server
from tests.unit.components.core.sources.conftest import names


def test_what_is_no_file_is_reported_and_never_opened(pets: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(pets / "cats" / "pipe.png")
    (pets / "cats" / "linked.png").symlink_to("pipe.png")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(os.path.relpath(pets / "cats" / "socket.png"))  # the whole path may be too long for one
        assert names(pets) == ["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"]
    assert all(name in caplog.text for name in ("pipe.png", "linked.png", "socket.png"))
    source_listing.contents(str(pets))
    # Nor is a pipe waited for that replaced a file after the listing.
    with pytest.raises(DataError, match=r"pipe\.png is gone"):
        open_file(SourceFile("pipe.png", str(pets / "cats" / "pipe.png"), 0))


def test_links_that_lead_nowhere_or_to_themselves(pets: Path) -> None:
    (pets / "dangling.png").symlink_to("nothing.png")
    assert names(pets) == ["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"]
    (pets / "loop.png").symlink_to("pool.png")
    (pets / "pool.png").symlink_to("loop.png")
    with pytest.raises(DataError, match=r"(loop|pool)\.png .*: Too many levels"):
        names(pets)


HOSTILE = [
    "new\nline.png", "\x1b[31mred.png", "\t.png", "a\x01b.png", "\u202eknab.png", "-rf.png",
    "$(reboot).png", "'; drop.png", '"<script>.png', "a..png", "%2e%2e.png", "é.png", "c:\\x.png", "x" * 251 + ".png",
]  # fmt: skip


def test_hostile_names_are_listed_and_written_as_one_printable_line(
    pets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in HOSTILE:
        (pets / "cats" / name).write_bytes(b"x")
    for raw in (b"\xff\xfe.png", b"\x80.txt", b"\xed\xa0\x80.jpg"):
        (pets / "cats" / os.fsdecode(raw)).write_bytes(b"x")
    with caplog.at_level(logging.INFO):
        contents = source_listing.contents(str(pets))
    assert contents.listing is not None
    assert len(contents.listing.files) == 3 + len(HOSTILE) + 2
    written = [file.name for file in contents.listing.files]
    assert all(name.isprintable() and name.startswith(("cats/", "dogs/")) for name in written)
    assert {r"cats/new\nline.png", r"cats/\x1b[31mred.png", r"cats/\xff\xfe.png"} <= set(written)
    for file in contents.listing.files:
        with open_file(file) as opened:
            assert opened.read()
    assert any(message.endswith(r": cats/\x80.txt") for message in caplog.messages)
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert source_listing.contents(str(pets)).fingerprint == contents.fingerprint


def test_names_that_would_be_written_alike_are_refused(pets: Path) -> None:
    (pets / "cats" / "a\x1b.png").write_bytes(b"1")
    (pets / "cats" / r"a\x1b.png").write_bytes(b"2")
    with pytest.raises(DataError, match=r"two files .* cats/a\\x1b\.png"):
        names(pets)


def test_an_object_that_has_changed_or_is_gone_is_refused(bucket: Server) -> None:
    def read() -> list[bytes]:
        return [*contents_of([SourceFile("1.png", stored.uri, stored.bytes, checksum=stored.crc32c)], 1 << 26)]

    buckets.put("gs://b/1.png", b"one")
    (stored,) = buckets.below("gs://b")
    assert read() == [b"one"]
    for content in (b"two", b"three", b"", None):
        if content is None:
            bucket.objects["b"].clear()
        else:
            buckets.put(stored.uri, content)
        with pytest.raises(DataError, match="changed since"):
            read()


def test_of_a_file_that_has_grown_no_more_is_read_than_tells(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "1.png").write_bytes(content)
    listed = SourceFile("1.png", str(tmp_path / "1.png"), bytes=9)
    assert [*contents_of([listed], 1 << 26)] == [content[:10]]
    assert [*contents_of([listed], 5)] == [content[:5]]
    assert sha256_of(listed) == hashlib.sha256(content).hexdigest()
