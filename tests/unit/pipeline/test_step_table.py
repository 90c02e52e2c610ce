"""The table of steps, and the package that kfp makes of it: both mean the same."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.core import container_images
from pipeline import step_table
from pipeline.local import values
from pipeline.local.values import Values
from pipeline.profiles.targets import KFP
from tests.fakes.kubeflow import interpreter
from tests.fakes.kubeflow.interpreter import Resolver, final_status
from tests.unit.pipeline.packages import DIGESTS, PROFILES, package_of

STEPS = {step.stage: step for step in step_table.STEPS}
RUN = {"id": "run-7", "name": "a run", "created": "then", "scheduled": "now"}
read = functools.cache(interpreter.read)
_PLACEHOLDERS = {
    "id": "$.pipeline_job_uuid",
    "name": "$.pipeline_job_resource_name",
    "created": "$.pipeline_job_create_time_utc",
    "scheduled": "$.pipeline_job_schedule_time_utc",
}


def test_what_is_exported_is_what_was_judged() -> None:
    for name in ("checkpoint", "checkpoint_digest"):
        assert STEPS["export"].inputs[name] == STEPS["evaluate"].inputs[name]


def test_settings_keep_their_names_and_only_source_and_root_are_required() -> None:
    for step in STEPS.values():
        for name, wire in step.inputs.items():
            if (parameter := str(wire).strip("{}")) in step_table.PARAMETERS:
                assert parameter == {"results": "root"}.get(name, name)
    assert {name for name, field in step_table.PARAMETERS.items() if field.required} == {"source", "root"}


def test_settings_reach_the_stages_with_their_defaults() -> None:
    for name in ("preprocess", "train", "embed", "evaluate"):
        for field in STEPS[name].fields():
            if (parameter := step_table.PARAMETERS.get(field.name)) and not field.required:
                assert (parameter.type, parameter.default) == (field.type, field.default), f"{name}.{field.name}"


@pytest.mark.parametrize("profile", ["cpu", "gpu-l4", "tpu-v5e-8"])
@pytest.mark.parametrize(("decision", "verdict"), [("RUN", "PROMOTE"), ("RUN", "HOLD"), ("SKIP", "")])
def test_a_package_gives_what_the_local_runner_gives(profile: str, decision: str, verdict: str, tmp_path: Path) -> None:
    """The interpreter reads what kfp wrote, and knows nothing of the table."""
    package = read(package_of(profile, KFP))
    parameters: dict[str, Any] = {name: 0.125 if kind == "NUMBER_DOUBLE" else 3 for name, kind in package.types.items()}
    parameters |= {name: f"the {name}" for name, kind in package.types.items() if kind == "STRING"}
    chosen = {"decision": decision, "verdict": verdict}
    outputs: dict[str, dict[str, Any]] = {}
    resolver = Resolver(parameters, outputs, {_PLACEHOLDERS[name]: value for name, value in RUN.items()})
    resolved = Values(parameters, RUN["name"])
    resolved._values = step_table.values_of(parameters, RUN)
    steps = {step.stage: step for step in step_table.steps(PROFILES[profile, KFP].train_image)}
    tasks = {task.name: task for task in package.tasks}
    assert tasks.keys() == steps.keys()
    for name, step in steps.items():
        task = tasks[name]
        assert (task.exit_handler, task.cached) == (step.always, step.cached)
        assert (task.retries, task.wait) == (step.retries, step.first_wait)
        assert task.container["image"] == DIGESTS[step.image]
        if all(need in outputs for need in step.needs if not step.always):
            holds = resolver.is_met(task)
            assert holds == (not resolved.unmet_condition(step))
            status = {key for key, source in task.inputs.items() if source is final_status}
            assert status == ({step.row.status} if step.row.status else set())
            inputs = {key: value for key, value in resolver.inputs(task).items() if key not in status}
            assert inputs == resolved.inputs(step)
            message = values.executor_input(step, inputs, tmp_path)
            assert message == interpreter.executor_input(task, inputs, tmp_path)
            assert step.command(message) == interpreter.command(task, message)
            if holds:
                outputs[name] = {key: f"{name} {key}" if kind is str else 12345 for key, kind in step.outputs.items()}
                outputs[name] |= {key: value for key, value in chosen.items() if key in outputs[name]}
                resolved.add(step, outputs[name])
    ran = ["decide", "preprocess", "embed", "train", "evaluate", "export", "publish", "record"]
    assert [*outputs] == (ran if verdict == "PROMOTE" else [*ran[:6], "record"] if verdict else ["decide", "record"])


def test_a_task_of_a_package_waits_for_what_its_step_needs() -> None:
    tasks = {task.name: task for task in read(package_of("cpu", KFP)).tasks}

    def all_before(name: str, needs: dict[str, Any]) -> set[str]:
        return {*needs[name]}.union(*(all_before(need, needs) for need in needs[name]))

    by_step, by_task = ({name: [*node.needs] for name, node in nodes.items()} for nodes in (STEPS, tasks))
    for name in STEPS:
        assert all_before(name, by_step) == all_before(name, by_task)


def test_another_process_writes_the_same_bytes_without_tensorflow_and_beam(tmp_path: Path) -> None:
    """Its hashes of texts have another seed."""
    program = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "apache_beam", "numpy", "google.cloud.storage"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from pipeline.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
    images = tmp_path / "images.json"
    images.write_text(json.dumps({"schema_version": 1, "version": container_images.VERSION, "images": DIGESTS}))
    words = ["compile", "--images", str(images), "--output", str(tmp_path / "package"), "--profile", "tpu-v5e-8"]
    process = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "package").read_bytes() == package_of("tpu-v5e-8", KFP)
