"""Pipelines as Kubeflow takes them: read from an upload, checked by its protos, and compiled for a run."""

import io
import re
from collections.abc import Iterator
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from tests.contract_server import refusals

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_SCHEMA = "2.1.0"
_EXTENSIONS = (".yaml", ".yml", ".json")
# Since which version of the server a setting for Kubernetes is known.
_SINCE = {"emptyDirMounts": (2, 3), "securityContext": (2, 16)}
_TYPES = {
    "NUMBER_DOUBLE": "double or integer",
    "NUMBER_INTEGER": "double or integer",
    "STRING": "string",
    "BOOLEAN": "bool",
    "LIST": "list",
    "STRUCT": "struct",
}

Spec = dict[str, Any]


class SyntaxNeverAnsweredError(Exception):
    """The real server would read this file for ever."""


def read(name: str, text: bytes) -> Spec:
    """Reads an uploaded file: the pipeline, or the pipeline and its settings for a platform under a key each.

    Raises:
        Refusal: The server would refuse it.
        SyntaxNeverAnsweredError: The server would not answer.
    """
    if not name.endswith(_EXTENSIONS):
        raise refusals.invalid("Unexpected pipeline file format. Support .zip, .tar.gz, .json or YAML")
    try:
        documents = [document for document in yaml.safe_load_all(io.BytesIO(text)) if document is not None]
    except yaml.YAMLError as error:
        raise SyntaxNeverAnsweredError from error
    pipelines = [document for document in documents if isinstance(document, dict) and "pipelineInfo" in document]
    platforms = [document for document in documents if isinstance(document, dict) and "platforms" in document]
    if len(pipelines) != 1 or len(platforms) > 1 or len(pipelines) + len(platforms) != len(documents):
        raise refusals.internal("Failed to parse the pipeline", "unknown template format: pipeline spec is invalid")
    spec = {"pipeline_spec": pipelines[0], "platform_spec": platforms[0]} if platforms else pipelines[0]
    try:
        check(spec)
    except refusals.Refusal as refusal:
        raise refusals.internal("Failed to parse the pipeline", refusal.message) from None
    return plain(spec)


def plain(value: Any) -> Any:
    """JSON as Go writes it: a number without a fraction has no point."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def documents(spec: Spec) -> tuple[Spec, Spec]:
    """The pipeline, and its settings for a platform; empty without."""
    return (spec["pipeline_spec"], spec.get("platform_spec", {})) if "pipeline_spec" in spec else (spec, {})


def check(spec: Spec) -> None:
    """Refuses what is no pipeline.

    Raises:
        Refusal: It is none.
    """
    pipeline, platform = documents(spec)
    try:
        found = json_format.ParseDict(pipeline, pipeline_spec_pb2.PipelineSpec())
        json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    except json_format.ParseError as error:
        raise refusals.invalid(f"invalid v2 pipeline spec: {error}") from None
    if found.schema_version != _SCHEMA:
        raise refusals.invalid(f"unsupported schema version {found.schema_version}, only {_SCHEMA} is supported")
    if not found.pipeline_info.name:
        raise refusals.invalid("invalid v2 pipeline spec: name is empty")
    if not _NAME.fullmatch(found.pipeline_info.name):
        raise refusals.invalid(
            "invalid v2 pipeline spec: name should consist of lower case alphanumeric characters and dashes"
        )
    if not found.HasField("root"):
        raise refusals.invalid("invalid v2 pipeline spec: root component is empty")


def check_parameters(spec: Spec, values: dict[str, Any]) -> None:
    """Refuses parameters that the pipeline cannot be run with.

    Raises:
        Refusal: One is missing, unknown or of another type.
    """
    pipeline, _ = documents(spec)
    defined = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    for name, parameter in defined.items():
        if name in values:
            _check_type(name, parameter.get("parameterType", "STRING"), values[name])
        elif not parameter.get("isOptional") and "defaultValue" not in parameter:
            raise refusals.invalid(
                f"parameter {name} is not optional, yet has neither default value nor user provided value"
            )
    unknown = [name for name in values if name not in defined]
    if unknown:
        raise refusals.invalid(f"parameter(s) provided are not required by pipeline: {', '.join(unknown)}")


def _check_type(name: str, kind: str, value: Any) -> None:
    kinds: dict[str, tuple[type, ...]] = {"STRING": (str,), "BOOLEAN": (bool,), "LIST": (list,), "STRUCT": (dict,)}
    wanted = kinds.get(kind, (int, float))
    if isinstance(value, wanted) and (kind == "BOOLEAN" or not isinstance(value, bool)):
        return
    noun, short = ("parameter value", "number") if wanted == (int, float) else ("input parameter", _TYPES[kind])
    raise refusals.invalid(
        f"input parameter {name} requires type {_TYPES[kind]}, but the {noun} is not of {short} value type"
    )


def compile_for_run(spec: Spec, version: tuple[int, int]) -> None:
    """Refuses what uploads well, but makes no workflow.

    Args:
        spec: The pipeline, and its settings.
        version: The server's, which knows no newer settings.

    Raises:
        Refusal: No workflow can be made of it.
    """
    pipeline, platform = documents(spec)
    executors = pipeline.get("deploymentSpec", {}).get("executors", {})
    try:
        deployment = {"executors": executors}
        json_format.ParseDict(deployment, pipeline_spec_pb2.PipelineDeploymentConfig())
    except json_format.ParseError as error:
        raise _not_compiled(str(error)) from None
    used = set(_executors(pipeline, pipeline["root"], "root", ()))
    unknown = sorted(used - set(executors))
    if unknown:
        raise _not_compiled(f"cannot find executor {unknown[0]}")
    kubernetes = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    for label in sorted(used & set(kubernetes)):
        _check_settings(kubernetes[label], version)


def _not_compiled(cause: str) -> refusals.Refusal:
    return refusals.internal("Failed to compile the pipeline to a workflow", cause)


def _executors(pipeline: Spec, component: Spec, name: str, above: tuple[str, ...]) -> Iterator[str]:
    """The executors of a component and of those within it."""
    if name in above:
        raise _not_compiled(f"DAG has a cycle: component {name} is within itself")
    if "dag" not in component:
        yield component.get("executorLabel", "")
        return
    tasks = component["dag"].get("tasks", {})
    _check_order(name, tasks)
    for task_name, task in tasks.items():
        reference = task.get("componentRef", {}).get("name", "")
        if reference not in pipeline.get("components", {}):
            raise _not_compiled(
                f'processing component name="{name}": task name="{task_name}": component "{reference}" not found'
            )
        yield from _executors(pipeline, pipeline["components"][reference], reference, (*above, name))


def _check_order(name: str, tasks: dict[str, Spec]) -> None:
    """Refuses tasks that wait for each other or for one that is not there."""
    waiting = {task_name: _upstream(task) for task_name, task in tasks.items()}
    while waiting:
        free = [task_name for task_name, upstream in waiting.items() if not upstream & set(waiting)]
        if not free:
            raise _not_compiled(f'processing component name="{name}": DAG has a cycle')
        for task_name in free:
            unknown = sorted(waiting.pop(task_name) - set(tasks))
            if unknown:
                raise _not_compiled(f'task name="{task_name}": cannot find task "{unknown[0]}"')


def _upstream(task: Spec) -> set[str]:
    inputs = task.get("inputs", {})
    sources = [*inputs.get("parameters", {}).values(), *inputs.get("artifacts", {}).values()]
    named = [
        source[kind]["producerTask"]
        for source in sources
        for kind in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus")
        if "producerTask" in source.get(kind, {})
    ]
    return {*task.get("dependentTasks", []), *named}


def _check_settings(settings: Spec, version: tuple[int, int]) -> None:
    """Refuses what the server's protos do not know of Kubernetes."""
    known = {
        form
        for field in kubernetes_executor_config_pb2.KubernetesExecutorConfig.DESCRIPTOR.fields
        for form in (field.name, field.json_name)
    }
    for name in settings:
        if name not in known or version < _SINCE.get(name, (0, 0)):
            raise _not_compiled(f'failed to unmarshal kubernetes config: proto: (line 1:2): unknown field "{name}"')
    try:
        json_format.ParseDict(settings, kubernetes_executor_config_pb2.KubernetesExecutorConfig())
    except json_format.ParseError as error:
        raise _not_compiled(f"failed to unmarshal kubernetes config: {error}") from None
