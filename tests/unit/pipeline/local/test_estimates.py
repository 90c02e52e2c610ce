"""A plan's estimates of how long stages take."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.core.storage import location
from pipeline.local import estimates, history
from pipeline.local.estimates import learn, total
from pipeline.local.history import DONE, History, TaskState
from pipeline.local.values import Unknown
from tests.unit.pipeline.local.conftest import DEFAULTS, STEPS

START = 15.0
RATE = 1.51e11  # multiplications a second of products on the machine of benchmarks/judging/quality.md


@pytest.fixture(autouse=True)
def products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the rate of products of another machine."""
    monkeypatch.setenv(location.MIRRORS, str(tmp_path))
    file = location.private("speed") / "products.json"
    file.write_text(json.dumps({"rate": RATE}))
    return file


def train_inputs(**changes: Any) -> dict[str, Any]:
    train = next(step for step in STEPS if step.stage == "train")
    settings = {field.name: DEFAULTS[field.name] for field in train.fields() if field.name in DEFAULTS}
    return {**settings, "dataset": Unknown("preprocess", "dataset_uri"), **changes}


def estimate(root: Path, source: str = "fashion-mnist", shape: Any = None, **changes: Any) -> float | None:
    height, width = shape or (0, 0)
    parameters = {**DEFAULTS, "source": source, "height": height, "width": width}
    return estimates.of("train", train_inputs(**changes), history.read(root), parameters)[0]


def seconds(root: Path, **changes: Any) -> float:
    estimated = estimate(root, **changes)
    assert estimated is not None
    return estimated


def train_once(root: Path, run: int, images_per_second: float, **settings: Any) -> None:
    checkpoint = root / f"step-{run}"
    checkpoint.mkdir(parents=True)
    rates = (None, images_per_second, images_per_second, 2 * images_per_second)
    rows = [{"step": step, "images_per_second": rate} for step, rate in enumerate(rates)]
    (checkpoint / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    network = {"image": {"height": 28, "width": 28, "channels": 1}}
    manifest = {"network": network, "settings": train_inputs(dataset="", **settings)}
    (checkpoint / "checkpoint.json").write_text(json.dumps(manifest))
    task = TaskState(DONE, outputs={"checkpoint_uri": str(checkpoint)}, parts={"run": run})
    History(root, {}).write_state(0, {"train": task})


def test_a_first_training_is_estimated_from_its_settings(tmp_path: Path) -> None:
    usual = seconds(tmp_path)
    assert 420 < usual < 540  # 10,000 updates of 46 ms, as benchmarks/judging/quality.md measured
    assert seconds(tmp_path, steps=20_000) == pytest.approx(2 * usual - START)
    assert 830 < seconds(tmp_path, batch_size=128) < 930  # of 86 ms
    assert seconds(tmp_path, minutes=3.0) == START + 180
    assert estimate(tmp_path, source="pictures") is None  # whose size nobody knows yet
    assert seconds(tmp_path, source="pictures", shape=(28, 28)) > usual


def test_a_first_training_is_estimated_from_how_fast_the_machine_multiplies(tmp_path: Path, products: Path) -> None:
    usual = seconds(tmp_path)
    products.write_text(json.dumps({"rate": RATE / 4}))
    assert estimate(tmp_path) == pytest.approx(4 * usual - 3 * START)
    products.unlink()
    here = estimate(tmp_path)
    rate = json.loads(products.read_text())["rate"]
    assert here == estimate(tmp_path) == pytest.approx(START + (usual - START) * RATE / rate)  # measured once


def test_later_trainings_are_estimated_from_the_newest(tmp_path: Path) -> None:
    train_once(tmp_path, 1, 10.0)
    train_once(tmp_path, 2, 500.0, critic_steps=2)
    assert estimate(tmp_path, critic_steps=2, steps=3000) == pytest.approx(START + 3000 * 2 * 64 / 500)
    usual = estimate(tmp_path)
    (tmp_path / "step-2" / "checkpoint.json").unlink()
    assert usual != estimate(tmp_path) == estimate(tmp_path / "new")


def test_a_training_under_another_root_teaches_the_speed_of_the_machine(tmp_path: Path) -> None:
    train_once(tmp_path / "one", 1, 500.0, critic_steps=2)
    train_once(tmp_path / "other", 1, 10.0, critic_steps=2)
    learn(train_inputs(), {"checkpoint_uri": str(tmp_path / "one" / "step-1")})
    for root in ("new", "other"):
        assert estimate(tmp_path / root, critic_steps=2, steps=3000) == pytest.approx(START + 3000 * 2 * 64 / 500)


def test_a_long_training_is_announced_with_a_shorter_one(tmp_path: Path) -> None:
    parameters = {**DEFAULTS, "source": "pictures", "height": 256, "width": 256}
    long, short = train_inputs(steps=20_000), train_inputs(steps=20)
    past = history.read(tmp_path)
    _, advice = estimates.of("train", long, past, parameters)
    assert re.search(r"^256x256 at \d+ images/s.* \d+ h .*guess.*--steps 2000 takes \d+ h \d+ min$", advice)
    assert "--steps" not in estimates.of("train", short, past, parameters)[1]
    train_once(tmp_path, 1, 500.0)
    learn(long, {"checkpoint_uri": str(tmp_path / "step-1")})
    assert "guess" not in estimates.of("train", short, past, parameters)[1]
    assert re.search("1 min 20 s, .* embed$", total({"train": 50.0, "embed": None, "export": 30.0}))


def test_other_stages_take_as_long_as_last_time(tmp_path: Path) -> None:
    for state, attempts, took in (("done", 1, 5.0), ("done", 1, 7.0), ("done", 2, 90.0), ("failed", 1, 1.0)):
        task = TaskState(state, attempts=attempts, seconds=took)
        History(tmp_path, {}).write_state(0, {"embed": task})
    History(tmp_path, {})  # a run that has no state yet
    past = history.read(tmp_path)
    assert [estimates.of(stage, {}, past, DEFAULTS)[0] for stage in ("embed", "evaluate")] == [7.0, None]
