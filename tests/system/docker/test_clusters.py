"""The stage on Flink in containers that share nothing but a bucket, and killed.

Run by `make test-flink`, which makes the programs first, on images that `make images` has made.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core import errors
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.programs import until
from tests.system.docker.clusters import Flink
from tests.system.runners import flink_cluster
from tests.system.runners.conftest import content, write_idx

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

IMAGES_PER_SHARD = 1500
WORKER = "apache_beam.runners.worker.sdk_worker_main"
_LATE_WORK_SECONDS = 20
# Send a signal to the first process of a container whose command has some words.
SIGNAL = """
import os, pathlib, signal
for path in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
    if b{words!r} in (path / "cmdline").read_bytes() and int(path.name) != os.getpid():
        os.kill(int(path.name), signal.{signal})
        print(path.name)
        break
"""
OBJECTS = """
import os, urllib.request
place = os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/b/o?prefix=dataset/"
print(urllib.request.urlopen(place).read().decode())
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    folder.chmod(0o755)
    return write_idx(folder / "idx", 20_000)


@pytest.fixture(scope="module")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that one machine makes, without the manifest, which names the source."""
    datasets = tmp_path_factory.mktemp("direct")
    preprocess.run(PreprocessConfig(source=str(source), dataset=str(datasets), images_per_shard=IMAGES_PER_SHARD))
    return {name: sha256 for name, sha256 in content(datasets).items() if name != "dataset.json"}


@pytest.fixture(scope="module")
def machines(client: str, preprocess_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """Two machines, without a bucket server."""
    flink_cluster.require_programs()
    folder = tmp_path_factory.mktemp("configuration")
    folder.chmod(0o755)
    with Flink(client, preprocess_image, folder) as flink:
        flink.begin()
        yield flink


@pytest.fixture
def cluster(machines: Flink, source: Path) -> Iterator[Flink]:
    """The machines, and the source in a bucket."""
    before = len(machines.started)
    machines.serve(source)
    yield machines
    machines.remove(machines.started[before:][::-1])


def start(cluster: Flink) -> str:
    return cluster.start_stage("--images_per_shard", str(IMAGES_PER_SHARD))


def wait_for_object(cluster: Flink, ending: str) -> None:
    until(lambda: ending in cluster.execute("pool-of-machine-1", OBJECTS))


def signal_worker(cluster: Flink, name: str) -> int:
    """Send a signal to a Python worker on the first machine; return its process id."""
    program = SIGNAL.format(words=WORKER, signal=name)
    return int(until(lambda: cluster.execute("pool-of-machine-0", program).strip()))


def assert_dataset(cluster: Flink, expected: dict[str, str], *stages: str) -> None:
    """Check that stages end and their dataset is what one machine makes, and the bucket has nothing else."""
    for stage in stages:
        assert cluster.wait(stage) == errors.OK, cluster.log_of(stage)
    objects = cluster.stop_serving()
    dataset, attempt = sorted({name.rpartition("/")[0] for name in objects})
    assert objects.pop(f"{dataset}/committed.json")
    files = {name.removeprefix(f"{attempt}/"): sha256 for name, sha256 in objects.items()}
    assert files.pop("dataset.json")
    assert files == expected


def test_same_bytes_on_two_machines(cluster: Flink, expected: dict[str, str]) -> None:
    assert_dataset(cluster, expected, start(cluster))
    for machine in ("machine-0", "machine-1"):
        assert "'/opt/apache/beam/boot', '--id=" in cluster.log_of(f"pool-of-{machine}")  # who did the work


def test_a_machine_that_is_lost_costs_time_and_no_data(cluster: Flink, expected: dict[str, str]) -> None:
    stage = start(cluster)
    wait_for_object(cluster, ".rows")
    cluster.kill("pool-of-machine-0", "machine-0")
    until(lambda: "RESTARTING" in cluster.jobs().values())  # proof that the fault fired
    cluster.restart_machine("machine-0")
    assert_dataset(cluster, expected, stage)


@pytest.mark.parametrize("moment", ["parts-000000.json", ".rows", ".tfrecord"])
def test_a_python_worker_that_is_killed(cluster: Flink, expected: dict[str, str], moment: str) -> None:
    """Boot starts it again, and the runner repeats its work."""
    stage = start(cluster)
    wait_for_object(cluster, moment)
    signal_worker(cluster, "SIGKILL")
    assert_dataset(cluster, expected, stage)


def test_a_stage_that_is_killed_leaves_what_the_next_one_removes(cluster: Flink, expected: dict[str, str]) -> None:
    stage = start(cluster)
    wait_for_object(cluster, ".rows")
    cluster.kill(stage)
    assert_dataset(cluster, expected, start(cluster))


def test_two_stages_at_once(cluster: Flink, expected: dict[str, str]) -> None:
    assert_dataset(cluster, expected, start(cluster), start(cluster))


def test_a_worker_that_wakes_late(cluster: Flink) -> None:
    """The stage is stopped while a worker is paused; files that the worker writes later do not stay."""
    stage = start(cluster)
    wait_for_object(cluster, "parts-000000.json")
    pid = signal_worker(cluster, "SIGSTOP")
    cluster.docker("stop", "--time=60", cluster.full_name(stage))
    assert cluster.wait(stage) == errors.TERMINATED, cluster.log_of(stage)
    cluster.execute("pool-of-machine-0", f"import os, signal; os.kill({pid}, signal.SIGCONT)")
    time.sleep(_LATE_WORK_SECONDS)  # nothing shows when it is done
    assert cluster.stop_serving() == {}
