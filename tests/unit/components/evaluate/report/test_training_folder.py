import json
from pathlib import Path
from typing import Any

import numpy as np

from components.core.storage import buckets
from components.core.storage.location import Location
from components.evaluate.report import training_folder
from tests.fakes.gcs.server import Server
from tests.inputs import sheets


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_what_is_not_a_finite_number_is_left_out_of_a_row(tmp_path: Path) -> None:
    assert training_folder.read_log(tmp_path, 100) == []
    row = {"step": 5, "critic_loss": 1.5, "images_per_second": None, "penalty": float("nan"), "a": "b", "c": True}
    write_rows(tmp_path / "metrics.jsonl", [row, {"step": 150}])
    assert training_folder.read_log(tmp_path, 100) == [{"step": 5, "critic_loss": 1.5}]


def test_a_long_log_is_thinned_out(tmp_path: Path) -> None:
    write_rows(tmp_path / "metrics.jsonl", [{"step": step} for step in range(10_000)])
    steps = [row["step"] for row in training_folder.read_log(tmp_path, 10_000)]
    assert 500 <= len(steps) <= 1000
    assert set(np.diff(steps)) == {steps[1]}


def test_warnings_are_listed_once_for_each_signal(tmp_path: Path) -> None:
    assert training_folder.read_warnings(tmp_path, 1000) is None
    steep = [{"signal": "excess_slope", "message": f"excess_slope is {value}"} for value in (5, 9, 7)]
    flat = {"signal": "sample_spread", "message": "sample_spread is 0.2, expected at least 0.6"}
    windows = [[], [steep[0], flat], [steep[1]], [steep[2]]]
    rows = [{"step": 100 * (index + 1), "warnings": warnings} for index, warnings in enumerate(windows)]
    write_rows(
        tmp_path / "health.jsonl", [*rows, {"step": 1100, "warnings": [{"signal": "late", "message": "late is 1"}]}]
    )
    assert training_folder.read_warnings(tmp_path, 1000) == [
        {"warning": "excess_slope is 5", "first": 200, "last": 400, "windows": 3},
        {"warning": flat["message"], "first": 200, "last": 200, "windows": 1},
    ]
    assert training_folder.read_warnings(tmp_path, 100) == []


def timeline(training: Path | Location, last_step: int, size: int = 10**6) -> list[dict[str, Any]]:
    samples = Location.of(training) / "samples"
    return training_folder.timeline(samples.files(), samples.content, last_step, size)


def captions(folder: Path, last_step: int) -> list[str]:
    return [sheet["caption"] for sheet in timeline(folder, last_step)]


def test_the_timeline_shows_the_sheets_of_some_steps(tmp_path: Path) -> None:
    assert timeline(tmp_path, 1000) == []
    written = {step: sheets.write(tmp_path, step, 6, 4, 3) for step in range(100, 2100, 100)}
    chosen = (100, 200, 400, 600, 800, 1300, 2000)
    assert timeline(tmp_path, 2000) == [{"caption": f"step {step:,}", "png": written[step]} for step in chosen]
    assert captions(tmp_path, 350) == ["step 100", "step 200", "step 300"]
    size = (len(written[100]) + len(written[200])) // 4
    shown = timeline(tmp_path, 200, size)
    assert sum(len(sheet["png"]) for sheet in shown) <= size


def test_a_damaged_sheet_is_skipped(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        sheets.write(tmp_path, step, 6, 4, 3)
    (tmp_path / "samples" / "step-0000000200.png").write_bytes(b"")
    cut = tmp_path / "samples" / "step-0000000300.png"
    cut.write_bytes(cut.read_bytes()[:-300])
    assert captions(tmp_path, 300) == ["step 100"]


def test_a_timeline_leaves_the_mirror_of_a_training_alone(bucket: Server, tmp_path: Path) -> None:
    """The training may go on here: it rolled back to before step 100, and has sent no sheet since."""
    training = Location.of("gs://b/training")
    training.path.mkdir(parents=True)
    mirrored = {step: sheets.write(training.path, step, 6, 4, 3) for step in (100, 200)}
    sent = sheets.write(tmp_path, 300, 6, 4, 3)
    buckets.put("gs://b/training/samples/step-0000000100.png", sent)
    assert timeline(training, 200) == [{"caption": "step 100", "png": sent}]
    kept = {int(path.stem[-3:]): path.read_bytes() for path in (training.path / "samples").iterdir()}
    assert kept == mirrored
