"""A plan's estimates of how long stages take."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.local.cache import Cache
from pipeline.local.estimates import Estimates, as_duration
from pipeline.local.history import History
from pipeline.package.values import Unknown
from tests.unit.pipeline.local.conftest import DEFAULTS, TASKS

START = 15.0


def inputs_of_train(**changes: Any) -> dict[str, Any]:
    given = {field.name: DEFAULTS[field.name] for field in TASKS["train"].fields() if field.name in DEFAULTS}
    return {**given, "dataset": Unknown(TASKS["preprocess"], "dataset_uri"), **changes}


def estimate(root: Path, source: str = "fashion-mnist", shape: Any = None, **changes: Any) -> float | None:
    height, width = shape or (0, 0)
    parameters = {**DEFAULTS, "source": source, "height": height, "width": width}
    return Estimates(root, parameters).of("train", inputs_of_train(**changes))


def train_once(root: Path, run: int, images_per_second: float, **settings: Any) -> None:
    """Leave the files of a training on Fashion-MNIST."""
    checkpoint = root / f"step-{run}"
    checkpoint.mkdir(parents=True)
    rates = (None, images_per_second, images_per_second, 2 * images_per_second)
    rows = [{"step": step, "images_per_second": rate} for step, rate in enumerate(rates)]
    (checkpoint / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    network = {"image": {"height": 28, "width": 28, "channels": 1}}
    described = {"network": network, "settings": inputs_of_train(dataset="", **settings)}
    (checkpoint / "checkpoint.json").write_text(json.dumps(described))
    Cache(root).keep("train", {"run": run}, {}, {"checkpoint_uri": str(checkpoint)}, run)


def test_a_first_training_is_estimated_from_its_settings(tmp_path: Path) -> None:
    usual = estimate(tmp_path)
    assert usual is not None
    assert 420 < usual < 540  # 10,000 updates of 46 ms, as benchmarks/judging/quality.md measured
    assert estimate(tmp_path, steps=20_000) == pytest.approx(2 * usual - START)
    larger, rgb = estimate(tmp_path, batch_size=128), estimate(tmp_path, source="pictures", shape=(28, 28))
    assert larger is not None
    assert rgb is not None
    assert 830 < larger < 930  # of 86 ms
    assert estimate(tmp_path, minutes=3.0) == START + 180
    assert estimate(tmp_path, source="pictures") is None  # whose size nobody knows yet
    assert rgb > usual


def test_later_trainings_are_estimated_from_the_newest(tmp_path: Path) -> None:
    train_once(tmp_path, 1, 10.0)
    train_once(tmp_path, 2, 500.0, critic_steps=2)
    assert estimate(tmp_path, critic_steps=2, steps=3000) == pytest.approx(START + 3000 * 2 * 64 / 500)
    usual = estimate(tmp_path)
    (tmp_path / "step-2" / "checkpoint.json").unlink()
    assert usual != estimate(tmp_path) == estimate(tmp_path / "new")


def test_other_stages_take_as_long_as_last_time(tmp_path: Path) -> None:
    for state, attempts, seconds in (("done", 1, 5.0), ("done", 1, 7.0), ("done", 2, 90.0), ("failed", 1, 1.0)):
        task = {"state": state, "attempts": attempts, "seconds": seconds}
        History(tmp_path, b"", {}).write_state({"tasks": {"embed": task}})
    History(tmp_path, b"", {})  # a run that has no state yet
    found = Estimates(tmp_path, DEFAULTS)
    assert (found.of("embed", {}), found.of("evaluate", {})) == (7.0, None)


def test_durations_are_short() -> None:
    assert [as_duration(seconds) for seconds in (0.2, 89, 100, 480, 6000)] == ["0 s", "89 s", "2 min", "8 min", "1.7 h"]
