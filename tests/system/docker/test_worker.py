"""The preprocess image as a worker of Beam, as Flink and Dataflow start it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.core import errors
from docker.build import Engine
from tests.inputs.sources import write_images
from tests.system.docker.clusters import Containers
from tests.system.docker.conftest import Run
from tests.system.runners.conftest import content

pytestmark = pytest.mark.docker

OPTIONS = (
    "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL --environment_config=localhost:50000"
)


def test_workers_that_share_nothing_but_a_bucket(
    client: str, engine: Engine, run: Run, preprocess_image: str, shared_folder: Path
) -> None:
    """Stage and workers see no folder of each other's, and the stage has no space for images."""
    label = '{{index .Config.Labels "wgan.beam-worker"}}'
    if engine.read("image", "inspect", "--format", label, preprocess_image) != "boot":
        pytest.skip(f"{preprocess_image} was built with BEAM_WORKER=none")
    write_images(shared_folder / "pets", 300)
    settings = ("--height", "24", "--width", "24", "--images_per_shard", "60")
    local = ("--source", "/data/pets", "--dataset", "/data/expected")
    done = run(preprocess_image, *settings, *local, options=("--volume", f"{shared_folder}:/data"))
    assert done.returncode == errors.OK, done.stderr
    nameless = ("--user", "12345:0")
    with Containers(client, preprocess_image, "wgan-test-worker") as containers:
        containers.serve(shared_folder / "pets")
        containers.start("pool", "--worker_pool", options=nameless)
        words = (*settings, "--source", "gs://b/source", "--dataset", "gs://b/dataset", "--beam_options", OPTIONS)
        containers.start("stage", *words, options=nameless, beside="pool", scratch="size=1m")
        assert containers.wait("stage") == errors.OK, containers.log_of("stage") + containers.log_of("pool")
        assert "'/opt/apache/beam/boot', '--id=" in containers.log_of("pool")  # proof of who did the work
        objects = containers.stop_serving()
    files = {name.rpartition("/")[2]: sha256 for name, sha256 in objects.items()}
    assert len(files) == len(objects)
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
