"""Listing and fingerprinting: what counts, what does not, and what is refused."""

import hashlib
import random
import shutil
from pathlib import Path

import pytest
from google.cloud.storage import Client

from components.core.errors import ConfigError, DataError
from components.core.sources import source_listing
from components.core.sources.files import open_file
from components.core.storage import buckets, digests
from tests.fakes.gcs.server import Server
from tests.unit.components.core.sources.conftest import names


def test_images_are_listed_by_name_and_others_left_out(pets: Path) -> None:
    for name in ("notes.txt", ".hidden.png", ".git/4.png", "cats/.DS_Store"):
        (pets / name).parent.mkdir(exist_ok=True)
        (pets / name).write_bytes(b"")
    listing = source_listing.list_source(str(pets))
    assert listing.kind == source_listing.IMAGES
    assert [file.name for file in listing.files] == ["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"]
    assert [*listing.left_out] == ["notes.txt"]
    assert [file.bytes for file in listing.files] == [10, 10, 11]


def test_sources_that_cannot_be_listed(pets: Path, tmp_path: Path) -> None:
    for name in ("empty", "packed"):
        (tmp_path / name).mkdir()
    (tmp_path / "packed" / "x.tar.xz").write_bytes(b"packed")
    for source, words in (
        (tmp_path / "nowhere", "does not exist"),
        (pets / "birds" / "*.png", "birds"),
        (pets / "*.gif", "holds nothing"),
        (pets / "cats" / "1.png", "only 1.png; give the folder that holds the file .*, PNG, .* TFRecord"),
        (tmp_path / "empty", "holds nothing"),
        (tmp_path / "packed" / "x.tar.xz", r"x\.tar\.xz.* unpack"),
        (tmp_path / "packed", r"x\.tar\.xz.* unpack"),
    ):
        with pytest.raises(DataError, match=words):
            source_listing.contents(str(source))


def test_links_may_not_lead_out(pets: Path, tmp_path: Path) -> None:
    (pets / "cats" / "again.png").symlink_to(pets / "cats" / "1.png")
    assert "cats/again.png" in names(pets)
    (tmp_path / "outside.png").write_bytes(b"")
    (pets / "out.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(DataError, match=r"out\.png is a link"):
        names(pets)
    (pets / "out.png").unlink()
    (pets / "folder").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"folder is a link"):
        names(pets)


def test_no_other_storage_is_read() -> None:
    with pytest.raises(ConfigError, match="s3://bucket/pets"):
        source_listing.contents("s3://bucket/pets/*.png")


@pytest.fixture
def photos(gcs: Server) -> Server:
    gcs.create_bucket("photos")
    pets = ("pets/cats/1.png", "pets/cats/", "pets/.thumbs/1.png", "pets/dogs/2.JPG", "pets/dogs/3.png")
    for name in (*pets, "petshop/4"):
        Client().bucket("photos").blob(name).upload_from_string(name)
    gcs.requests.clear()
    return gcs


def test_a_bucket_is_fingerprinted_by_its_listing_alone(photos: Server) -> None:
    contents = source_listing.contents("gs://photos/pets/")
    files = [
        [name, len(f"pets/{name}"), buckets.checksum(f"pets/{name}".encode())]
        for name in ("cats/1.png", "dogs/2.JPG", "dogs/3.png")
    ]
    assert contents.fingerprint == digests.digest_of({"kind": source_listing.IMAGES, "files": files})
    assert contents.summary == "3 images, 0.0 MB"
    assert not [request for request in photos.requests if "/o/" in request.path]  # none asked for by itself
    assert [*source_listing.list_source("gs://photos/pets").files][1].location == "gs://photos/pets/dogs/2.JPG"
    assert [file.name for file in source_listing.list_source("gs://photos/pets/d*/*.JPG").files] == ["dogs/2.JPG"]
    buckets.put("gs://photos/pets/dogs/2.JPG", b"another")
    assert source_listing.contents("gs://photos/pets").fingerprint != contents.fingerprint


def test_hostile_names_of_objects_are_written_as_one_printable_line(photos: Server) -> None:
    buckets.put("gs://photos/pets/cats/\x1b[31m.png", b"x")
    file = [*source_listing.list_source("gs://photos/pets").files][1]
    assert file.name == r"cats/\x1b[31m.png"
    with open_file(file) as opened:
        assert opened.read() == b"x"
    buckets.put(file.location, b"y")
    with pytest.raises(DataError, match=r"^gs://photos/pets/cats/\\x1b\[31m\.png changed"):
        open_file(file)


def test_buckets_that_cannot_be_listed(photos: Server) -> None:
    for name in ("nothing", "none.zip"):
        with pytest.raises(DataError, match=f"gs://photos/{name}"):
            source_listing.contents(f"gs://photos/{name}")
    with pytest.raises(ConfigError, match=r"^gs://paintings"):
        source_listing.contents("gs://paintings")


def test_a_glob_chooses_among_the_files_below_its_folder(pets: Path) -> None:
    (pets / "dogs" / "deep").mkdir()
    (pets / "dogs" / "deep" / "4.png").write_bytes(b"")
    (pets / "labels.csv").write_bytes(b"file,label")
    for pattern, expected in (
        ("cats/*", ["1.png", "2.JPG"]),
        ("*/*.png", ["cats/1.png"]),
        ("**/*.png", ["cats/1.png", "dogs/deep/4.png"]),
        ("dogs/**", ["3.jpeg", "deep/4.png"]),
        ("[!c]*/?.jpeg", ["dogs/3.jpeg"]),
        ("**/[34].*", ["dogs/3.jpeg", "dogs/deep/4.png"]),
    ):
        listing = source_listing.list_source(f"{pets}/{pattern}")
        assert [file.name for file in listing.files] == expected
        assert [*listing.labels] == []
    (labels,) = source_listing.list_source(f"{pets}/**").labels
    assert labels.location == str(pets / "labels.csv")
    named = pets / "[cats]"
    named.mkdir()
    (named / "5.png").write_bytes(b"")
    assert names(named) == ["5.png"]


def test_labels_count_in_the_fingerprint_and_are_no_file_of_the_source(pets: Path) -> None:
    fingerprints = [source_listing.contents(str(pets)).fingerprint]
    for name in ("labels.csv", "dataset.json", "cats/metadata.jsonl"):
        (pets / name).write_bytes(b"x")
        listing = source_listing.contents(str(pets)).listing
        assert listing is not None
        assert ([*listing.names], [*listing.left_out]) == (["cats/1.png", "cats/2.JPG", "dogs/3.jpeg"], [])
        assert [file.sha256 for file in listing.labels] == [hashlib.sha256(b"x").hexdigest()]
        fingerprints.append(source_listing.contents(str(pets)).fingerprint)
        (pets / name).write_bytes(b"y")
        fingerprints.append(source_listing.contents(str(pets)).fingerprint)
        (pets / name).unlink()
    assert len({*fingerprints}) == 7


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tfrecord", source_listing.TFRECORDS),
        ("mnist-train.tfrecord-00000-of-00010", source_listing.TFRECORDS),
        ("x.TFRECORDS.gz", source_listing.TFRECORDS),
        ("x.tfrec", source_listing.TFRECORDS),
        ("x.NPZ", source_listing.ARRAYS),
        *((f"x.{ending}", source_listing.ARCHIVES) for ending in ("zip", "tar", "tar.gz", "TGZ", "tar.bz2", "tbz2")),
    ],
)
def test_files_of_many_images_are_a_source_alone_and_not_beside_images(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / name).write_bytes(b"packed")
    (folder / "notes.txt").write_bytes(b"")
    for source in (folder, folder / name, folder / f"{name[0]}*"):
        listing = source_listing.list_source(str(source))
        assert (listing.kind, [*listing.names]) == (kind, [name])
        assert source_listing.contents(str(source)).fingerprint == source_listing.contents(str(folder)).fingerprint
    (folder / "1.png").write_bytes(b"a picture")
    listing = source_listing.list_source(str(folder))
    assert ([*listing.names], {*listing.left_out}) == (["1.png"], {"notes.txt", name})


def test_idx_files_make_it_a_source_of_idx_files(pets: Path) -> None:
    (pets / "train-images-idx3-ubyte.gz").write_bytes(b"images")
    (pets / "cats" / "t10k-images-idx3-ubyte.gz").write_bytes(b"")
    listing = source_listing.list_source(str(pets))
    assert (listing.kind, [*listing.names]) == (
        source_listing.IDX,
        ["cats/t10k-images-idx3-ubyte.gz", "train-images-idx3-ubyte.gz"],
    )


def test_a_fingerprint_is_the_digest_of_names_sizes_and_contents(pets: Path) -> None:
    chance = random.Random(0)
    for number in chance.sample(range(1000), 40):
        path = pets / chance.choice(["cats", "dogs", "a", "a.b", "a-b/c"]) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    files = [path for path in pets.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg")]
    expected = sorted(
        [str(path.relative_to(pets)), path.stat().st_size, digests.sha256_of_file(path)] for path in files
    )
    (pets / "notes.txt").write_bytes(b"left out")
    contents = source_listing.contents(f"{pets}/")
    assert contents.fingerprint == digests.digest_of({"kind": "images", "files": expected})
    assert contents.summary == "43 images, 0.0 MB"


@pytest.mark.parametrize("name", ["runs", "cats/results", "new/deep/er"])
def test_the_folder_of_results_is_no_part_of_the_source(
    pets: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(pets)
    monkeypatch.chdir(pets)
    patterns = ["", "/**", "/**/*.[pjJ]*"]
    before = [source_listing.contents(f"{pets}{pattern}").fingerprint for pattern in patterns]
    (pets / name / "checkpoints" / "samples").mkdir(parents=True)
    (pets / name / "checkpoints" / "samples" / "1.png").write_bytes(b"a sheet")
    (pets / f"{name}.png").write_bytes(b"an image beside it")
    (pets / "latest.png").symlink_to(pets / name / "checkpoints" / "samples" / "1.png")
    (pets / "latest").symlink_to(pets / name / "checkpoints")
    caplog.set_level("INFO")
    for pattern, old in zip(patterns, before, strict=True):
        fingerprints = set()
        for folder in (str(pets), ".", str(tmp_path / "link")):
            for root in (str(pets / name), name, str(tmp_path / "link" / name)):
                caplog.clear()
                fingerprints.add(source_listing.contents(f"{folder}{pattern}", root=root).fingerprint)
                assert [line.split()[:2] for line in caplog.messages] == [["left", root]]
        assert len(fingerprints) == 1
        assert old not in fingerprints
    (pets / f"{name}.png").unlink()
    assert source_listing.contents(str(pets), root=name).fingerprint == before[0]
    shutil.move(pets / name, tmp_path / "elsewhere")
    (pets / name).symlink_to(tmp_path / "elsewhere")
    assert source_listing.contents(str(pets), root=str(tmp_path / "elsewhere")).fingerprint == before[0]


def test_a_source_within_the_folder_of_results_counts_and_no_source_is_that_folder(pets: Path) -> None:
    expected = source_listing.contents(str(pets)).fingerprint
    for root in (pets.parent, pets.parent / "pets2", pets / "cats" / "1", Path("gs://b/x")):
        assert source_listing.contents(str(pets), root=str(root)).fingerprint == expected
    assert source_listing.contents(f"{pets}/cats/*", root=str(pets / "cats")).summary.startswith("2 images")
    for source in (str(pets), f"{pets}/**"):
        with pytest.raises(ConfigError, match=f"^root {pets} is "):
            source_listing.contents(source, root=str(pets))


def test_the_folder_of_results_in_a_bucket_is_no_part_of_the_source(photos: Server) -> None:
    before = source_listing.contents("gs://photos/pets").fingerprint
    buckets.put("gs://photos/pets/runs/latest/samples.png", b"a sheet")
    for end in ("", "/"):
        contents = source_listing.contents(f"gs://photos/pets{end}", root=f"gs://photos/pets/runs{end}")
        assert contents.fingerprint == before
    for root in ("gs://photos/pets/run", "gs://photos", "gs://other/pets/runs", "/pets/runs"):
        assert source_listing.contents("gs://photos/pets", root=root).fingerprint != before
    with pytest.raises(ConfigError, match="give another, such as"):
        source_listing.contents("gs://photos/pets", root="gs://photos/pets")
