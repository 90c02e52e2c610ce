"""Listing and fingerprinting: what counts, what does not, and what is refused."""

import hashlib
import json
import os
import shutil
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from components import digests, sources
from components.errors import ConfigError, DataError, TransientError


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    for name in ("cats/1.png", "cats/2.JPG", "dogs/3.jpeg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def names(folder: Path) -> list[str]:
    return [file.name for file in sources.list_source(str(folder)).files]


def test_images_are_listed_by_name_and_others_left_out(pets: Path) -> None:
    for name in ("notes.txt", ".hidden.png", ".git/4.png", "cats/.DS_Store"):
        (pets / name).parent.mkdir(exist_ok=True)
        (pets / name).write_bytes(b"")
    listing = sources.list_source(str(pets))
    assert listing.kind == sources.IMAGES
    assert [file.name for file in listing.files] == ["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"]
    assert listing.left_out == ["notes.txt"]
    assert [file.bytes for file in listing.files] == [10, 10, 11]


def test_idx_files_at_the_top_make_it_a_source_of_idx_files(pets: Path) -> None:
    (pets / "train-images-idx3-ubyte.gz").write_bytes(b"")
    listing = sources.list_source(str(pets))
    assert (listing.kind, [file.name for file in listing.files]) == (sources.IDX, ["train-images-idx3-ubyte.gz"])


def test_fingerprint_depends_on_names_and_content_alone(pets: Path, tmp_path: Path) -> None:
    fingerprint, summary = sources.fingerprint(str(pets))
    assert summary == "3 images, 0.0 MB"
    copied = shutil.copytree(pets, tmp_path / "elsewhere")
    (copied / "notes.txt").write_bytes(b"left out")
    os.utime(copied / "cats" / "1.png", (0, 0))
    assert sources.fingerprint(f"{copied}/") == (fingerprint, summary)
    (copied / "cats" / "1.png").write_bytes(b"cats/1.pnG")
    changed = sources.fingerprint(str(copied))[0]
    (copied / "cats" / "1.png").write_bytes(b"cats/1.png")
    (copied / "cats" / "1.png").rename(copied / "cats" / "0.png")
    assert len({fingerprint, changed, sources.fingerprint(str(copied))[0]}) == 3


def test_named_sources_need_no_network() -> None:
    digits, fashion = sources.fingerprint("digits")[0], sources.fingerprint("fashion-mnist")[0]
    assert len({digits, fashion}) == 2
    assert all(len(fingerprint) == 64 for fingerprint in (digits, fashion))


def test_published_sums_are_those_of_the_real_files(fashion_mnist: Path) -> None:
    for name, md5 in sources.FASHION_MNIST_MD5.items():
        assert hashlib.md5((fashion_mnist / name).read_bytes(), usedforsecurity=False).hexdigest() == md5


def test_sources_that_cannot_be_listed(pets: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "nowhere", "does not exist; give a folder or URI"),
        (pets / "cats" / "1.png", "is a file; give the folder that holds it"),
        (tmp_path / "empty", "holds nothing, expected IDX files, or PNG or JPEG images"),
    ):
        with pytest.raises(DataError, match=message):
            sources.fingerprint(str(source))


def test_links_may_not_lead_out(pets: Path, tmp_path: Path) -> None:
    (pets / "cats" / "again.png").symlink_to(pets / "cats" / "1.png")
    assert "cats/again.png" in names(pets)
    (tmp_path / "outside.png").write_bytes(b"")
    (pets / "out.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(DataError, match=r"out\.png is a link out of the source"):
        names(pets)
    (pets / "out.png").unlink()
    (pets / "folder").symlink_to(tmp_path)
    with pytest.raises(DataError, match="folder is a link to a folder"):
        names(pets)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux alone")
def test_names_that_are_no_text(pets: Path) -> None:
    (pets / os.fsdecode(b"\xff\n.png")).write_bytes(b"odd")
    assert names(pets)[0] == "\\xff\\n.png"
    (file,) = (file for file in sources.list_source(str(pets)).files if "xff" in file.name)
    with sources.open_file(file.place) as opened:
        assert opened.read() == b"odd"
    assert len(sources.fingerprint(str(pets))[0]) == 64


def test_uris_are_read_through_beam(pets: Path) -> None:
    from apache_beam.io import localfilesystem

    class Stored(localfilesystem.LocalFileSystem):
        """Local files under another scheme, the way that Beam reads a bucket."""

        @classmethod
        def scheme(cls) -> str:
            return "stored"

        def match(self, patterns, limits=None):  # type: ignore[no-untyped-def]
            found = super().match([pattern.removeprefix("stored://") for pattern in patterns], limits)
            for result in found:
                for entry in result.metadata_list:
                    entry.path = f"stored://{entry.path}"
            return found

        def checksum(self, path: str) -> str:
            return super().checksum(path.removeprefix("stored://"))

        def open(self, path, *words, **settings):  # type: ignore[no-untyped-def]
            return super().open(path.removeprefix("stored://"), *words, **settings)

    source = f"stored://{pets}"
    listing = sources.list_source(source)
    assert [file.name for file in listing.files] == ["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"]
    with sources.open_file(listing.files[2].place) as opened:
        assert opened.read() == b"dogs/3.jpeg"
    before = sources.fingerprint(source)[0]
    (pets / "cats" / "1.png").write_bytes(b"longer than it was")
    assert sources.fingerprint(source)[0] != before
    with pytest.raises(DataError, match="does not exist or is empty"):
        sources.list_source(f"{source}/nothing")
    with pytest.raises(ConfigError, match="of no storage that Beam knows"):
        sources.list_source("nonsense://bucket/folder")


class Bucket(ThreadingHTTPServer):
    """A server that answers listings of one bucket, and what Beam asks of an object, as Google's storage does."""

    page = 2
    bucket = "photos"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), BucketRequest)
        self.objects: dict[str, tuple[int, str]] = {}
        self.paths: list[str] = []


class BucketRequest(BaseHTTPRequestHandler):
    server: Bucket

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        self.server.paths.append(address.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        if not address.path.startswith(f"/storage/v1/b/{self.server.bucket}/o"):
            return self.answer(404, {"error": {"code": 404, "message": "The specified bucket does not exist."}})
        names = sorted(name for name in self.server.objects if name.startswith(query.get("prefix", "")))
        start = int(query.get("pageToken", 0))
        end = start + self.server.page
        items = [
            {"name": name, "size": str(size), "crc32c": crc}
            for name, (size, crc) in ((name, self.server.objects[name]) for name in names[start:end])
        ]
        more = {"nextPageToken": str(end)} if end < len(names) else {}
        return self.answer(200, {"kind": "storage#objects", "items": items, **more})

    def answer(self, code: int, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with Bucket() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        server.objects = {
            "pets/cats/1.png": (10, "AAAAAA=="),
            "pets/cats/": (0, "AAAAAA=="),
            "pets/.thumbs/1.png": (9, "AAAAAB=="),
            "pets/dogs/2.JPG": (20, "BAAAAA=="),
            "pets/dogs/3.png": (30, "CAAAAA=="),
            "petshop/4.png": (40, "DAAAAA=="),
        }
        yield server
        server.shutdown()


def test_a_bucket_is_fingerprinted_by_its_listing_alone(bucket: Bucket) -> None:
    fingerprint, summary = sources.fingerprint("gs://photos/pets/")
    files = [["cats/1.png", 10, "AAAAAA=="], ["dogs/2.JPG", 20, "BAAAAA=="], ["dogs/3.png", 30, "CAAAAA=="]]
    assert fingerprint == digests.digest_of({"kind": sources.IMAGES, "files": files})
    assert summary == "3 images, 0.0 MB"
    listings = [path for path in bucket.paths if path == "/storage/v1/b/photos/o"]
    assert len(listings) == 3  # pages of two objects, hidden ones among them
    assert not [path for path in bucket.paths if path.startswith("/storage/v1/b/photos/o/")]  # none asked for by itself
    assert sources.list_source("gs://photos/pets").files[1].place == "gs://photos/pets/dogs/2.JPG"
    bucket.objects["pets/dogs/2.JPG"] = (20, "EAAAAA==")
    assert sources.fingerprint("gs://photos/pets")[0] != fingerprint


def test_buckets_that_cannot_be_listed(bucket: Bucket) -> None:
    with pytest.raises(DataError, match="source gs://photos/nothing does not exist or is empty"):
        sources.fingerprint("gs://photos/nothing")
    message = r"source gs://paintings cannot be listed; check its name, .*: 404 .*bucket does not exist\."
    with pytest.raises(TransientError, match=message) as raised:
        sources.fingerprint("gs://paintings")
    assert "\n" not in str(raised.value)
