"""Notes of an attempt: one that is missing is noticed, one that another wrote is refused as damaged and never run."""

import pickle
from pathlib import Path

import pytest

from components.core.errors import DataError, TransientError
from components.preprocess import shards
from components.preprocess.attempt_files import FAILED, AttemptFiles
from components.preprocess.beam import attempt, pipeline
from tests.unit.components.preprocess.beam.chunks import DIGITS, chunks_of_digits, write_all
from tests.unit.components.preprocess.pickles import Unpickled


@pytest.mark.parametrize(
    "name",
    [
        "rows/parts-*",
        "rows/parts-*.index",
        "train-00000-*.signed",
        "train-00001-*.leaks",
        "train-00002-*.facts",
        FAILED,
    ],
)
def test_a_note_that_another_wrote_is_refused(tmp_path: Path, name: str) -> None:
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    if name != "rows/parts-*":
        for shard in write_all(pipeline.make_rows(chunk, DIGITS, rows_at, location, 1), rows_at, location):
            if shard.startswith("train"):
                pipeline.find_leaks(shard, location)
    (replaced,) = [tmp_path / FAILED] if name == FAILED else tmp_path.glob(name)
    replaced.write_bytes(pickle.dumps(Unpickled()))
    with pytest.raises(DataError, match=rf"{replaced} is damaged"):  # noqa: PT012 - by whoever reads it
        pipeline.make_rows(chunk, DIGITS, rows_at, location, 1)
        pipeline.find_leaks("train-00000-of-00003.tfrecord", location)
        attempt.raise_failure(AttemptFiles(str(tmp_path)))
        shards.gather(AttemptFiles(rows_at), AttemptFiles(str(tmp_path)), 1, DIGITS)


@pytest.mark.parametrize("missing", ["*.facts", "rows/*.index", "*.leaks"])
def test_what_no_worker_could_leave_is_noticed(tmp_path: Path, missing: str) -> None:
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    for name in write_all(pipeline.make_rows(chunk, DIGITS, rows_at, location, 1), rows_at, location):
        if name.startswith("train"):
            pipeline.find_leaks(name, location)
    gathered = shards.gather(AttemptFiles(rows_at), AttemptFiles(str(tmp_path)), 1, DIGITS)
    assert sum(facts.shard.records for facts in gathered.shards) == 1797
    next(tmp_path.glob(missing)).unlink()
    with pytest.raises(TransientError, match=str(tmp_path)):
        shards.gather(AttemptFiles(rows_at), AttemptFiles(str(tmp_path)), 1, DIGITS)
