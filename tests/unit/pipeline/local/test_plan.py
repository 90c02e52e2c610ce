"""When a cached result makes a stage unnecessary; `wgan plan` predicts what the run does, and why."""

import dataclasses
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from components.core import stages
from components.core.errors import ConfigError
from components.core.settings import fields_of
from pipeline.local import plan
from pipeline.local.history import DONE, SKIPPED, UNCHANGED
from pipeline.package import parameters
from tests.unit.pipeline.local.conftest import CACHED_STAGES, CHANGES, DOWNSTREAM, FIELDS, STEPS, Home, World


def possible(changed: dict[str, Any]) -> bool:
    try:
        texts = {"source": "a", "root": "b"} | {name: str(value) for name, value in changed.items()}
        parameters.parse(FIELDS, STEPS, texts, [])
    except ConfigError:
        return False
    return True


def worlds() -> st.SearchStrategy[World]:
    names = st.lists(st.sampled_from(sorted(CHANGES)), max_size=2)
    changed = names.map(lambda chosen: {key: value for name in chosen for key, value in CHANGES[name].items()})
    return st.builds(
        World,
        parameters=changed.filter(possible),
        source=st.sampled_from("ab"),
        custom_embedding=st.sampled_from(["", "b"]),
        initial_checkpoint=st.sampled_from(["", "b"]),
        decision=st.sampled_from(["RUN", "RUN", "RUN", "SKIP"]),
        verdict=st.sampled_from(["PROMOTE", "HOLD"]),
        code=st.dictionaries(st.sampled_from([step.stage for step in STEPS]), st.sampled_from("12"), max_size=2),
        libraries=st.sampled_from("12"),
    )


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.tuples(worlds(), st.sampled_from(["", *CACHED_STAGES])), min_size=2, max_size=3))
def test_plan_and_run_agree_after_any_change(steps: list[tuple[World, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for world, lost in steps:
            states = home.run_as_planned(world)
            repeated = home.run_as_planned(dataclasses.replace(world, libraries="other"))
            expected = {name: SKIPPED if states[name] == SKIPPED else UNCHANGED for name in CACHED_STAGES}
            assert {name: repeated[name] for name in CACHED_STAGES} == expected
            if lost:
                shutil.rmtree(home.root / f"{CACHED_STAGES[lost][0]}s", ignore_errors=True)


def test_a_root_can_be_copied_and_moved(home: Home, tmp_path: Path) -> None:
    home.run(World())
    copy = Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    for manifest in home.root.glob("*/*/*.json"):
        manifest.write_bytes(b"the copy reads nothing here")
    assert {copy.run_as_planned(World())[name] for name in CACHED_STAGES} == {UNCHANGED}
    shutil.rmtree(home.root)
    copy.root.rename(home.root)
    assert {home.run_as_planned(World())[name] for name in CACHED_STAGES} == {UNCHANGED}


def test_plan_says_why(home: Home) -> None:
    world = World()
    assert home.plan(world)["preprocess"][0] == "runs"
    assert not home.root.exists()
    home.run(world)
    usual = home.plan(world)
    assert usual["train"][0] == usual["export"][0] == "unchanged"
    assert usual["evaluate"] == ("runs", "always")
    assert usual["publish"] == ("perhaps", "decided by the verdict of evaluate")

    def why(stage: str, **changes: Any) -> tuple[str, str]:
        return home.plan(dataclasses.replace(world, **changes))[stage]

    assert why("train", parameters={"steps": 20}) == ("runs", "steps: 10000 -> 20")
    assert why("preprocess", source="b") == ("runs", "source_fingerprint: a -> b")
    state, reason = why("train", source="b")
    assert (state, {"dataset", "preprocess"} < {*re.findall(r"\w+", reason)}) == ("perhaps", True)
    assert why("preprocess", code={"preprocess": "1"}) == ("runs", "its code changed")
    assert why("train", decision="SKIP") == ("skipped", "decision SKIP")
    state, reason = why("embed", libraries="2")
    assert (state, reason.rpartition("(")[2]) == ("unchanged", "decides nothing: keras: 1 -> 2)")
    for stage, name in (("train", "state.npz"), ("embed", "embedding.json")):
        (file,) = home.root.rglob(name)
        whole = file.read_bytes()
        file.write_bytes(b"damage")
        state, reason = why(stage)
        assert (state, name in reason) == ("runs", True)
        file.write_bytes(whole)
    (dataset,) = (home.root / "datasets").iterdir()
    shutil.rmtree(dataset)
    state, reason = why("preprocess")
    assert (state, f"no dataset at {dataset}: " in reason) == ("runs", True)


def test_a_parameter_starts_the_stages_that_it_reaches_and_no_others(home: Home) -> None:
    """A run that keeps results is needed only once for each choice of stages: a plan says the same of the others."""
    home.run_as_planned(World())
    fields = {stage: fields_of(stages.config_of(stage)) for stage in CACHED_STAGES}
    deciding = {stage: {field.name for field in fields[stage] if field.setting.in_key} for stage in CACHED_STAGES}
    run: list[set[str]] = []
    for name, changed in CHANGES.items():
        direct = {stage for stage in CACHED_STAGES if deciding[stage] & changed.keys()}
        reached = direct.union(*(DOWNSTREAM.get(stage, set()) for stage in direct))
        planned = home.plan(World(parameters=changed))
        assert {stage for stage in CACHED_STAGES if planned[stage][0] == plan.RUNS} == direct, name
        assert {stage for stage in CACHED_STAGES if planned[stage][0] != UNCHANGED} == reached, name
        if direct not in run:
            run.append(direct)
            states = home.run_as_planned(World(parameters=changed))
            assert {stage for stage in CACHED_STAGES if states[stage] == DONE} == reached, name


def test_what_another_run_kept_is_found_again_and_differences_are_reported_against_the_latest(home: Home) -> None:
    for steps in (10, 20):
        home.run(World(parameters={"steps": steps}))
    assert home.run(World(parameters={"steps": 10}))["train"] == UNCHANGED
    assert home.plan(World(parameters={"steps": 30}))["train"] == ("runs", "steps: 20 -> 30")


def test_a_stage_that_is_not_started_is_noted_with_its_outputs(home: Home) -> None:
    for _ in range(2):
        home.run(World())
    notes = [json.loads(note.read_text()) for note in (home.root / "records" / "wgan-gp-0002").iterdir()]
    assert {note["stage"]: note["state"] for note in notes} == dict.fromkeys(CACHED_STAGES, "reused")
    assert all(note["outputs"] for note in notes)
