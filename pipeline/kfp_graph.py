"""The table of steps as a pipeline of kfp. Compiling it needs kfp alone, neither TensorFlow nor Beam."""

import contextlib
import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kfp import compiler, dsl
from kfp.dsl.graph_component import GraphComponent

from components.core import container_images, stages
from components.core.errors import ConfigError
from components.core.stage import executor
from pipeline import step_table
from pipeline.profiles.profile_file import Profile
from pipeline.profiles.targets import VERTEX
from pipeline.profiles.vertex import LAUNCHED, VertexStage
from pipeline.step_table import Condition, Step

_RUN_FACTS = {
    "id": dsl.PIPELINE_JOB_ID_PLACEHOLDER,
    "name": dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
    "created": dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
    "scheduled": dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
}


def compiled_package(image_of: Mapping[str, str], profile: Profile, defaults: Mapping[str, Any] | None = None) -> bytes:
    """Return the package (YAML): the same bytes for the same code, images by name, profile and new defaults."""
    train_image = container_images.TRAIN_IMAGES[profile.train_image]
    needed = dict.fromkeys((container_images.PREPROCESS, container_images.TRAIN, train_image))
    if missing := [name for name in needed if name not in image_of]:
        targets = " ".join(dict.fromkeys((container_images.PREPROCESS, "train-cpu", f"train-{profile.train_image}")))
        push = f'make push REGISTRY=... IMAGES="{targets}"'
        raise ConfigError(f"images has no {', '.join(missing)}: push all together with `{push}`")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        pipeline = _pipeline(image_of, profile)
        compiler.Compiler().compile(pipeline, str(path), pipeline_parameters=dict(defaults or {}) or None)
        return path.read_bytes()


def _pipeline(image_of: Mapping[str, str], profile: Profile) -> GraphComponent:
    """Return the pipeline, each stage in its image, given by name, with the profile's settings."""

    def wgan_gp(*placeholders: Any) -> None:
        """Everything is kept under `root`."""
        # On Vertex a job's name is its id, by which `wgan` finds the run's notes; its UUID is a number of its own.
        run = _RUN_FACTS | ({"id": dsl.PIPELINE_JOB_NAME_PLACEHOLDER} if profile.origin.target == VERTEX else {})
        values = step_table.values_of(dict(zip(parameters, placeholders, strict=True)), run)
        *steps, last = step_table.steps(profile.train_image)
        with dsl.ExitHandler(_task(last, values, image_of, profile), name="the run"), contextlib.ExitStack() as stack:
            conditions: tuple[Condition, ...] = ()
            for step in steps:
                for condition in step.conditions[len(conditions) :]:
                    holds = step_table.filled(condition.wire, values) == condition.value
                    stack.enter_context(dsl.If(holds, name=condition.name))
                conditions = step.conditions
                values[step.stage] = SimpleNamespace(**_task(step, values, image_of, profile).outputs)

    defaults = {**profile.parameters, **profile.hardware}
    parameters = {
        name: (field.type, defaults.get(name, field.default))
        for name, field in sorted(step_table.PARAMETERS.items(), key=lambda item: not item[1].required)
    }
    description = f"Trains a WGAN-GP, judges it, and publishes it if it is good. {profile.origin}"
    return dsl.pipeline(name=step_table.NAME, description=description)(_with_parameters(wgan_gp, parameters))


def _task(step: Step, values: Mapping[str, Any], image_of: Mapping[str, str], profile: Profile) -> dsl.PipelineTask:
    """Return a step as a task, with the hardware of its stage."""
    component = _component(step, image_of[step.image], profile)
    task = component(**{name: step_table.filled(wire, values) for name, wire in step.inputs.items()})
    if not step.cached:
        task.set_caching_options(False)
    profile.stages[step.stage].apply(task)
    return task


def _component(step: Step, image: str, profile: Profile) -> Any:
    """Build the container component of a step: each setting is an input, and its one argument the executor input."""
    fields, stage = step.fields(), profile.stages[step.stage]
    arguments = ["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
    container: dict[str, Any] = {"image": image, "command": stages.command(step.stage), "args": arguments}
    required = {field.name: field.type for field in fields if field.required}
    required |= dict.fromkeys(executor.RUN_INPUTS, str)
    if step.row.status:
        required[step.row.status] = dsl.PipelineTaskFinalStatus
    required |= {name: dsl.OutputPath(kind) for name, kind in step.outputs.items()}
    required |= {name: dsl.Output[getattr(dsl, kind)] for name, kind in step.row.artifacts.items()}
    if isinstance(stage, VertexStage) and stage.machine_type:
        container = stage.launcher(step.stage, container, profile.origin)
        required[LAUNCHED] = dsl.OutputPath(str)
    parameters = {name: (kind, dataclasses.MISSING) for name, kind in required.items()}
    parameters |= {field.name: (field.type, field.default) for field in fields if field.name not in required}

    def component(*_: Any) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(**container)

    component.__name__, component.__doc__ = step.stage, step.row.description
    return dsl.container_component(_with_parameters(component, parameters))


def _with_parameters(function: Callable[..., Any], parameters: Mapping[str, tuple[Any, Any]]) -> Callable[..., Any]:
    """Give a function the signature, all that kfp reads of it: names with types and defaults, `MISSING` for none."""
    declared, either = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, (kind, default) in parameters.items():
        default = inspect.Parameter.empty if default is dataclasses.MISSING else default
        declared.append(inspect.Parameter(name, either, default=default, annotation=kind))
    # `inspect.signature` takes this attribute first (PEP 362); typeshed does not list it for functions.
    function.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    return function
