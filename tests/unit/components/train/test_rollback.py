"""NaN and infinity: found before they are applied, never stored, rolled back in one way, and ended in time."""

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core import errors
from components.core.artifacts import checkpoints
from components.core.artifacts.datasets import ImageShape
from components.train.config import TrainConfig
from components.train.rollback import STATE, Rollbacks
from components.train.step import WganStep, network_of, seed_after
from tests.programs import on_replicas
from tests.stages.train import attempts

CONFIG = TrainConfig(dataset="-", checkpoints="-")  # whose windows have 200 steps
IMAGE = ImageShape(12, 10, 1)
SMALL: dict[str, Any] = {"batch_size": 8, "latent_size": 8, "base_filters": 4, "steps": 640}
SMALL |= {"log_every": 70, "sample_every": 320, "checkpoint_every": 100}
KERNEL = "critic/score/kernel"


def test_a_fault_leads_back_to_where_its_window_began_and_each_further_one_a_window_more() -> None:
    done = Rollbacks(CONFIG)
    assert done.state() == {}
    assert [done.targets(step)[0] for step in (0, 199, 200, 450, 600)] == [0, 0, 200, 400, 600]
    assert [done.add(step) for step in (451, 600, 601)] == [400, 200, 200]
    assert [done.in_force(step) for step in (0, 199, 200, 399, 400, 600)] == [0, 0, 2, 2, 3, 3]
    assert [len(done.notes(step)) for step in (0, 200, 400, 600)] == [0, 2, 1, 0]
    assert list(done.targets(850)) == [200, 400, 600, 800]
    again = Rollbacks(CONFIG)
    again.restore(done.state())
    assert again.state()[STATE].tolist() == done.state()[STATE].tolist() == [[400, 451], [200, 600], [200, 601]]
    again.restore({})
    assert len(again) == 0


def test_no_seed_is_that_of_another_training_after_a_rollback() -> None:
    seeds = {seed_after(seed, count) for seed in (0, 1, 2**31 - 1) for count in range(4)}
    assert len(seeds) == 12
    assert seed_after(5, 0) == 5


EXACT = {"reproducibility": "exact", "virtual_shards": 2}
CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "clipping, exact, with classes": (1, "float32", {**EXACT, "constraint": "weight_clipping"}),
    "bfloat16": (1, "bfloat16", {}),
    "2 replicas": (2, "float32", {}),
    "2 replicas, exact": (2, "float32", EXACT),
}


def poisonings(strategy: tf.distribute.Strategy, name: str) -> list[list[Any]]:
    """Return for each variable, made NaN or infinite before a step: `finite`, and the bad values afterwards."""
    _, precision, changes = CASES[name]
    conditional = "classes" in name
    options = {"batch_size": 8, "critic_steps": 1, "latent_size": 6, "base_filters": 4, **changes}
    config = TrainConfig(dataset="-", checkpoints="-", **options, conditioning="class" if conditional else "none")
    wgan = WganStep(config, network_of(config, IMAGE, 3), strategy, precision)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 1, 8, 12, 10, 1), dtype=np.uint8)
    batch = (pixels, np.zeros((1, 1, 8), np.int32)) if conditional else (pixels,)
    assert wgan.run_block(*batch)["finite"].numpy() == 1.0
    start, outcomes = wgan.state_arrays(), []
    for index, (variable, array) in enumerate(start.items()):
        if not np.issubdtype(array.dtype, np.floating):
            continue
        wgan.restore(start)
        value = (np.nan, np.inf, -np.inf)[index % 3]
        broken = array.copy()
        broken.flat[array.size // 2] = value
        copies = strategy.experimental_local_results(wgan.state()[variable])
        copies[-1 if index % 2 else 0].assign(broken)
        row = wgan.run_block(*batch)
        network = variable.split("/")[0].removesuffix("_adam")
        after = wgan.state_arrays()
        kept = [other for other in after if other.split("/")[0].removesuffix("_adam") == network and other != variable]
        changed = [other for other in kept if not np.array_equal(after[other], start[other])]
        outcomes.append([variable, float(row["finite"][0]), checkpoints.not_finite(after), changed])
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_nonfinite_value_is_found_before_an_update_of_its_network(name: str) -> None:
    """Weights, moving statistics, the average and both moments of each; in every mode, and on any one replica."""
    outcomes = on_replicas(__file__, "poisonings", CASES[name][0], name)
    kinds = {variable.split("/")[0] + variable.split("/")[1] * ("_adam" in variable) for variable, *_ in outcomes}
    assert kinds >= {"generator", "critic", "average", "critic_adamfirst", "critic_adamsecond", "generator_adamsecond"}
    assert len(outcomes) > 35
    for variable, healthy, not_finite, changed in outcomes:
        assert healthy == 0.0, variable
        # Nothing is kept of another replica's copy. The variable alone is bad, and its network has not moved.
        assert not_finite in ([], [variable]), variable
        assert changed == [] or not_finite == [], (variable, changed)


@pytest.mark.long
def test_a_training_is_rolled_back_in_one_way_after_any_kill(tiny_dataset: Path, tmp_path: Path) -> None:
    """Weights become infinite at step 491, and slots at step 561; with other checkpoints, and with SIGKILL."""
    # Where a block begins in each of them, before which variables are poisoned.
    poison = [[KERNEL, 490, 0], [f"critic_adam/second/{KERNEL.removeprefix('critic/')}", 560, 1]]
    whole, other, killed, sound = (tmp_path / name for name in ("whole", "other", "killed", "sound"))
    kills = [("save", 6), ("going back", 2), ("row", 9)]
    plans: list[tuple[Path, dict[str, Any], list[Any], list[Any]]] = [
        (whole, {}, [], poison),
        (other, {"checkpoint_every": 37, "keep_checkpoints": 1}, [], poison),
        (sound, {}, [], []),
        *((killed, {}, [[phase, call, signal.SIGKILL]], poison) for phase, call in kills),
        (killed, {}, [], poison),
    ]
    done = attempts.run_all(
        [
            {"flags": attempts.flags(tiny_dataset, location, **{**SMALL, **more}), "plan": plan, "poison": bad}
            for location, more, plan, bad in plans
        ]
    )
    codes = [code for code, _ in done]
    assert codes == [0, 0, 0, *[-signal.SIGKILL] * len(kills), 0], "\n".join(log for _, log in done)
    assert all(f"at {phase} {call}" in log for (phase, call), (_, log) in zip(kills, done[3:-1], strict=True))
    log = done[0][1]
    assert [line for line in log.splitlines() if "planted" in line] == [
        f"planted: poisoned: {KERNEL} before step 491, 0 rollbacks",
        f"planted: poisoned: {poison[1][0]} before step 561, 1 rollbacks",
    ]
    for count, step in enumerate((491, 561), 1):
        assert re.search(rf" at step {step}; .* \({count} of at most 3\)", log)
    whole, other, killed, sound = map(attempts.training_in, (whole, other, killed, sound))
    assert attempts.left_by(whole) == attempts.left_by(killed) == attempts.left_by(other)
    last, as_last = (checkpoints.step_folder(folder, 640) for folder in (whole, killed))
    assert checkpoints.Manifest.of(last).digest == checkpoints.Manifest.of(as_last).digest
    assert checkpoints.load_state(last)[STATE].tolist() == [[400, 491], [200, 561]]
    assert checkpoints.Manifest.of(last).made_with["rolled_back"] == 2
    warned = [row["warnings"] for row in attempts.left_by(whole)["health"]]
    assert [len(logged) for logged in warned] == [0, 1, 1]  # of steps 1 to 200, 201 to 400, 401 to 600
    assert warned[1][0]["signal"] == "rollback"
    assert re.findall(r"\d+", warned[1][0]["message"])[:2] == ["561", "200"]
    # Before the change it equals the training without a fault, and nowhere after it.
    rows, sound_rows = (attempts.left_by(location)["metrics"] for location in (whole, sound))
    assert rows[:2] == sound_rows[:2]
    assert rows[2] != sound_rows[2]
    assert STATE not in checkpoints.load_state(checkpoints.step_folder(sound, 640))


@pytest.mark.long
def test_what_goes_bad_again_and_again_is_ended_with_its_step(tiny_dataset: Path, tmp_path: Path) -> None:
    """A real overflow: a penalty of about 1, times 1e38, has gradients whose squares no float32 holds."""
    locations, always = [tmp_path / name for name in ("overflow", "none", "again")], [[KERNEL, 250, 99]]
    overflowing = {"penalty_weight": 1e38, "steps": 30, "checkpoint_every": 1}
    changes: list[dict[str, Any]] = [overflowing, {"rollbacks": 0}, {"rollbacks": 2}]
    (overflow, overflow_log), (none, none_log), (again, again_log) = attempts.run_all(
        [
            {"flags": attempts.flags(tiny_dataset, location, **{**SMALL, **change}), "poison": poison}
            for location, change, poison in zip(locations, changes, ([], always, always), strict=True)
        ]
    )
    assert overflow == none == again == errors.DEFECT
    assert overflow_log.count("Rolling back") == 3
    last = overflow_log.splitlines()[-1]
    assert " at step 1, after 3 rollbacks" in last
    assert "Traceback" not in overflow_log + none_log + again_log
    trainings = [attempts.training_in(location) for location in locations]
    assert checkpoints.steps(trainings[0]) == []
    assert "Rolling back" not in none_log
    assert " at step 251; " in none_log.splitlines()[-1]
    assert checkpoints.steps(trainings[1]) == [100, 200]
    assert [f"to step {step}; " in again_log for step in (200, 0)] == [True, True]
    assert "251, after 2 rollbacks" in again_log.splitlines()[-1]
    for training in trainings:
        for step in checkpoints.steps(training):
            state = checkpoints.load_state(checkpoints.step_folder(training, step))
            assert checkpoints.not_finite(state) == []


@pytest.mark.slow
def test_a_resumed_training_with_fewer_rollbacks_than_it_had_has_none_left(tiny_dataset: Path, tmp_path: Path) -> None:
    flags = attempts.flags(tiny_dataset, tmp_path / "t", **{**SMALL, "checkpoint_every": 30, "steps": 60})
    kill = [["saved", 1, signal.SIGKILL]]
    (first_code, _), (second_code, log) = attempts.run_all(
        [
            {"flags": flags, "poison": [[KERNEL, 10, 0], [KERNEL, 20, 1]], "plan": kill},
            {"flags": [*flags, "--rollbacks=1"], "poison": [[KERNEL, 40, 2]]},
        ]
    )
    assert (first_code, second_code) == (-signal.SIGKILL, errors.DEFECT), log
    assert re.search("at step 41, after 2 rollbacks; ", log.splitlines()[-1])
