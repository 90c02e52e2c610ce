"""The steps of the pipeline as plain functions: chunks, retries, and missing results."""

from pathlib import Path

import pytest

from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess import rows
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.beam import attempt, pipeline
from components.preprocess.formats import survey
from components.preprocess.formats.survey import ImagesPart, Part
from tests.inputs.sources import plan
from tests.unit.components.preprocess.beam.chunks import DIGITS, chunks_of_digits, content, forget_facts, write_all


def test_small_parts_share_a_chunk_and_a_whole_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CHUNK_IMAGES", 6)
    image = (SourceFile("x", "/x", 1), "train", 0)
    parts: list[Part] = [*[ImagesPart((image,) * 4)] * 5, survey.DIGITS, ImagesPart((image,))]
    chunks = pipeline._write_chunks(parts, AttemptFiles(str(tmp_path)))
    chunk_parts = [[*pipeline._read_parts(chunk, AttemptFiles(str(tmp_path)))] for chunk in chunks]
    assert [len(some) for some in chunk_parts] == [2, 2, 2, 1]
    assert [part for some in chunk_parts for part in some] == parts


def test_work_that_is_done_again_makes_the_same_and_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    monkeypatch.setattr(rows, "_RUN_BYTES", 20_000)
    parts = pipeline.make_rows(chunk, DIGITS, rows_at, location, 1)
    names = write_all(parts, rows_at, location)
    before = content(tmp_path)
    assert sorted(before) == sorted(names)
    next(tmp_path.glob("rows/parts-*")).unlink()  # so that reading it again fails
    assert pipeline.make_rows(chunk, DIGITS, rows_at, location, 1) == parts
    forget_facts(tmp_path)
    write_all(parts, rows_at, location)
    assert content(tmp_path) == before
    for path in tmp_path.joinpath("rows").glob("*.rows"):
        path.unlink()
    assert write_all(parts, rows_at, location) == names
    attempt.raise_failure(AttemptFiles(str(tmp_path)))


def test_two_workers_that_make_one_chunk_disturb_nobody(tmp_path: Path) -> None:
    """As when a runner takes a live worker for dead: the rows of both stay readable."""
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    first = pipeline.make_rows(chunk, DIGITS, rows_at, location, 1)
    next(tmp_path.joinpath("rows").glob("*.index")).unlink()
    second = pipeline.make_rows(chunk, DIGITS, rows_at, location, 1)
    write_all(first, rows_at, location)
    before = content(tmp_path)
    forget_facts(tmp_path)
    write_all(second, rows_at, location)
    assert content(tmp_path) == before


def test_after_a_failure_nothing_more_is_done(tmp_path: Path) -> None:
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    part = ImagesPart(((SourceFile("gone.png", str(tmp_path / "gone.png"), 1), "train", 0),))
    (damaged,) = pipeline._write_chunks([part], AttemptFiles(rows_at))
    assert pipeline.make_rows(damaged, plan(stored=None), rows_at, location, 1) == []
    assert pipeline.make_rows(chunk, DIGITS, rows_at, location, 1) == []
    assert not list(tmp_path.glob("rows/*.index"))
    with pytest.raises(DataError, match=r"gone\.png"):
        attempt.raise_failure(AttemptFiles(str(tmp_path)))
