"""The interface between a stage and Kubeflow: `ExecutorInput` and `ExecutorOutput` messages as JSON.

They are defined in pipeline_spec.proto of Kubeflow Pipelines. Standard library only, so that no image needs kfp.
"""

import dataclasses
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from components.core.errors import ConfigError
from components.core.storage.location import Location

# Inputs of every stage that name its run, and do not change the result.
RUN_INPUTS = ("records", "run")
_CHANNEL = "pipelinechannel--"
# Vertex's launcher of custom jobs writes this output itself, but lists it among the stage's.
_LAUNCHER_OUTPUT = "gcp_resources"
_MOUNTS = (("gs://", "/gcs/"), ("minio://", "/minio/"), ("s3://", "/s3/"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageResult:
    parameters: dict[str, str | int | float]  # with `summary`, one short line for people
    reused: bool = False  # whether an earlier run made all of it
    metrics: dict[str, float | int | str] = dataclasses.field(default_factory=dict)  # rows of the `metrics` artifact
    files: dict[str, Path] = dataclasses.field(default_factory=dict)  # local files of output artifacts, by name


class ExecutorInput:
    """The parsed `ExecutorInput` of one task; raises `ConfigError` for another message."""

    def __init__(self, text: str) -> None:
        try:
            message = json.loads(text)
            values = dict(message.get("inputs", {}).get("parameterValues", {}))
            # Kubeflow lists the sources of a task's constants among its inputs, though no component declares them.
            self.parameters: dict[str, Any] = {  # objects and lists as JSON text
                name: json.dumps(value) if isinstance(value, (dict, list)) else value
                for name, value in values.items()
                if not name.startswith(_CHANNEL)
            }
            outputs = message["outputs"]
            self._output_file = Path(outputs["outputFile"])
            self._output_parameters = {
                name: Path(spec["outputFile"])
                for name, spec in outputs.get("parameters", {}).items()
                if name != _LAUNCHER_OUTPUT
            }
            artifacts = outputs.get("artifacts", {}).items()
            self._output_artifacts = {name: dict(spec["artifacts"][0]) for name, spec in artifacts}
            self._targets = {
                name: Path(artifact.get("customPath") or local_path(artifact["uri"]))
                for name, artifact in self._output_artifacts.items()
            }
            if not all(isinstance(entry.get("metadata", {}), dict) for entry in self._output_artifacts.values()):
                raise ValueError("an artifact's metadata is no object")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise ConfigError(f"executor_input is not an ExecutorInput message: {error!r}") from None

    def take_run(self, settings: Collection[str]) -> Location | None:
        """Take the run out of the parameters, unless it is missing or the stage has settings of these names.

        Return the folder of its notes: in that of all runs' records, by the run's id.
        """
        if any(name in settings or name not in self.parameters for name in RUN_INPUTS):
            return None
        records, run = (str(self.parameters.pop(name)) for name in RUN_INPUTS)
        return Location.of(records) / run

    def write_output(self, result: StageResult) -> None:
        """Write every declared output: parameter files, artifact files, and the executor output itself."""
        for name, path in self._output_parameters.items():
            _write(path, str(result.parameters[name]).encode())
        artifacts = {}  # all declared ones, because some backends forget the others
        for name, artifact in self._output_artifacts.items():
            if name in result.files:
                _write(self._targets[name], result.files[name].read_bytes())
            if name == "metrics":
                artifact["metadata"] = {**artifact.get("metadata", {}), **result.metrics}
            fields = {key: artifact[key] for key in ("name", "uri", "metadata", "customPath") if key in artifact}
            artifacts[name] = {"artifacts": [fields]}
        parameters = {name: result.parameters[name] for name in self._output_parameters}
        _write(self._output_file, json.dumps({"parameterValues": parameters, "artifacts": artifacts}).encode())


def local_path(uri: str) -> str:
    """Return the path at which Kubeflow mounts or copies an artifact in the container."""
    return next((mount + uri.removeprefix(scheme) for scheme, mount in _MOUNTS if uri.startswith(scheme)), uri)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
