"""The steps of the pipeline as plain functions: chunks, retries, and what is missing in the end."""

from pathlib import Path

import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError, TransientError
from components.core.sources.files import SourceFile
from components.preprocess import rows, shards
from components.preprocess.beam import attempt, pipeline
from components.preprocess.formats import survey
from components.preprocess.formats.survey import ImagesPart, Part
from components.preprocess.plan import Plan
from components.preprocess.rows import Place
from tests.inputs.sources import plan

DIGITS: Plan = plan(
    stored=ImageShape(8, 8, 1),
    image=ImageShape(8, 8, 1),
    made_splits={"test": 0.2, "validation": 0.1},
    shard_counts={"train": 3, "validation": 1, "test": 1},
    class_count=10,
)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}


def chunks_of_digits(folder: Path) -> tuple[list[pipeline.Chunk], str, str]:
    """The chunk of the digits, the folder of rows, that of shards."""
    (folder / "rows").mkdir(parents=True)
    return pipeline._write_chunks([survey.DIGITS], folder / "rows" / "parts.pickle"), str(folder / "rows"), str(folder)


def write_all(made: list[tuple[str, Place]], rows_at: str, place: str) -> list[str]:
    groups: dict[str, list[Place]] = {}
    for shard, of_rows in made:
        groups.setdefault(shard, []).append(of_rows)
    return [name for group in groups.items() for name in pipeline.write_shard(group, DIGITS, rows_at, place)]


def forget_facts(folder: Path) -> None:
    """As of workers that died before they wrote them."""
    for path in folder.glob("*.facts"):
        path.unlink()


def test_small_parts_share_a_chunk_and_a_whole_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CHUNK_IMAGES", 6)
    image = (SourceFile("x", "/x", 1), "train", 0)
    parts: list[Part] = [*[ImagesPart((image,) * 4)] * 5, survey.DIGITS, ImagesPart((image,))]
    chunks = pipeline._write_chunks(parts, tmp_path / "parts.pickle")
    found = [[*pipeline._read_parts(chunk, tmp_path / "parts.pickle")] for chunk in chunks]
    assert [len(some) for some in found] == [2, 2, 2, 1]
    assert [part for some in found for part in some] == parts


def test_work_that_is_done_again_makes_the_same_and_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chunk,), rows_at, place = chunks_of_digits(tmp_path)
    monkeypatch.setattr(rows, "_RUN_BYTES", 20_000)
    made = pipeline.make_rows(chunk, DIGITS, rows_at, place, 1)
    names = write_all(made, rows_at, place)
    before = content(tmp_path)
    assert sorted(before) == sorted(names)
    (tmp_path / "rows" / "parts.pickle").unlink()  # whoever reads it again fails
    assert pipeline.make_rows(chunk, DIGITS, rows_at, place, 1) == made
    forget_facts(tmp_path)
    write_all(made, rows_at, place)
    assert content(tmp_path) == before
    for path in tmp_path.joinpath("rows").glob("*.rows"):
        path.unlink()
    assert write_all(made, rows_at, place) == names
    attempt.raise_failure(tmp_path)


def test_two_workers_that_make_one_chunk_disturb_nobody(tmp_path: Path) -> None:
    """As when a runner takes one for dead that is not: the rows of both stay readable."""
    (chunk,), rows_at, place = chunks_of_digits(tmp_path)
    first = pipeline.make_rows(chunk, DIGITS, rows_at, place, 1)
    next(tmp_path.joinpath("rows").glob("*.index")).unlink()
    second = pipeline.make_rows(chunk, DIGITS, rows_at, place, 1)
    write_all(first, rows_at, place)
    before = content(tmp_path)
    forget_facts(tmp_path)
    write_all(second, rows_at, place)
    assert content(tmp_path) == before


@pytest.mark.parametrize("missing", ["*.facts", "rows/*.index", "*.leaks"])
def test_what_no_worker_could_leave_is_noticed(tmp_path: Path, missing: str) -> None:
    (chunk,), rows_at, place = chunks_of_digits(tmp_path)
    for name in write_all(pipeline.make_rows(chunk, DIGITS, rows_at, place, 1), rows_at, place):
        if name.startswith("train"):
            pipeline.find_leaks(name, place)
    made = shards.gather(Path(rows_at), tmp_path, 1, DIGITS)
    assert sum(facts.shard.records for facts in made.shards) == 1797
    next(tmp_path.glob(missing)).unlink()
    with pytest.raises(TransientError, match=str(tmp_path.parent)):
        shards.gather(Path(rows_at), tmp_path, 1, DIGITS)


def test_after_a_failure_nothing_more_is_done(tmp_path: Path) -> None:
    (chunk,), rows_at, place = chunks_of_digits(tmp_path)
    part = ImagesPart(((SourceFile("gone.png", str(tmp_path / "gone.png"), 1), "train", 0),))
    (damaged,) = pipeline._write_chunks([part], tmp_path / "rows" / "parts.pickle")
    assert pipeline.make_rows(damaged, plan(stored=None), rows_at, place, 1) == []
    assert pipeline.make_rows(chunk, DIGITS, rows_at, place, 1) == []
    assert not list(tmp_path.glob("rows/*.index"))
    with pytest.raises(DataError, match=r"gone\.png"):
        attempt.raise_failure(tmp_path)
