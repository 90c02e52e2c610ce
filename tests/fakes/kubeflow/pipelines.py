"""Pipelines on Kubeflow: parsed from an upload, checked by its protos, and for a run by its parameters."""

import re
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from tests.fakes.kubeflow.requests import internal, invalid

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
# The server version that introduced each setting for Kubernetes.
_SINCE = {"emptyDirMounts": (2, 3), "securityContext": (2, 16)}
_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    **{"NUMBER_DOUBLE": _NUMBER, "NUMBER_INTEGER": _NUMBER, "STRING": (str,), "BOOLEAN": (bool,)},
    **{"LIST": (list,), "STRUCT": (dict,)},
}

Spec = dict[str, Any]


def read(name: str, text: bytes) -> Spec:
    """Parse an uploaded file: the pipeline, or pipeline and platform settings under a key each."""
    if not name.endswith((".yaml", ".yml", ".json")):
        raise invalid("Unexpected pipeline file format. Support .zip, .tar.gz, .json or YAML")
    try:
        documents = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document is not None]
    except yaml.YAMLError as error:
        raise internal(f"the real server never answers this: {error}") from None
    pipelines = [document for document in documents if isinstance(document, dict) and "pipelineInfo" in document]
    platforms = [document for document in documents if isinstance(document, dict) and "platforms" in document]
    if len(pipelines) != 1 or len(platforms) > 1 or len(pipelines) + len(platforms) != len(documents):
        raise internal("Failed to parse the pipeline: unknown template format: pipeline spec is invalid")
    spec = {"pipeline_spec": pipelines[0], "platform_spec": platforms[0]} if platforms else pipelines[0]
    check(pipelines[0], platforms[0] if platforms else {})
    return spec


def check(pipeline: Spec, platform: Spec) -> None:
    """Refuse what is no pipeline, or no settings of a platform, by Kubeflow's messages."""
    try:
        spec = json_format.ParseDict(pipeline, pipeline_spec_pb2.PipelineSpec())
        json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    except json_format.ParseError as error:
        raise internal(f"Failed to parse the pipeline: {error}") from None
    if spec.schema_version != "2.1.0" or not _NAME.fullmatch(spec.pipeline_info.name) or not spec.HasField("root"):
        raise internal("Failed to parse the pipeline: it has no root, a bad name or another schema version")


def check_run(spec: Spec, values: dict[str, Any], version: tuple[int, int]) -> None:
    """Refuse parameters that the pipeline cannot run with, and settings that the server's version lacks."""
    pipeline = spec.get("pipeline_spec", spec)
    defined = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    for name, parameter in defined.items():
        if name in values:
            _check_type(name, parameter.get("parameterType", "STRING"), values[name])
        elif not parameter.get("isOptional") and "defaultValue" not in parameter:
            raise invalid(f"parameter {name} is not optional, yet has neither default value nor user provided value")
    unknown = [name for name in values if name not in defined]
    if unknown:
        raise invalid(f"parameter(s) provided are not required by pipeline: {', '.join(unknown)}")
    platforms = spec.get("platform_spec", {}).get("platforms", {})
    for settings in platforms.get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {}).values():
        _check_settings(settings, version)


def _check_type(name: str, kind: str, value: Any) -> None:
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "BOOLEAN"):
        raise invalid(f"input parameter {name} requires type {kind}, but the value is of another type")


def _check_settings(settings: Spec, version: tuple[int, int]) -> None:
    try:
        for name in settings:
            if version < _SINCE.get(name, (0, 0)):
                raise json_format.ParseError(f'(line 1:2): unknown field "{name}"')
        json_format.ParseDict(settings, kubernetes_executor_config_pb2.KubernetesExecutorConfig())
    except json_format.ParseError as error:
        raise internal(f"Failed to compile the pipeline: failed to unmarshal kubernetes config: {error}") from None
