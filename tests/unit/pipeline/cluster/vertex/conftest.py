"""A server that is no Vertex, and a run of the package that holds most: a custom job, on a TPU."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipeline.cluster.backend import Schedule, Submission
from pipeline.cluster.vertex.connection import VertexConnection
from pipeline.kfp_graph import compiled_package
from pipeline.package import reader
from pipeline.profiles.targets import Origin
from tests.fakes.vertex.server import VertexServer, serving
from tests.unit.pipeline.packages import DIGESTS, PROFILES

Nightly = Callable[..., Schedule]  # makes a schedule, with changes


@pytest.fixture
def server() -> Iterator[VertexServer]:
    with serving() as vertex:
        yield vertex


@pytest.fixture
def connection(server: VertexServer) -> VertexConnection:
    return VertexConnection(project="my-project-1", location="us-central1", api_endpoint=server.url)


@pytest.fixture(scope="session")
def origin() -> Origin:
    return Origin(
        "vertex",
        "tpu-v5e-8",
        service_account="of-profile@p.iam.gserviceaccount.com",
        network="projects/12345/global/networks/default",
        encryption_key="projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
    )


@pytest.fixture(scope="session")
def wanted(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Submission:
    path = tmp_path_factory.mktemp("package") / "pipeline.yaml"
    profile = dataclasses.replace(PROFILES["tpu-v5e-8", "vertex"], origin=origin)
    path.write_bytes(compiled_package(DIGESTS, profile))
    return Submission(
        package=reader.read(path),
        parameters={"source": "gs://images", "root": "/gcs/bucket/runs", "steps": 500, "beta_1": 0.5, "seed": None},
        experiment="Nightly Runs",
        run_name="first run",
        pipeline_root="gs://staging/vertex",
    )


@pytest.fixture
def nightly(wanted: Submission) -> Nightly:
    weekdays: dict[str, Any] = {"cron": "0 3 * * 1-5", "time_zone": "Europe/Berlin"}
    return functools.partial(Schedule, name="nightly", target="vertex", submission=wanted, **weekdays)
