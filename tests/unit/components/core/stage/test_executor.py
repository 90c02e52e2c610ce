"""Kubeflow's messages in and out, as the launcher of a real server writes and reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import example, given
from hypothesis import strategies as st
from kfp.pipeline_spec import pipeline_spec_pb2

from components.core.errors import ConfigError
from components.core.stage import executor
from components.core.stage.executor import ExecutorInput, StageResult
from tests.properties import JSON


def message(folder: Path) -> dict[str, Any]:
    return {
        "inputs": {"parameterValues": {"steps": 3.0, "dataset": "somewhere"}},
        "outputs": {
            "parameters": {"summary": {"outputFile": str(folder / "parameters" / "summary")}},
            "artifacts": {
                "metrics": {"artifacts": [{"name": "m", "uri": str(folder / "metrics"), "metadata": {"a": 1}}]},
                "report": {"artifacts": [{"name": "r", "uri": str(folder / "deep" / "report.html")}]},
            },
            "outputFile": str(folder / "out" / "executor_output.json"),
        },
    }


def test_every_declared_output_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("a page")
    executor_input = message(tmp_path)
    # Vertex's launcher of custom jobs writes this output itself.
    executor_input["outputs"]["parameters"]["gcp_resources"] = {"outputFile": str(tmp_path / "gcp_resources")}
    parsed = ExecutorInput(json.dumps(executor_input))
    assert parsed.parameters == {"steps": 3.0, "dataset": "somewhere"}
    parsed.write_output(
        StageResult(parameters={"summary": "done", "other": 1}, metrics={"distance": 2.5}, files={"report": page})
    )
    assert (tmp_path / "parameters" / "summary").read_text() == "done"
    assert (tmp_path / "deep" / "report.html").read_text() == "a page"
    written = (tmp_path / "out" / "executor_output.json").read_text()
    output = json_format.Parse(written, pipeline_spec_pb2.ExecutorOutput())
    assert {name: value.string_value for name, value in output.parameter_values.items()} == {"summary": "done"}
    assert not (tmp_path / "gcp_resources").exists()
    assert dict(output.artifacts["metrics"].artifacts[0].metadata) == {"a": 1.0, "distance": 2.5}
    assert output.artifacts["report"].artifacts[0].uri.endswith("report.html")


def test_where_artifacts_lie_in_a_container() -> None:
    uris = ("gs://bucket/a", "minio://bucket/a", "s3://bucket/a", "/local/a")
    paths = [executor.local_path(uri) for uri in uris]
    assert paths == ["/gcs/bucket/a", "/minio/bucket/a", "/s3/bucket/a", "/local/a"]


NAMES = st.sampled_from(["inputs", "outputs", "outputFile", "parameterValues", "parameters", "artifacts"])
MESSAGES = st.recursive(JSON, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12)


@given(text=st.text() | MESSAGES.map(json.dumps))
@example("[" * 100_000)
def test_anything_is_a_message_or_is_refused_in_words(text: str) -> None:
    try:
        parsed = ExecutorInput(text)
    except ConfigError as error:
        reported = str(error)
    else:
        assert isinstance(parsed.parameters, dict)
        return
    assert reported.startswith("executor_input ")
    assert reported.isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"artifacts": {"metrics": {"artifacts": [{"name": "m"}]}}},
        {"artifacts": {"metrics": {"artifacts": [{"uri": 3}]}}},
        {"artifacts": {"metrics": {"artifacts": [{"uri": "a", "metadata": 3}]}}},
    ],
)
def test_outputs_that_could_not_be_written_are_refused_before_the_work(tmp_path: Path, change: dict[str, Any]) -> None:
    executor_input = message(tmp_path)
    executor_input["outputs"].update(change)
    with pytest.raises(ConfigError, match=r"^executor_input "):
        ExecutorInput(json.dumps(executor_input))
