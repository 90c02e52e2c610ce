"""The preprocess image as a worker of Beam, as Flink and Dataflow start it."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components import errors

pytestmark = pytest.mark.docker

Run = Callable[..., subprocess.CompletedProcess[str]]
USER = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--user", "12345:0")  # noqa: S108


def outcome(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.fixture
def worker_image(client: str, preprocess_image: str) -> str:
    """The preprocess image, if it was built as a worker."""
    label = ("image", "inspect", "--format", '{{index .Config.Labels "wgan.beam-worker"}}', preprocess_image)
    if subprocess.run([client, *label], capture_output=True, text=True, check=True).stdout.strip() != "boot":
        pytest.skip(f"{preprocess_image} was built with BEAM_WORKER=none")
    return preprocess_image


def test_boot_wants_its_provision_endpoint(run: Run, worker_image: str) -> None:
    done = run(worker_image, "--id=1")
    assert done.returncode != 0
    assert "No provision endpoint provided." in outcome(done)


@pytest.fixture
def worker_pool(client: str, worker_image: str, shared_folder: Path) -> Iterator[Callable[[], str]]:
    """A worker pool as the sidecar of a task manager: yields what gives its log."""
    mount = f"{shared_folder}:/data"
    command = [client, "run", "--detach", *USER, "--network", "host", "--volume", mount, worker_image, "--worker_pool"]
    container = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def log() -> str:
        return outcome(subprocess.run([client, "logs", container], capture_output=True, text=True, check=True))

    try:
        for _ in range(300):
            if "Started worker pool servicer" in log():
                break
            time.sleep(0.1)
        yield log
    finally:
        subprocess.run([client, "rm", "--force", container], capture_output=True, check=False)


def test_a_job_runs_in_workers_of_the_image(
    client: str, worker_image: str, worker_pool: Callable[[], str], shared_folder: Path
) -> None:
    """Launcher and workers are one image and two containers; they meet in Beam's own protocol and in a folder."""
    with socket.socket() as found:
        if found.connect_ex(("127.0.0.1", 50000)):
            pytest.fail(f"no worker pool on port 50000:\n{worker_pool()}")
    options = "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL"
    options += " --environment_config=localhost:50000"
    command = [client, "run", "--rm", *USER, "--network", "host", "--volume", f"{shared_folder}:/data", worker_image]
    words = ["--source", "digits", "--height", "16", "--width", "16", "--dataset", "/data/dataset"]
    done = subprocess.run(
        [*command, *words, "--beam_options", options], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == errors.OK, done.stderr + worker_pool()
    assert "1,412 train, 164 validation, 221 test images" in done.stdout
    assert "Python (worker worker_0) exited." in worker_pool() or "boot', '--id=worker_0'" in worker_pool()


def test_buckets_dataflow_and_flink_can_be_reached_from_it(
    python: Callable[[str, str], str], preprocess_image: str
) -> None:
    """As far as it goes without a network: what submits jobs and what opens gs:// finds its libraries."""
    program = (
        "import apache_beam.runners.dataflow.internal.apiclient, apache_beam.runners.worker.sdk_worker_main\n"
        "from apache_beam.runners.runner import create_runner\n"
        "from apache_beam.io.filesystems import FileSystems\n"
        "from google.cloud import dataflow, resourcemanager_v3, storage\n"
        "print(*[type(create_runner(name)).__name__ for name in ('DataflowRunner', 'FlinkRunner', 'PortableRunner')],\n"
        "      type(FileSystems.get_filesystem('gs://bucket/file')).__name__)"
    )
    words = python(preprocess_image, program).split()
    assert words[:4] == ["DataflowRunner", "FlinkRunner", "PortableRunner", "GCSFileSystem"]
