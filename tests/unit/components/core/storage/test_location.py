"""Locations in buckets: mirrors, artifacts that appear whole, and the first commit wins."""

import collections
import json
import os
import shutil
import threading
import urllib.parse
from pathlib import Path
from unittest import mock

import pytest

from components.core.errors import ConfigError, DataError, TransientError
from components.core.storage import atomic_files, buckets
from components.core.storage.location import COMMITTED, MANIFEST_ALONE, Location
from tests.fakes.gcs.server import Request, Server
from tests.fakes.http import Answer
from tests.faults.soak.served import die_at_every_request, dies

MANIFEST = "thing.json"


def make(uri: str, text: str = "1") -> Path:
    location = Location.of(uri)
    with location.new_folder(MANIFEST) as folder:
        atomic_files.write_file(folder / "one", text.encode())
        atomic_files.write_file(folder / "sub/two", b"2")
        atomic_files.write_json(folder / MANIFEST, {"text": text})
    return location.path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forget() -> None:
    """Delete the mirrors, as on another machine."""
    shutil.rmtree(Location.of("gs://b").path, ignore_errors=True)


def test_a_location_has_a_uri_and_a_path(gcs: Server, tmp_path: Path) -> None:
    local = Location.of("runs/x/")
    assert (str(local), local.own, local / "y") == ("runs/x", Path("runs/x"), Location.of(Path("runs/x/y")))
    remote = Location.of("gs://b/x/y/")
    assert (str(remote), remote / "z") == ("gs://b/x/y", Location.of("gs://b/x/y/z"))
    assert remote.path.is_relative_to(tmp_path / "scratch")
    assert (local.parent, remote.parent) == (Location.of("runs"), Location.of("gs://b/x"))
    assert not remote.own.is_relative_to(Location.of("gs://b").path)
    with pytest.raises(ConfigError, match=r"^s3://b/x .* gs://"):
        Location.of("s3://b/x")


@pytest.mark.parametrize("text", ["~", "~/runs", "s3://runs"])
def test_what_is_no_location(text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Location.of(text)


def test_a_location_is_noted_by_its_path_within_a_root(gcs: Server) -> None:
    for root, location, note in (
        ("/r", "/r/a/b", "a/b"),
        ("/r", "/rest/a", "/rest/a"),
        ("/r", "gs://b/a", "gs://b/a"),
        ("gs://b/r", "gs://b/r/a", "a"),
        ("gs://b/r", "gs://b/rest/a", "gs://b/rest/a"),
        ("r", "r/a", "a"),
        ("r", "a", str(Path("a").absolute())),
    ):
        noted = Location.of(root).note(location)
        assert noted == note
        assert (Location.of(root) / noted).path.absolute() == Location.of(location).path.absolute()


def test_mirrors_of_another_user_are_refused(gcs: Server, tmp_path: Path) -> None:
    (tmp_path / "scratch" / f"wgan-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=r"another user; .*TMPDIR"):
        Location.of("gs://b/x")


def test_an_artifact_made_here_is_read_elsewhere(bucket: Server) -> None:
    written = files(make("gs://b/things/1"))
    assert set(written) == {"one", "sub/two", MANIFEST}
    commit = json.loads(bucket.objects["b"]["things/1/committed.json"].content)
    assert set(commit["files"]) == set(written)
    assert {f"things/1/{commit['folder']}/{name}" for name in written} | {"things/1/committed.json"} == set(
        bucket.contents()
    )
    forget()
    assert files(Location.of("gs://b/things/1").require(MANIFEST, "thing").path) == written
    assert Location.of("gs://b/things/1").fetch(MANIFEST)
    assert (buckets.read(Location.of("gs://b/things/1").file("one")) or [b""])[0] == b"1"


def test_what_is_not_complete_is_not_there(bucket: Server) -> None:
    with pytest.raises(DataError, match=r"^no thing at gs://b/x: neither committed\.json nor thing\.json is there$"):
        Location.of("gs://b/x").require(MANIFEST, "thing")
    buckets.put("gs://b/x/0123/thing.json", b"{}")
    assert not Location.of("gs://b/x").fetch(MANIFEST)
    buckets.put("gs://b/x/committed.json", b'{"schema_version": 9}')
    with pytest.raises(DataError, match=r"^gs://b/x"):
        Location.of("gs://b/x").fetch(MANIFEST)


def test_what_a_user_copied_there_is_read_as_it_is(bucket: Server) -> None:
    for name in ("one", "sub/two", MANIFEST):
        buckets.put(f"gs://b/x/{name}", name.encode())
    assert set(files(Location.of("gs://b/x").require(MANIFEST, "thing").path)) == {"one", "sub/two", MANIFEST}
    buckets.put("gs://b/x/one", b"eno")
    assert files(Location.of("gs://b/x").require(MANIFEST, "thing").path)["one"] == b"eno"


def test_nothing_is_sent_or_fetched_twice(bucket: Server) -> None:
    make("gs://b/x")
    bucket.requests.clear()
    assert Location.of("gs://b/x").fetch(MANIFEST)
    assert not bucket.writes()
    assert not [request for request in bucket.requests if request.path.endswith(("/one", "two"))]
    make("gs://b/x")
    assert not bucket.writes()


def test_two_that_make_different_bytes_at_once(bucket: Server, tmp_path: Path) -> None:
    """Both have uploaded when one commits: the other's files are never mixed in."""
    for text in ("late", "first"):
        atomic_files.write_file(tmp_path / text / "one", text.encode())
        atomic_files.write_json(tmp_path / text / MANIFEST, {"text": text})

    def meanwhile(request: Request) -> None:
        if request.method == "POST" and b"committed.json" in request.body:
            bucket.before = None
            assert Location.of("gs://b/x").commit(tmp_path / "first", MANIFEST)

    bucket.before = meanwhile
    assert not Location.of("gs://b/x").commit(tmp_path / "late", MANIFEST)
    assert files(Location.of("gs://b/x").require(MANIFEST, "thing").path)["one"] == b"first"


def downloads(bucket: Server) -> list[str]:
    """Return the names of the downloaded files, by the last part, in order."""
    paths = (request.path for request in bucket.requests if request.query.get("alt") == "media")
    names = [urllib.parse.unquote(path).rpartition("/")[2] for path in paths]
    return [name for name in names if name != COMMITTED]


def copied(count: int) -> Location:
    """An artifact that a user copied to the bucket: files of 1,000 bytes, called 0, 1, ..., and a manifest."""
    for number in range(count):
        buckets.put(f"gs://b/x/{number}", bytes([number]) * 1000)
    buckets.put(f"gs://b/x/{MANIFEST}", b"{}")
    return Location.of("gs://b/x")


def test_only_the_wanted_files_are_downloaded(bucket: Server) -> None:
    location = copied(5)
    assert location.fetch(MANIFEST, MANIFEST_ALONE)
    assert set(files(location.path)) == {MANIFEST}
    assert location.fetch(MANIFEST, {"1", "3"}.__contains__)
    assert set(files(location.path)) == {"1", "3", MANIFEST}
    assert location.fetch(MANIFEST)
    assert sorted(downloads(bucket)) == sorted([MANIFEST, "0", "1", "2", "3", "4"])


def test_files_that_do_not_fit_are_not_downloaded(bucket: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    location = copied(5)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: mock.Mock(free=4999))
    with pytest.raises(TransientError, match=r"^gs://b/x: 0\.0 MB .* set WGAN_MIRRORS"):
        location.fetch(MANIFEST)
    assert downloads(bucket) == []


def test_an_interrupted_fetch_goes_on_with_what_is_missing(bucket: Server) -> None:
    location = copied(9)
    bucket.requests.clear()
    stopped = threading.Event()

    def stop(request: Request) -> None:
        if request.path.endswith("3") and not stopped.is_set():
            stopped.set()
            raise Answer(403, b"no")

    bucket.before = stop
    with pytest.raises(ConfigError, match="gs://b/x/3"):
        location.fetch(MANIFEST)
    assert MANIFEST not in downloads(bucket)
    (location.path / ".tmp-3-dead").write_bytes(b"of a process that was killed")
    assert location.fetch(MANIFEST)
    assert collections.Counter(downloads(bucket)) == collections.Counter([*map(str, range(9)), "3", MANIFEST])
    assert set(files(location.path)) == {*map(str, range(9)), MANIFEST}


def test_a_damaged_mirror_is_mended(bucket: Server) -> None:
    path = make("gs://b/x")
    contents = files(path)
    (path / "one").write_bytes(b"0")
    (path / "sub/two").unlink()
    assert files(Location.of("gs://b/x").require(MANIFEST, "thing").path) == contents


def test_single_files(bucket: Server) -> None:
    notes = Location.of("gs://b/notes")
    folder = notes.path
    (notes / "1.json").write_file(b"1")
    buckets.put("gs://b/notes/2.json", b"2")
    buckets.put("gs://b/notes/deep/3.json", b"3")
    buckets.put("gs://b/notes/4.txt", b"4")
    atomic_files.write_file(folder / "gone.json", b"")
    notes.fetch_files(".json")
    assert files(folder) == {"1.json": b"1", "2.json": b"2"}
    buckets.put("gs://b/notes/1.json", b"one")
    notes.fetch_files("1.json")
    assert (folder / "1.json").read_bytes() == b"one"
    notes.fetch_files("none.json")


def test_death_at_every_request_of_a_commit(bucket: Server) -> None:
    """A process that dies before or after any request leaves nothing, or the whole; the next attempt makes it whole."""
    make("gs://b/x")
    expected = bucket.contents()

    def trial(at: int, acted: bool) -> bool:
        bucket.objects["b"].clear()
        forget()
        died = dies(bucket, at, acted, make, "gs://b/x")
        forget()
        complete = Location.of("gs://b/x").fetch(MANIFEST)
        assert complete == ("x/committed.json" in bucket.objects["b"])
        if complete:
            assert files(Location.of("gs://b/x").path)["one"] == b"1"
        make("gs://b/x")
        assert bucket.contents() == expected
        return died

    assert die_at_every_request(trial) > 10
