"""Our requests to Vertex compared with those of Google's own SDK for the same package and arguments.

The SDK takes long to import, and is used nowhere else.
"""

from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import CreateScheduleRequest, PipelineJob
from google.protobuf import json_format

from pipeline.cluster.backend import Submission
from pipeline.cluster.vertex.connection import VertexConnection, message
from pipeline.cluster.vertex.runs import job_content
from pipeline.cluster.vertex.schedules import VertexBackend
from pipeline.profiles.targets import Origin
from tests.fakes.vertex.server import VertexServer
from tests.unit.pipeline.cluster.vertex.conftest import Nightly

PROJECT: dict[str, Any] = {"project": "my-project-1", "location": "us-central1", "credentials": AnonymousCredentials()}


def sdk_job(wanted: Submission) -> aiplatform.PipelineJob:
    return aiplatform.PipelineJob(
        display_name=wanted.run_name,
        template_path=str(wanted.package.path),
        pipeline_root=wanted.pipeline_root,
        parameter_values=wanted.parameters,
        failure_policy="slow",
        encryption_spec_key_name=wanted.package.origin.encryption_key,
        **PROJECT,
    )


def as_json(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(type(message).pb(message))


def test_a_run(wanted: Submission, origin: Origin) -> None:
    ours = as_json(message("PipelineJob", job_content(wanted)))
    theirs = as_json(PipelineJob(sdk_job(wanted)._gca_resource))
    assert ours.pop("labels").keys() == {"wgan_package", "wgan_experiment"}
    # The SDK takes these when it submits.
    assert (ours.pop("serviceAccount"), ours.pop("network")) == (origin.service_account, origin.network)
    assert ours == theirs


def test_a_schedule(
    wanted: Submission, origin: Origin, connection: VertexConnection, server: VertexServer, nightly: Nightly
) -> None:
    VertexBackend(connection).create(nightly(concurrency=2))
    theirs = aiplatform.PipelineJobSchedule(sdk_job(wanted), "nightly", **PROJECT)
    # It knows no server without TLS.
    theirs.api_client = connection.schedules
    theirs.create(
        cron="TZ=Europe/Berlin 0 3 * * 1-5",
        start_time="2099-01-01T00:00:00Z",
        max_concurrent_run_count=2,
        max_concurrent_active_run_count=2,
        service_account=origin.service_account,
        network=origin.network,
    )
    ours, sdks = (_comparable(request) for method, request in server.requests if method == "CreateSchedule")
    assert ours == sdks


def _comparable(request: CreateScheduleRequest) -> dict[str, Any]:
    """Return a request without times, our labels and note, and the run's name, which the SDK leaves out."""
    content = as_json(request)
    assert content["schedule"].pop("startTime")
    job = content["schedule"]["createPipelineJobRequest"]["pipelineJob"]
    job.pop("labels", None)
    job.pop("displayName", None)
    assert job["pipelineSpec"]["pipelineInfo"].pop("description")
    return content
