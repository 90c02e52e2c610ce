"""Cached results: when a stage is not started again, when it is, and that `wgan plan` predicts it."""

import json
from typing import Any

from components.core import settings, stages
from pipeline.local.history import DONE, UNCHANGED
from tests.unit.pipeline.local.conftest import CHANGES, DOWNSTREAM, MADE, Home, World


def stages_that_a_change_reaches(changed: dict[str, Any]) -> set[str]:
    """Return the stages that a change affects, from the configurations: by deciding settings and dependencies."""
    direct = set()
    for stage in MADE:
        deciding = {field.name for field in settings.fields_of(stages.config_of(stage)) if field.setting.in_key}
        direct |= {stage} if deciding & changed.keys() else set()
    return direct.union(*(DOWNSTREAM.get(stage, set()) for stage in direct))


def test_a_parameter_starts_the_stages_that_it_reaches_and_no_others(home: Home) -> None:
    home.run_as_planned(World())
    for name, changed in CHANGES.items():
        reached = stages_that_a_change_reaches(changed)
        states = home.run_as_planned(World(parameters=changed))
        assert {stage for stage in MADE if states[stage] == DONE} == reached, name


def test_what_another_run_kept_is_found_again_and_differences_are_reported_against_the_latest(home: Home) -> None:
    for steps in (10, 20):
        home.run(World(parameters={"steps": steps}))
    assert home.run(World(parameters={"steps": 10}))["train"] == UNCHANGED
    assert home.plan(World(parameters={"steps": 30}))["train"] == ("runs", "steps: 20 -> 30")


def test_a_stage_that_is_not_started_is_noted_with_its_outputs(home: Home) -> None:
    for _ in range(2):
        home.run(World())
    notes = [json.loads(note.read_text()) for note in (home.root / "records" / "wgan-gp-0002").iterdir()]
    assert {note["stage"]: note["state"] for note in notes} == dict.fromkeys(MADE, "reused")
    assert all(note["outputs"] for note in notes)
