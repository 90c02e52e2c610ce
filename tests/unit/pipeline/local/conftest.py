"""Plans and runs of the pipeline whose stages make manifests without files."""

import dataclasses
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.core import settings, stages
from components.core.artifacts import checkpoint_manifest, models
from components.core.artifacts.manifest import Manifest
from components.core.settings import Field
from components.core.stage import cache_key, cli
from components.core.stage.executor import ExecutorInput, StageResult
from components.core.storage import digests
from pipeline import step_table
from pipeline.local import plan
from pipeline.local.history import DONE, SKIPPED, UNCHANGED, History
from pipeline.local.processes import Copy
from pipeline.local.runner import Run
from pipeline.step_table import Step
from tests.inputs import artifacts

STEPS = step_table.steps()
FIELDS = step_table.PARAMETERS
DEFAULTS = {name: field.default for name, field in FIELDS.items()}
# The result of each cached stage, as outputs name it, and the setting of its folder.
CACHED_STAGES = {
    "preprocess": ("dataset", "dataset"),
    "train": ("checkpoint", "checkpoints"),
    "embed": ("embedding", "embedding"),
    "export": ("model", "model"),
}
DOWNSTREAM = {"preprocess": {"train", "embed", "export"}, "train": {"export"}}


@dataclasses.dataclass
class World:
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    source: str = "a"
    custom_embedding: str = ""
    initial_checkpoint: str = ""
    decision: str = "RUN"
    verdict: str = "PROMOTE"
    code: dict[str, str] = dataclasses.field(default_factory=dict)
    libraries: str = "1"


class Stages:
    """Stages that make a manifest at their key's location; its content follows from everything but the code."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.stopping, self.ran = world, threading.Event(), set[str]()
        self.session: Any = SimpleNamespace(folder=folder)

    def code(self, step: Step) -> str:
        return self.world.code.get(step.stage, "0")

    def maker(self, step: Step) -> dict[str, str]:
        return {"keras": self.world.libraries}

    def stop(self, signum: int) -> None:
        pass

    def run(self, step: Step, command: list[str], copy: Copy) -> int:
        executor, stage = ExecutorInput(command[-1]), step.stage
        executor.take_run([])
        outputs = self._make(stage, executor.parameters) if stage in CACHED_STAGES else self._answer()
        others = {name: kind() for name, kind in step.outputs.items()}
        executor.write_output(StageResult(parameters={**others, **outputs}))
        self.ran.add(stage)
        return 0

    def _make(self, stage: str, parameters: dict[str, Any]) -> dict[str, str]:
        config = cli.build(stages.config_of(stage), parameters)
        parts = cache_key.key_parts(stage, config, self.world.code.get(stage, "0"))
        name, setting = CACHED_STAGES[stage]
        folder = Path(getattr(config, setting), cache_key.key_of(parts))
        assert not folder.exists(), f"{stage} was started for what is there already"
        folder.mkdir(parents=True)
        manifest = _MANIFESTS[stage](digests.digest_of({**parts, "code": ""}))
        manifest.write(folder)
        if stage == "train":
            (folder / checkpoint_manifest.STATE).touch()
        return {f"{name}_uri": str(folder), f"{name}_digest": manifest.digest}

    def _answer(self) -> dict[str, Any]:
        """Return the outputs of the stages that run each time."""
        return {
            "source_fingerprint": self.world.source,
            "custom_embedding_digest": self.world.custom_embedding,
            "decision": self.world.decision,
            "initial_checkpoint": self.world.initial_checkpoint,
            "initial_checkpoint_digest": self.world.initial_checkpoint,
            "verdict": self.world.verdict,
            "version": 1,
        }


_NO_STATE = hashlib.sha256().hexdigest()
# By stage, and a digest that it must depend on.
_MANIFESTS: dict[str, Callable[[str], Manifest]] = {
    "preprocess": lambda digest: artifacts.dataset(source={"fingerprint": digest}),
    "train": lambda digest: artifacts.checkpoint(settings={"made": digest}, state_sha256=_NO_STATE),
    "embed": lambda digest: artifacts.embedding(dataset_digest=digest, files={}),
    "export": lambda digest: models.Manifest(
        files={}, checkpoint_digest=digest, step=1, image=artifacts.SHAPE, latent_size=1, classes=[], dataset_digest=""
    ),
}


class Home:
    """A root, and plans and runs there."""

    def __init__(self, folder: Path) -> None:
        self.root, self._scratch = folder / "runs", folder / "scratch"

    def values(self, world: World) -> dict[str, Any]:
        return {**DEFAULTS, "source": "digits", "root": str(self.root), **world.parameters}

    def plan(self, world: World) -> dict[str, tuple[str, str]]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        fake_stages = Stages(world, Path(tempfile.mkdtemp(dir=self._scratch)))
        rows = plan.plan(STEPS, self.values(world), self.root, fake_stages)  # type: ignore[arg-type]
        return {row.task: (row.outcome, row.why) for row in rows}

    def run(self, world: World) -> dict[str, str]:
        values, fake_stages = self.values(world), Stages(world, self.root)
        history = History(self.root, values)
        run = Run(STEPS, values, history, fake_stages)  # type: ignore[arg-type]
        assert run.execute() == 0
        states = {stage: task.state for stage, task in run.tasks.items()}
        assert fake_stages.ran == {name for name, state in states.items() if state == DONE}
        return states

    def run_as_planned(self, world: World) -> dict[str, str]:
        """Plan, run, and compare; return the state of each stage."""
        planned, states = self.plan(world), self.run(world)
        agreed = {plan.RUNS: [DONE], "was run": [DONE], UNCHANGED: [UNCHANGED], SKIPPED: [SKIPPED]}
        agreed[plan.MAYBE] = [DONE, UNCHANGED, SKIPPED]
        for name, (outcome, why) in planned.items():
            assert states[name] in agreed[outcome], f"{name}: {outcome}: {why}"
        return states


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def other_value(field: Field) -> Any:
    if field.setting.choices:
        return next(choice for choice in field.setting.choices if choice != field.default)
    if field.type is str:
        return "other"
    tried = (field.default + 1, field.default * 2, field.default / 2, field.default - 1, 0.5)
    typed = [field.type(value) for value in tried if value != field.default]
    return next(value for value in typed if not settings.field_problems(field, value))


# Other parameters that a parameter needs.
BESIDE: dict[str, dict[str, Any]] = {
    "custom_embedding": {"custom_embedding_name": "mine"},
    "custom_embedding_name": {"custom_embedding": "there", "custom_embedding_name": "yours"},
    "background": {"background": "black"},
    "height": {"height": 8, "width": 8},
    "width": {"height": 4, "width": 4},
    "batch_size": {"batch_size": 128},
    "reproducibility": {"virtual_shards": 1},
}
CHANGES: dict[str, dict[str, Any]] = {
    name: {name: other_value(field), **BESIDE.get(name, {})} for name, field in FIELDS.items() if name != "root"
}
