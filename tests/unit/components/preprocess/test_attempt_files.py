"""Files of an attempt: the same in a folder and in a bucket; and in a bucket the effects of late workers and sweeps."""

import copy
import errno
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from components.core.artifacts import datasets
from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.storage import buckets
from components.core.storage.location import ATTEMPT, COMMITTED, Location
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
        return AttemptFiles(str(tmp_path))
    request.getfixturevalue("objects")
    return in_bucket("0")


def in_bucket(digit: str) -> AttemptFiles:
    return AttemptFiles(f"{DATASET}/{ATTEMPT}{digit * 16}")


def test_what_is_written_is_read(files: AttemptFiles) -> None:
    checksum = files.write("a.rows", [b"01234", b"56789"])
    assert checksum in ("", buckets.checksum(b"0123456789"))
    files.leave("b.facts", "facts")
    rows = files.read_array("a.rows", np.dtype("u1"))
    assert (rows.tobytes(), files.read_note("b.facts", str)) == (b"0123456789", "facts")
    assert (files.exists("a.rows"), files.exists("c")) == (True, False)
    assert files.sizes() == {"a.rows": 10, "b.facts": 7}
    assert [*files.parts([("a.rows", 2, 7, google_crc32c.value(b"2345678"))])] == [b"2345678"]
    parts = [("a.rows", number % 10, 1, google_crc32c.value(b"%d" % (number % 10))) for number in range(99)]
    assert [*files.parts(parts)] == [b"%d" % (number % 10) for number in range(99)]  # some on their way at once
    with pytest.raises(DataError, match="c is damaged"):
        files.read_note("c", str)


def test_a_part_that_is_cut_short(files: AttemptFiles) -> None:
    files.write("a.rows", [b"0123"])
    with pytest.raises((OSError, DataError), match=r"cut short|damaged"):
        [*files.parts([("a.rows", 2, 3, google_crc32c.value(b"234"))])]


def test_the_same_bytes_count_as_ours_and_others_end_the_attempt(objects: dict[str, Any]) -> None:
    files = in_bucket("0")
    files.write("a", [b"1"])
    files.write("a", [b"1"])
    results("a", lambda opened, name: [opened.write(name, [b"2"])], str(files))
    with pytest.raises(ConfigError, match="bytes of a;"):
        attempt_files.raise_failure(files)
    files.leave("a", 2)
    assert files.read_note("a", int) == 1


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
    with pytest.raises(ZeroDivisionError):
        results(0, lambda _, zero: [1 // zero], str(tmp_path))
    attempt_files.raise_failure(AttemptFiles(str(tmp_path)))


def test_a_worker_of_an_attempt_that_is_over_leaves_nothing(tmp_path: Path) -> None:
    assert results(None, work, str(tmp_path / "gone")) == []
    assert [*tmp_path.iterdir()] == []


def work(files: AttemptFiles, _: None) -> list[int]:
    files.write("run-0.rows", [b"rows"])
    files.write("train.tfrecord", [b"shard"])
    files.leave("train.facts", "facts")
    return [1]


def commit(files: AttemptFiles) -> None:
    written = {
        "train.tfrecord": files.put("train.tfrecord", b"shard"),
        datasets.MANIFEST: files.put(datasets.MANIFEST, b"{}"),
    }
    assert DATASET.publish(files.path.name, written, datasets.MANIFEST)


@pytest.mark.parametrize("end", ["gives up", "commits"])
def test_whenever_an_attempt_ends_beside_a_worker_that_was_taken_for_dead_the_next_run_leaves_nothing(
    objects: dict[str, Any], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Another worker has done the work; the driver ends the attempt between any two requests of this one."""
    before = buckets._request
    for at in itertools.count():
        objects.clear()
        files, numbers = in_bucket("0"), itertools.count()
        work(files, None)
        files.write(datasets.MANIFEST, [b"{}"])

        def request(
            *arguments: Any, files: AttemptFiles = files, numbers: Iterator[int] = numbers, at: int = at
        ) -> Any:
            if next(numbers) == at:
                monkeypatch.setattr(buckets, "_request", before)
                if end == "commits":
                    commit(files)
                DATASET.sweep(files.path.name)
                kept = {
                    f"d/{COMMITTED}",
                    *(f"d/{files.path.name}/{name}" for name in ("train.tfrecord", "dataset.json")),
                }
                assert objects.keys() == (kept if end == "commits" else set())
                monkeypatch.setattr(buckets, "_request", request)
            return before(*arguments)

        monkeypatch.setattr(buckets, "_request", request)
        results(None, work, str(files))
        monkeypatch.setattr(buckets, "_request", before)
        if next(numbers) <= at:
            break
        if end == "gives up":
            files = in_bucket("1")
            work(files, None)
            files.write(datasets.MANIFEST, [b"{}"])
            commit(files)
        DATASET.sweep()
        names = ("train.tfrecord", "dataset.json")
        assert objects.keys() == {f"d/{COMMITTED}", *(f"d/{files.path.name}/{name}" for name in names)}, at
    assert at >= 5


def test_a_later_run_removes_what_attempts_left_and_nothing_else(objects: dict[str, Any]) -> None:
    left, won = in_bucket("0"), in_bucket("1")
    work(left, None)
    work(won, None)
    won.write(datasets.MANIFEST, [b"{}"])
    buckets.create("gs://b/d/mine/attempt.json", b"a user's")
    before = {*objects}
    DATASET.sweep()  # before the commit any of them may still be active
    assert objects.keys() == before
    commit(won)
    DATASET.sweep()
    names = (COMMITTED, f"{won.path.name}/dataset.json", f"{won.path.name}/train.tfrecord", "mine/attempt.json")
    assert objects.keys() == {f"d/{name}" for name in names}
