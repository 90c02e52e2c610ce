"""The compiled package: the edges, the same bytes, no heavy import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import settings, stages
from pipeline.compile import compiled_package
from pipeline.package import reader
from pipeline.package.reader import Condition, FinalStatus, Output, Parameter


@pytest.fixture(scope="module")
def compiled() -> reader.Package:
    return reader.read(compiled_package(), "the pipeline")


@pytest.fixture(scope="module")
def tasks(compiled: reader.Package) -> dict[str, reader.Task]:
    return {task.name: task for task in compiled.tasks}


def test_conditions_and_the_exit_handler(tasks: dict[str, reader.Task]) -> None:
    decision = Condition(Output(tasks["decide"], "decision"), "RUN")
    verdict = Condition(Output(tasks["evaluate"], "verdict"), "PROMOTE")
    assert {name: task.conditions for name, task in tasks.items() if task.conditions} == {
        **dict.fromkeys(("preprocess", "embed", "train", "evaluate", "export"), (decision,)),
        "publish": (decision, verdict),
    }
    assert [name for name, task in tasks.items() if task.exit_handler] == ["record"]
    others = tuple(task for name, task in tasks.items() if name != "record")
    assert tasks["record"].inputs["status"] == FinalStatus("exit-handler-1", others)
    assert tasks["record"].needs == others


def test_what_is_exported_is_what_was_judged(tasks: dict[str, reader.Task]) -> None:
    for name, output in (("checkpoint", "checkpoint_uri"), ("checkpoint_digest", "checkpoint_digest")):
        assert tasks["export"].inputs[name] == tasks["evaluate"].inputs[name] == Output(tasks["train"], output)


def test_what_depends_on_the_world_is_not_cached_and_every_stage_is_tried_again(
    tasks: dict[str, reader.Task],
) -> None:
    assert {name for name, task in tasks.items() if not task.cached} == {*("decide", "evaluate", "publish", "record")}
    assert {name for name, task in tasks.items() if task.retries.count == 2} == tasks.keys()


def test_settings_keep_their_names_and_only_source_and_root_are_required(
    compiled: reader.Package, tasks: dict[str, reader.Task]
) -> None:
    for task in tasks.values():
        for name, source in task.inputs.items():
            if isinstance(source, Parameter):
                assert source.name == {"results": "root"}.get(name, name)
    assert {name for name, field in compiled.parameters.items() if field.required} == {"source", "root"}


def test_settings_reach_the_stages_with_their_defaults(compiled: reader.Package, tasks: dict[str, reader.Task]) -> None:
    for name in ("preprocess", "train", "embed", "evaluate"):
        for field in settings.fields_of(stages.config_of(name)):
            if field.name in compiled.parameters and not field.required:
                known = compiled.parameters[field.name]
                assert (known.type, known.default) == (field.type, field.default), f"{name}.{field.name}"


@pytest.mark.parametrize(
    "flags", [(), ("--profile", "tpu-v5e-4-spot"), ("--target", "vertex", "--profile", "tpu-v5e-8")]
)
def test_same_input_gives_same_bytes_without_tensorflow_and_beam(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "apache_beam", "numpy", "google.cloud.storage"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from pipeline.__main__ import main
sys.exit(main(["compile", "--allow_tags", "--output", *sys.argv[1:]]))
"""
    written = []
    for seed in ("0", "1"):
        path = tmp_path / seed / "package.yaml"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program, str(path), *flags]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert found.returncode == 0, found.stderr
        written.append(path.read_bytes())
    assert written[0] == written[1]
