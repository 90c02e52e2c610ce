"""Files of an attempt: the same in a folder and in a bucket; and in a bucket the effects of late workers and sweeps."""

import copy
import errno
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from components.core.artifacts import datasets
from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.storage import buckets
from components.core.storage.location import COMMITTED, Location
from components.preprocess import attempt_files
from components.preprocess.attempt_files import AttemptFiles, results
from tests.fakes.gcs.server import Server

DATASET = Location.of("gs://b/d")


@pytest.fixture
def objects(gcs: Server) -> dict[str, Any]:
    gcs.create_bucket("b")
    return gcs.objects["b"]


@pytest.fixture(params=["folder", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> AttemptFiles:
    if request.param == "folder":
        return attempt_files.begin(str(tmp_path))
    request.getfixturevalue("objects")
    return attempt_files.new_in_bucket(DATASET)


def test_what_is_written_is_read(files: AttemptFiles) -> None:
    checksum = files.write("a.rows", [b"01234", b"56789"])
    assert checksum in ("", buckets.checksum(b"0123456789"))
    files.leave("b.facts", "facts")
    assert (files.read("a.rows"), files.read_note("b.facts", str)) == (b"0123456789", "facts")
    assert (files.exists("a.rows"), files.exists("c")) == (True, False)
    assert {**files.sizes(), attempt_files.MARK: 2} == {"a.rows": 10, "b.facts": 7, attempt_files.MARK: 2}
    assert [*files.parts([("a.rows", 2, 7, google_crc32c.value(b"2345678"))])] == [b"2345678"]
    parts = [("a.rows", number % 10, 1, google_crc32c.value(b"%d" % (number % 10))) for number in range(99)]
    assert [*files.parts(parts)] == [b"%d" % (number % 10) for number in range(99)]  # some on their way at once
    with pytest.raises(FileNotFoundError):
        files.read("c")


def test_a_part_that_is_cut_short(files: AttemptFiles) -> None:
    files.write("a.rows", [b"0123"])
    with pytest.raises((OSError, DataError), match=r"cut short|damaged"):
        [*files.parts([("a.rows", 2, 3, google_crc32c.value(b"234"))])]


def test_the_same_bytes_count_as_ours_and_others_end_the_attempt(objects: dict[str, Any]) -> None:
    files = attempt_files.new_in_bucket(DATASET)
    files.write("a", [b"1"])
    files.write("a", [b"1"])
    results("a", lambda opened, name: [opened.write(name, [b"2"])], str(files))
    with pytest.raises(ConfigError, match="bytes of a;"):
        attempt_files.raise_failure(files)
    files.leave("a", 2)
    assert files.read("a") == b"1"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DataError("x is damaged"), DataError, "^x is damaged$"),
        (OSError(errno.EIO, "broken"), TransientError, "^Input/output error: {above}$"),
        (TransientError("no decoder"), TransientError, "^no decoder$"),
        (StageError("odd"), StageError, "^odd$"),
        (MemoryError(), TransientError, "images_per_shard"),
        (OSError(errno.ENOSPC, "full", "/data/run"), TransientError, "^No space left on device: /data/run$"),
        (PermissionError(errno.EACCES, "no", "/data/run"), ConfigError, "^Permission denied: /data/run "),
    ],
)
def test_the_first_failure_ends_the_attempt_and_is_raised(
    files: AttemptFiles, error: Exception, kind: type[Exception], message: str
) -> None:
    def fail(_: AttemptFiles, item: None) -> Iterator[int]:
        yield 1
        raise copy.copy(error)  # because its path is added

    assert results(None, lambda opened, _: [str(opened)], str(files)) == [str(files)]
    assert results(None, fail, str(files)) == []
    assert results(None, lambda *_: ["not done"], str(files)) == []
    with pytest.raises(kind, match=message.format(above=str(files).rpartition("/")[0])):
        attempt_files.raise_failure(files)


def test_a_defect_is_raised_where_it_is(tmp_path: Path) -> None:
    attempt_files.begin(str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        results(0, lambda _, zero: [1 // zero], str(tmp_path))
    attempt_files.raise_failure(AttemptFiles(str(tmp_path)))
    assert results(0, lambda _, zero: [1 // zero], str(tmp_path / "gone")) == []  # the attempt is over


def work(files: AttemptFiles, _: None) -> list[int]:
    files.write("run-0.rows", [b"rows"])
    files.write("train.tfrecord", [b"shard"])
    files.leave("train.facts", "facts")
    return [1]


def commit(files: AttemptFiles) -> None:
    listed = {
        name: files.put(name, files.read(name))
        for name in {**files.sizes(), datasets.MANIFEST: 2}
        if name.endswith((".tfrecord", ".json")) and name != attempt_files.MARK
    }
    assert DATASET.publish(files.path.name, listed, datasets.MANIFEST)


def interrupting(monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> Callable[[], int]:
    """Act once between a worker's requests: before number `at`. Return a function for their number."""
    numbers = itertools.count()
    before = buckets._request

    def request(*arguments: Any) -> Any:
        if next(numbers) == at:
            monkeypatch.setattr(buckets, "_request", before)
            act()
            monkeypatch.setattr(buckets, "_request", request)
        return before(*arguments)

    monkeypatch.setattr(buckets, "_request", request)

    def asked() -> int:
        monkeypatch.setattr(buckets, "_request", before)
        return next(numbers)

    return asked


@pytest.mark.parametrize("end", ["gives up", "commits"])
def test_nothing_is_left_whenever_an_attempt_ends_beside_a_worker_that_was_taken_for_dead(
    objects: dict[str, Any], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Another worker has done the work; the driver ends the attempt between any two requests of this one."""
    ended = list[int]()
    for at in itertools.count():
        objects.clear()
        files = attempt_files.new_in_bucket(DATASET)
        if end == "commits":
            work(AttemptFiles(str(files)), None)
            files.write(datasets.MANIFEST, [b"{}"])

        def act(files: AttemptFiles = files, at: int = at) -> None:
            ended.append(at)
            if end == "commits":
                commit(files)
            attempt_files.sweep(DATASET, files)

        asked = interrupting(monkeypatch, at, act)
        results(None, work, str(files))
        done = at >= asked()
        if done:
            act()
        folder = f"d/{files.path.name}"
        kept = {"d/committed.json", f"{folder}/train.tfrecord", f"{folder}/dataset.json"} if end == "commits" else set()
        assert objects.keys() == kept, at
        if done:
            break
    assert ended == [*range(at + 1)]
    assert at >= 5


def test_a_later_run_removes_what_attempts_left_and_nothing_else(objects: dict[str, Any]) -> None:
    left, won = (attempt_files.new_in_bucket(DATASET) for _ in range(2))
    work(left, None)
    work(won, None)
    won.write(datasets.MANIFEST, [b"{}"])
    buckets.create("gs://b/d/mine/attempt.json", b"a user's")
    attempt_files.sweep(DATASET)  # before the commit any of them may still be active
    assert left.exists(attempt_files.MARK)
    assert won.exists(attempt_files.MARK)
    commit(won)
    attempt_files.sweep(DATASET)
    assert objects.keys() == {
        f"d/{COMMITTED}",
        f"d/{won.path.name}/dataset.json",
        f"d/{won.path.name}/train.tfrecord",
        "d/mine/attempt.json",
    }
