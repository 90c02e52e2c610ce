"""The Kubeflow component of a stage, built from its configuration: each field is an input."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kfp import dsl

from components.core import settings, stages
from components.core.container_images import image
from components.core.stage import executor

_SUMMARY = "summary"  # an output of every stage: one line for people


def component_of(
    stage: str,
    description: str,
    outputs: Mapping[str, Any],
    *,
    runs_in: str,
    inputs: Mapping[str, Any] | None = None,
) -> Any:
    """Build the container component of a stage, whose one argument is Kubeflow's executor input.

    Args:
        outputs: The type of each output but the summary: `str`, `int` or a kfp artifact.
        runs_in: Its image in `components.core.container_images`.
        inputs: Settings that Kubeflow fills in, and kfp's types for them.
    """
    fields = settings.fields_of(stages.config_of(stage))
    required = {field.name: field.type for field in fields if field.required}
    required |= {**dict.fromkeys(executor.OF_THE_RUN, str), **(inputs or {})}
    required |= {name: _output(kind) for name, kind in {**outputs, _SUMMARY: str}.items()}
    optional = [field for field in fields if field.name not in required]
    parameters = [parameter(name, kind) for name, kind in required.items()]
    parameters += [parameter(field.name, field.type, field.default) for field in optional]

    def component(*_: Any) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(
            image=image(runs_in),
            command=["python", "-m", f"components.{stage}"],
            args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
        )

    component.__name__, component.__doc__ = stage, description
    return dsl.container_component(with_parameters(component, parameters))


def with_parameters(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> Callable[..., Any]:
    """Give a function the signature that kfp reads."""
    # `inspect.signature` takes this attribute first (PEP 362); typeshed does not list it for functions.
    function.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    return function


def _output(kind: Any) -> Any:
    return dsl.OutputPath(kind) if kind in (str, int, float) else dsl.Output[kind]


def parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Declare a parameter of a signature; kfp reads nothing else of a component or a pipeline."""
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
