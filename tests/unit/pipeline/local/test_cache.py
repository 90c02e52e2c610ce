"""Kept results: when a stage is not started again, when it is, and that `wgan plan` says so beforehand."""

import dataclasses
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core import settings, stages
from components.core.errors import ConfigError
from components.core.settings import Field
from components.core.stage import cache_key, cli
from components.core.stage.executor import ExecutorInput, StageResult
from components.core.storage import digests
from pipeline.local import plan
from pipeline.local.history import History
from pipeline.local.processes import Call
from pipeline.local.runner import DONE, SKIPPED, UNCHANGED, Run
from pipeline.package import parameters, shipped_package
from pipeline.package.reader import Task
from tests.unit.pipeline.conftest import Desk, Parts

PIPELINE = shipped_package.read()
TASKS = {task.name: task for task in PIPELINE.tasks}
FIELDS = PIPELINE.parameters
DEFAULTS = {name: field.default for name, field in FIELDS.items()}
# What each stage whose results are kept makes: the setting of its folder, the outputs that say where and what it is.
MADE = {
    "preprocess": ("dataset", "dataset_uri", "dataset_digest"),
    "train": ("checkpoints", "checkpoint_uri", "checkpoint_digest"),
    "embed": ("embedding", "embedding_uri", "embedding_digest"),
    "export": ("model", "model_uri", "model_digest"),
}
DOWNSTREAM = {"preprocess": {"train", "embed", "export"}, "train": {"export"}}


@dataclasses.dataclass
class World:
    """All that a run depends on."""

    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    source: str = "a"
    own_embedding: str = ""
    initial_checkpoint: str = ""
    decision: str = "RUN"
    verdict: str = "PROMOTE"
    code: dict[str, str] = dataclasses.field(default_factory=dict)
    libraries: str = "1"


class Stages:
    """Stages that make an empty folder at the place of their key, and whose content follows from all but the code."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.stopping, self.ran = world, threading.Event(), set[str]()
        self.session: Any = SimpleNamespace(folder=folder)

    def image(self, task: Task) -> str:
        return ""

    def code(self, task: Task) -> str:
        return self.world.code.get(task.name, "0")

    def maker(self, task: Task) -> dict[str, str]:
        return {"keras": self.world.libraries}

    def stop(self, signum: int) -> None:
        pass

    def run(self, call: Call) -> int:
        executor = ExecutorInput(call.words[-1])
        executor.take_run([])
        stage = call.task.stage
        made = self._make(stage, executor.parameters) if stage in MADE else self._answer(executor.parameters)
        others = {name: "" if kind == "STRING" else 0 for name, kind in call.task.output_types.items()}
        executor.write_output(StageResult(parameters={**others, **made}))
        self.ran.add(stage)
        return 0

    def _make(self, stage: str, given: dict[str, Any]) -> dict[str, str]:
        config = cli.build(stages.config_of(stage), given)
        parts = cache_key.key_parts(stage, config, self.world.code.get(stage, "0"))
        place, uri, digest = MADE[stage]
        folder = Path(cache_key.fill_key(getattr(config, place), parts))
        assert not folder.exists(), f"{stage} was started for what is there already"
        folder.mkdir(parents=True)
        return {uri: str(folder), digest: digests.digest_of({**parts, "code": ""})}

    def _answer(self, given: dict[str, Any]) -> dict[str, Any]:
        """What the stages say that are run each time."""
        return {
            "source_fingerprint": self.world.source,
            "own_embedding_digest": self.world.own_embedding,
            "decision": self.world.decision,
            "initial_checkpoint": self.world.initial_checkpoint,
            "initial_checkpoint_digest": self.world.initial_checkpoint,
            "verdict": self.world.verdict,
            "judged_checkpoint_uri": given.get("checkpoint", ""),
            "judged_checkpoint_digest": given.get("checkpoint_digest", ""),
            "version": 1,
        }


class Home:
    """A root, and plans and runs there."""

    def __init__(self, folder: Path) -> None:
        self.root, self._scratch = folder / "runs", folder / "scratch"

    def values(self, world: World) -> dict[str, Any]:
        return {**DEFAULTS, "source": "digits", "root": str(self.root), **world.parameters}

    def plan(self, world: World) -> dict[str, tuple[str, str]]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        place = Stages(world, Path(tempfile.mkdtemp(dir=self._scratch)))
        found = plan.plan(PIPELINE, self.values(world), self.root, place)  # type: ignore[arg-type]
        return {name: (outcome, why) for name, outcome, why in found}

    def run(self, world: World) -> dict[str, str]:
        """The state of each stage."""
        values, place = self.values(world), Stages(world, self.root)
        history = History(self.root, b"", values)
        run = Run(PIPELINE, values, self.root, history, place)  # type: ignore[arg-type]
        assert run.execute() == 0
        found = {task.name: progress.state for task, progress in run.progress.items()}
        assert place.ran == {name for name, state in found.items() if state == DONE}
        return found

    def run_as_planned(self, world: World) -> dict[str, str]:
        """Plans, runs, and compares; returns the state of each stage."""
        planned, found = self.plan(world), self.run(world)
        agreed = {
            plan.RUNS: (DONE,),
            "was run": (DONE,),
            UNCHANGED: (UNCHANGED,),
            SKIPPED: (SKIPPED,),
            plan.MAYBE: (DONE, UNCHANGED, SKIPPED),
        }
        for name, (outcome, why) in planned.items():
            assert found[name] in agreed[outcome], f"{name}: {outcome}: {why}"
        return found


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def other_value(field: Field) -> Any:
    """A valid value that is not the default."""
    if field.setting.choices:
        return next(choice for choice in field.setting.choices if choice != field.default)
    if field.type is str:
        return "other"
    tried = (field.default + 1, field.default * 2, field.default / 2, field.default - 1)
    return next(field.type(value) for value in tried if not settings.field_problems(field, field.type(value)))


# What a parameter needs beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "own_embedding": {"own_embedding_name": "mine"},
    "own_embedding_name": {"own_embedding": "there", "own_embedding_name": "yours"},
    "height": {"height": 8, "width": 8},
    "width": {"height": 4, "width": 4},
    "batch_size": {"batch_size": 128},
    "reproducibility": {"virtual_shards": 1},
}
CHANGES: dict[str, dict[str, Any]] = {
    name: {name: other_value(field), **BESIDE.get(name, {})} for name, field in FIELDS.items() if name != "root"
}


def stages_that_a_change_reaches(changed: dict[str, Any]) -> set[str]:
    """Read off the configurations: whose deciding settings change, and what uses what those make."""
    direct = set()
    for stage in MADE:
        deciding = {field.name for field in settings.fields_of(stages.config_of(stage)) if field.setting.in_key}
        direct |= {stage} if deciding & changed.keys() else set()
    return direct.union(*(DOWNSTREAM.get(stage, set()) for stage in direct))


def test_a_parameter_starts_the_stages_that_it_reaches_and_no_others(home: Home) -> None:
    home.run_as_planned(World())
    for name, changed in CHANGES.items():
        reached = stages_that_a_change_reaches(changed)
        found = home.run_as_planned(World(parameters=changed))
        assert {stage for stage in MADE if found[stage] == DONE} == reached, name


def possible(changed: dict[str, Any]) -> bool:
    try:
        parameters.parse(PIPELINE, {"source": "a", "root": "b"} | {name: str(v) for name, v in changed.items()}, [])
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
        own_embedding=st.sampled_from(["", "b"]),
        initial_checkpoint=st.sampled_from(["", "b"]),
        decision=st.sampled_from(["RUN", "RUN", "RUN", "SKIP"]),
        verdict=st.sampled_from(["PROMOTE", "HOLD"]),
        code=st.dictionaries(st.sampled_from(sorted(TASKS)), st.sampled_from("12"), max_size=2),
        libraries=st.sampled_from("12"),
    )


@given(st.lists(st.tuples(worlds(), st.sampled_from(["", *MADE])), min_size=2, max_size=3))
def test_plan_and_run_agree_whatever_changed_in_between(steps: list[tuple[World, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for world, lost in steps:
            found = home.run_as_planned(world)
            again = home.run_as_planned(dataclasses.replace(world, libraries="other"))
            ended = {name: SKIPPED if found[name] == SKIPPED else UNCHANGED for name in MADE}
            assert {name: again[name] for name in MADE} == ended
            if lost:
                shutil.rmtree(home.root / {"train": "checkpoints"}.get(lost, f"{MADE[lost][0]}s"), ignore_errors=True)


def test_plan_says_why(home: Home) -> None:
    def names(found: tuple[str, str]) -> tuple[str, set[str]]:
        return found[0], {*re.findall(r"\w+", found[1])} & {"dataset", "checkpoint", "evaluate", *MADE}

    world = World()
    assert home.plan(world)["preprocess"][0] == "runs"
    assert not home.root.exists()
    home.run(world)
    usual = home.plan(world)
    assert usual["train"][0] == "unchanged"
    assert usual["evaluate"] == ("runs", "always")
    assert names(usual["export"]) == ("perhaps", {"checkpoint", "evaluate"})
    assert usual["publish"] == ("perhaps", "decided by the verdict of evaluate")

    def why(stage: str, **changes: Any) -> tuple[str, str]:
        return home.plan(dataclasses.replace(world, **changes))[stage]

    assert why("train", parameters={"steps": 20}) == ("runs", "steps: 20000 -> 20")
    assert why("preprocess", source="b") == ("runs", "source_fingerprint: a -> b")
    assert names(why("train", source="b")) == ("perhaps", {"dataset", "preprocess"})
    assert why("preprocess", code={"preprocess": "1"}) == ("runs", "its code changed")
    assert why("train", decision="SKIP") == ("skipped", "decision SKIP")
    assert why("publish", decision="SKIP") == ("skipped", "decision SKIP")
    state, reason = why("embed", libraries="2")
    assert (state, reason.rpartition("(")[2]) == ("unchanged", "decides nothing: keras: 1 -> 2)")
    (dataset,) = (home.root / "datasets").iterdir()
    dataset.rmdir()
    state, reason = why("preprocess")
    assert (state, reason.endswith(f" gone: {dataset}")) == ("runs", True)


def test_what_another_run_kept_is_found_again_and_differences_are_told_against_the_latest(home: Home) -> None:
    for steps in (10, 20):
        home.run(World(parameters={"steps": steps}))
    assert home.run(World(parameters={"steps": 10}))["train"] == UNCHANGED
    assert home.plan(World(parameters={"steps": 30}))["train"] == ("runs", "steps: 20 -> 30")


def test_a_stage_that_is_not_started_is_noted_with_its_outputs(home: Home) -> None:
    for _ in range(2):
        home.run(World())
    notes = [json.loads(note.read_text()) for note in (home.root / "records" / "wgan-gp-0002").iterdir()]
    assert {note["stage"]: note["state"] for note in notes} == dict.fromkeys(MADE, "kept")
    assert all(note["outputs"] for note in notes)


def test_plan_leaves_conditions_to_the_run(desk: Desk, parts: Parts) -> None:
    from kfp import dsl

    def gated(ask: str) -> None:
        judged = parts.shell(script='printf "%s" "$1" > "$2"', text=ask)
        with dsl.If(judged.output == "yes"):
            parts.shell(script='printf x > "$2"')
        with dsl.If(ask == "yes"):
            parts.shell(script='printf y > "$2"')

    done = desk.run(desk.compile(gated), "--ask", "no", verb="plan")
    assert sorted(line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]) == [
        ["shell", "runs", "always"],
        ["shell-2", "perhaps", "decided by the out of shell"],
        ["shell-3", "skipped", "ask no"],
    ]
