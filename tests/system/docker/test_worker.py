"""The preprocess image as a worker of Beam, as Flink and Dataflow start it."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.core import errors
from docker.build import Engine
from tests.inputs.sources import write_images
from tests.programs import until
from tests.system.docker import required
from tests.system.docker.clusters import SERVER, SERVER_MODULE
from tests.system.docker.conftest import Run, log_of
from tests.system.runners.conftest import content

pytestmark = pytest.mark.docker

USER = (*required.HARDENED, "--user", "12345:0")
OPTIONS = (
    "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL --environment_config=localhost:50000"
)


@pytest.fixture
def worker_image(engine: Engine, preprocess_image: str) -> str:
    """The preprocess image, if it was built as a worker."""
    label = '{{index .Config.Labels "wgan.beam-worker"}}'
    if engine.read("image", "inspect", "--format", label, preprocess_image) != "boot":
        pytest.skip(f"{preprocess_image} was built with BEAM_WORKER=none")
    return preprocess_image


@pytest.fixture
def bucket_server(client: str, engine: Engine, worker_image: str, shared_folder: Path) -> Iterator[tuple[str, str]]:
    """The container of a server of buckets, and its address within its network."""
    write_images(shared_folder / "pets", 300)
    mount = ("--volume", f"{shared_folder / 'pets'}:/data:ro")
    container = engine.read("run", "--detach", *USER, *mount, *SERVER, worker_image, *SERVER_MODULE)
    try:
        match = until(lambda: re.search(r"serving at (\S+)", log_of(client, container)), 30)
        yield container, match[1]
    finally:
        engine.read("rm", "--force", container)


def test_workers_that_share_nothing_but_a_bucket(
    client: str, engine: Engine, run: Run, worker_image: str, bucket_server: tuple[str, str], shared_folder: Path
) -> None:
    """Stage and workers see no folder of each other's, and the stage has no space for images."""
    settings = ["--height", "24", "--width", "24", "--images_per_shard", "60"]
    local = ["--source", "/data/pets", "--dataset", "/data/expected"]
    done = run(worker_image, *settings, *local, options=("--volume", f"{shared_folder}:/data"))
    assert done.returncode == errors.OK, done.stderr
    server, url = bucket_server
    beside = ("--network", f"container:{server}", "--env", f"STORAGE_EMULATOR_HOST={url}")
    pool = engine.read("run", "--detach", *USER, *beside, worker_image, "--worker_pool")
    try:
        words = [*settings, "--source", "gs://b/source", "--dataset", "gs://b/dataset", "--beam_options", OPTIONS]
        small = ("--read-only", "--tmpfs", "/tmp:size=1m", *USER[3:])  # noqa: S108
        command = [client, "run", "--rm", *small, *beside, worker_image, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == errors.OK, done.stderr + log_of(client, pool)
        assert "'/opt/apache/beam/boot', '--id=" in log_of(client, pool)  # proof of who did the work
    finally:
        engine.read("rm", "--force", pool)
    engine.read("stop", server)
    (objects,) = (json.loads(line) for line in log_of(client, server).splitlines() if line.startswith("{"))
    files = {name.rpartition("/")[2]: sha256 for name, sha256 in objects.items() if name.startswith("dataset/")}
    assert len(files) == sum(name.startswith("dataset/") for name in objects)
    assert files.pop("committed.json")
    expected = content(shared_folder / "expected")
    manifest = "dataset.json"  # it names the source
    assert files.keys() == expected.keys()
    assert {name for name in files if files[name] != expected[name]} == {manifest}


def test_buckets_dataflow_and_flink_can_be_reached_and_parquet_files_read(
    python: Callable[[str, str], str], preprocess_image: str
) -> None:
    """As far as possible without a network: job submission, gs:// and Parquet find their libraries."""
    program = (
        "import pyarrow.parquet\n"
        "import apache_beam.runners.dataflow.internal.apiclient, apache_beam.runners.worker.sdk_worker_main\n"
        "from apache_beam.runners.runner import create_runner\n"
        "from apache_beam.io.filesystems import FileSystems\n"
        "from google.cloud import dataflow, resourcemanager_v3, storage\n"
        "print(*[type(create_runner(name)).__name__ for name in ('DataflowRunner', 'FlinkRunner', 'PortableRunner')],\n"
        "      type(FileSystems.get_filesystem('gs://bucket/file')).__name__)"
    )
    words = python(preprocess_image, program).split()
    assert words[:4] == ["DataflowRunner", "FlinkRunner", "PortableRunner", "GCSFileSystem"]
