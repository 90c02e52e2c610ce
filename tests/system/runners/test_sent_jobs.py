"""The job for Dataflow, which is not run here: its options, image and graph."""

import base64
import bz2
import os
import re
from pathlib import Path
from typing import Any

import apache_beam
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, WorkerOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from components.core.errors import TransientError
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.fakes.gcs.server import Server

IMAGE = "registry.example.com/wgan/preprocess:0.1.0"


def require_graph_in_image(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Every step runs in the image, and some of them behind a shuffle."""
    environments = pipeline.components.environments.values()
    assert {environment.urn for environment in environments} == {common_urns.environments.DOCKER.urn}
    payloads = [beam_runner_api_pb2.DockerPayload.FromString(environment.payload) for environment in environments]
    assert {payload.container_image for payload in payloads} == {IMAGE}
    urns = {transform.spec.urn for transform in pipeline.components.transforms.values()}
    assert {common_urns.primitives.PAR_DO.urn, common_urns.primitives.GROUP_BY_KEY.urn} <= urns


def require_no_local_path(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Check that what a worker unpickles for a step names the bucket alone, and Beam's lambdas, which nobody opens."""
    specs = [transform.spec for transform in pipeline.components.transforms.values()]
    payloads = [
        bz2.decompress(base64.b64decode(beam_runner_api_pb2.ParDoPayload.FromString(spec.payload).do_fn.payload))
        for spec in specs
        if spec.urn == common_urns.primitives.PAR_DO.urn
    ]
    assert sum(bool(re.search(rb"gs://b/d/\w+/attempt-", pickled)) for pickled in payloads) == 3  # rows, shards, leaks
    beam_folder = os.fsencode(Path(apache_beam.__file__).parent)
    texts = [pickled.replace(beam_folder, b"") for pickled in payloads]
    paths = {path for text in texts for path in re.findall(rb"(?:/[\w.+-]+){3,}", text)}
    assert not {path for path in paths if not path.startswith(b"/b/d/")}


def test_dataflow_is_given_options_image_and_graph(gcs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs.create_bucket("b")
    jobs: list[Any] = []
    real = DataflowRunner.run_pipeline

    def noted(runner: DataflowRunner, *arguments: Any, **named: Any) -> Any:
        result = real(runner, *arguments, **named)
        jobs.append(result.job)
        return result

    monkeypatch.setattr(DataflowRunner, "run_pipeline", noted)
    options = "--runner=DataflowRunner --project=some-project --region=europe-west1 --temp_location=gs://bucket/tmp"
    options += f" --max_num_workers=9 --sdk_container_image={IMAGE} --no_use_public_ips"
    # Beam makes the job, and does not send it; packages installed here do not belong to it.
    options += " --dry_run=True --experiments=disable_logging_submission_environment"
    with pytest.raises(TransientError, match="gs://b/d"):  # because nothing has run
        preprocess.run(PreprocessConfig(source="digits", dataset="gs://b/d", beam_options=options))
    assert not gcs.objects["b"]
    (job,) = jobs
    cloud, workers = job.options.view_as(GoogleCloudOptions), job.options.view_as(WorkerOptions)
    assert (cloud.project, cloud.region) == ("some-project", "europe-west1")
    assert cloud.temp_location.startswith("gs://bucket/tmp/")  # Beam gives each job a folder below it
    options_of_workers = workers.max_num_workers, workers.sdk_container_image, workers.use_public_ips
    assert options_of_workers == (9, IMAGE, False)
    require_graph_in_image(job.proto_pipeline)
    require_no_local_path(job.proto_pipeline)
