"""The steps of the pipeline as plain functions: chunks, retries, missing results, and notes that another wrote."""

import pickle
from pathlib import Path

import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError, TransientError
from components.core.sources.files import SourceFile
from components.preprocess import attempt_files, rows, shards
from components.preprocess.attempt_files import FAILED, AttemptFiles, FilePart, results
from components.preprocess.beam import pipeline
from components.preprocess.formats import survey
from components.preprocess.formats.survey import ImagesPart, Part
from tests.inputs.sources import Unpickled, plan

DIGITS = plan(
    stored=ImageShape(8, 8, 1),
    image=ImageShape(8, 8, 1),
    made_splits={"test": 0.2, "validation": 0.1},
    shard_counts={"train": 3, "validation": 1, "test": 1},
    class_count=10,
)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}


def chunk_of_digits(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (chunk,) = pipeline._write_chunks(survey.survey("digits").parts, AttemptFiles(str(folder)))
    return chunk


def make_rows(chunk: str, folder: Path) -> list[tuple[str, FilePart]]:
    return results(chunk, rows.make, str(folder), DIGITS, 1)


def write_all(parts: list[tuple[str, FilePart]], folder: Path) -> list[str]:
    groups: dict[str, list[FilePart]] = {}
    for shard, part in parts:
        groups.setdefault(shard, []).append(part)
    return [name for group in groups.items() for name in results(group, shards.write, str(folder), DIGITS)]


def build(folder: Path) -> str:
    chunk = chunk_of_digits(folder)
    for shard in write_all(make_rows(chunk, folder), folder):
        results(shard, shards.find_leaks, str(folder))
    return chunk


def remove(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink()


def test_small_parts_share_a_chunk_and_a_whole_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CHUNK_IMAGES", 6)
    image = (SourceFile("x", "/x", 1), "train", 0)
    parts: list[Part] = [*[ImagesPart((image,) * 4)] * 5, *survey.survey("digits").parts, ImagesPart((image,))]
    chunks = pipeline._write_chunks(parts, AttemptFiles(str(tmp_path)))
    chunk_parts = [AttemptFiles(str(tmp_path)).read_note(chunk, list[Part]) for chunk in chunks]
    assert [len(chunk) for chunk in chunk_parts] == [2, 2, 2, 1]
    assert [part for chunk in chunk_parts for part in chunk] == parts


def test_work_that_is_done_again_makes_the_same_and_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = chunk_of_digits(tmp_path)
    monkeypatch.setattr(rows, "_RUN_BYTES", 20_000)
    parts = make_rows(chunk, tmp_path)
    names = write_all(parts, tmp_path)
    before = content(tmp_path)
    assert sorted(before) == sorted(names)
    remove(tmp_path, chunk)  # so that reading it again fails
    assert make_rows(chunk, tmp_path) == parts
    remove(tmp_path, "*.facts")
    write_all(parts, tmp_path)
    assert content(tmp_path) == before
    remove(tmp_path, "*.rows")
    assert write_all(parts, tmp_path) == names
    attempt_files.raise_failure(AttemptFiles(str(tmp_path)))


def test_two_workers_that_make_one_chunk_disturb_nobody(tmp_path: Path) -> None:
    """As when a runner takes a live worker for dead: the rows of both stay readable."""
    chunk = chunk_of_digits(tmp_path)
    first = make_rows(chunk, tmp_path)
    remove(tmp_path, "*.index")
    second = make_rows(chunk, tmp_path)
    write_all(first, tmp_path)
    before = content(tmp_path)
    remove(tmp_path, "*.facts")
    write_all(second, tmp_path)
    assert content(tmp_path) == before


NOTES = ["parts-*.json", "parts-*.index", "train-0*0-*.signed", "train-0*1-*.leaks", "train-0*2-*.facts", FAILED]


@pytest.mark.parametrize("name", NOTES)
def test_a_note_that_another_wrote_is_refused(tmp_path: Path, name: str) -> None:
    chunk = chunk_of_digits(tmp_path) if name == "parts-*.json" else build(tmp_path)
    (replaced,) = [tmp_path / FAILED] if name == FAILED else tmp_path.glob(name)
    replaced.write_bytes(pickle.dumps(Unpickled()))
    with pytest.raises(DataError, match=rf"{replaced} is damaged"):  # noqa: PT012 - by whoever reads it
        make_rows(chunk, tmp_path)
        results("train-00000-of-00003.tfrecord", shards.find_leaks, str(tmp_path))
        attempt_files.raise_failure(AttemptFiles(str(tmp_path)))
        shards.gather(AttemptFiles(str(tmp_path)), 1)


@pytest.mark.parametrize("missing", ["*.facts", "*.index", "*.leaks"])
def test_what_no_worker_could_leave_is_noticed(tmp_path: Path, missing: str) -> None:
    build(tmp_path)
    gathered = shards.gather(AttemptFiles(str(tmp_path)), 1)
    assert sum(facts.shard.records for facts in gathered.shards) == 1797
    next(tmp_path.glob(missing)).unlink()
    with pytest.raises(TransientError, match=str(tmp_path)):
        shards.gather(AttemptFiles(str(tmp_path)), 1)
