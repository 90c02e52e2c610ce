"""Tests for scores_table.py."""

import json
import random
from pathlib import Path

import pytest

from components.evaluate.report import scores_table
from tests.stages.evaluate.conftest import score_row as row


def test_what_was_appended_is_what_is_read_and_a_line_is_flat(tmp_path: Path) -> None:
    assert scores_table.read(tmp_path) == []
    rows = [row(200, 1 / 3), row(100, None), row(100, 5.0, seed=1)]
    for each in rows:
        scores_table.append(tmp_path, each)
    assert scores_table.read(tmp_path) == [rows[1], rows[2], rows[0]]
    assert scores_table.read(tmp_path, row(1).comparison) == [rows[1], rows[0]]
    line = json.loads((tmp_path / scores_table.FILE).read_text().splitlines()[0])
    assert line == {
        **{"step": 200, "checkpoint_digest": "c200", "settings": {"seed": 3}},
        **{"dataset_digest": "d", "split": "validation", "compared": 90, "embedding_digest": "e"},
        **{"samples": 100, "seed": 0, "distance": "fcd", "code": "c"},
        **{"fcd": 1 / 3, "recall": 0.5, "copy_z": None},
    }


@pytest.mark.parametrize("broken", ['{"step": 300, "checkp', '{"step": 300}'])
def test_a_line_that_is_no_row_is_passed_over_and_does_not_stay(tmp_path: Path, broken: str) -> None:
    path = tmp_path / scores_table.FILE
    scores_table.append(tmp_path, row(100))
    path.write_text(path.read_text() + broken)
    assert scores_table.read(tmp_path) == [row(100)]
    scores_table.append(tmp_path, row(200))
    assert scores_table.read(tmp_path) == [row(100), row(200)]
    assert len(path.read_text().splitlines()) == 2


def test_best_is_the_smallest_distance_and_the_latest_of_equal_ones() -> None:
    values: list[float | None] = [None, 0.5, 0.5, 2.0, float("nan"), -float("inf"), 0.7]
    rows = [row(step, value) for step, value in enumerate(values)]
    random.Random(0).shuffle(rows)
    found = scores_table.best(rows)
    assert found is not None
    assert found.step == 2
    assert scores_table.best([row(1, None)]) is scores_table.best([]) is None
