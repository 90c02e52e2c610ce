"""The stage on Flink in containers that share nothing but a bucket, and killed.

Run by `make test-flink`, which makes the programs first, on images that `make images` has made.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.programs import until
from tests.system.docker import clusters
from tests.system.docker.clusters import Containers
from tests.system.runners.conftest import content, write_idx
from tests.system.runners.flink_cluster import programs

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

SETTINGS: dict[str, Any] = {"images_per_shard": 1500}
WORKER = "apache_beam.runners.worker.sdk_worker_main"
_LATE_WORK_SECONDS = 20
# Kill the first process of a container whose command has some words.
KILL = """
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
    """The files that one machine makes, without the description, which names the source."""
    dataset = tmp_path_factory.mktemp("direct") / "dataset"
    preprocess.run(PreprocessConfig(source=str(source), dataset=str(dataset), **SETTINGS))
    return {name: sha256 for name, sha256 in content(dataset).items() if name != "dataset.json"}


@pytest.fixture(scope="module")
def cluster(client: str, preprocess_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """Two machines, without a bucket server."""
    build = programs()[0].parent
    folder = tmp_path_factory.mktemp("configuration")
    folder.chmod(0o755)
    with clusters.flink(client, preprocess_image, build, folder / "flink") as containers:
        yield containers


class Run:
    """A source in a bucket, and the stages that make a dataset of it."""

    def __init__(self, cluster: Containers) -> None:
        self.cluster = cluster
        self._stages: list[str] = []

    def start(self) -> str:
        self._stages.append(f"stage-{len(self._stages)}")
        self.cluster.start_stage(self._stages[-1], *(f"--{name}={value}" for name, value in SETTINGS.items()))
        return self._stages[-1]

    def wait_for_object(self, ending: str) -> None:
        until(lambda: ending in self.cluster.execute("pool-of-machine-0", OBJECTS))

    def signal(self, machine: str, name: str) -> int:
        """Send a signal to a Python worker on a machine; return its process id."""
        program = KILL.format(words=WORKER, signal=name)
        return int(until(lambda: self.cluster.execute(f"pool-of-{machine}", program).strip()))

    def remove(self) -> None:
        for stage in self._stages:
            self.cluster.remove(stage)
            self.cluster.remove(f"jobs-of-{stage}")
        self.cluster.remove("buckets")


@pytest.fixture
def run(cluster: Containers, source: Path) -> Iterator[Run]:
    cluster.serve(source)
    started = Run(cluster)
    yield started
    started.remove()


def assert_dataset(run: Run, expected: dict[str, str]) -> None:
    """Check that the dataset is what one machine makes, and the bucket has nothing else."""
    objects = run.cluster.stop_serving()
    assert objects.pop("dataset/committed.json", "")
    assert len({name.rpartition("/")[0] for name in objects}) == 1, sorted(objects)
    files = {name.rpartition("/")[2]: sha256 for name, sha256 in objects.items()}
    assert files.pop("dataset.json")
    assert files == expected


def test_same_bytes_on_two_machines(run: Run, expected: dict[str, str]) -> None:
    stage = run.start()
    assert run.cluster.wait(stage) == errors.OK, run.cluster.log_of(stage)
    for machine in ("machine-0", "machine-1"):
        assert "'/opt/apache/beam/boot', '--id=" in run.cluster.log_of(f"pool-of-{machine}")  # who did the work
    assert_dataset(run, expected)


@pytest.mark.parametrize("moment", [".jsonl", ".rows", ".tfrecord"])
def test_a_python_worker_that_is_killed(run: Run, expected: dict[str, str], moment: str) -> None:
    """Boot starts it again, and the runner repeats its work."""
    stage = run.start()
    run.wait_for_object(moment)
    run.signal("machine-0", "SIGKILL")
    assert run.cluster.wait(stage) == errors.OK, run.cluster.log_of(stage)
    assert_dataset(run, expected)


def test_a_stage_that_is_killed_leaves_what_the_next_one_removes(run: Run, expected: dict[str, str]) -> None:
    stage = run.start()
    run.wait_for_object(".rows")
    run.cluster.kill(stage)
    again = run.start()
    assert run.cluster.wait(again) == errors.OK, run.cluster.log_of(again)
    assert_dataset(run, expected)


def test_two_stages_at_once(run: Run, expected: dict[str, str]) -> None:
    stages = [run.start(), run.start()]
    assert [run.cluster.wait(stage) for stage in stages] == [errors.OK, errors.OK], run.cluster.log_of(stages[1])
    assert_dataset(run, expected)


def test_a_worker_that_wakes_late(run: Run) -> None:
    """The stage is stopped while a worker is paused; files that the worker writes later do not stay."""
    stage = run.start()
    run.wait_for_object(".jsonl")
    pid = run.signal("machine-0", "SIGSTOP")
    run.cluster.docker("stop", "--time=60", run.cluster.full_name(stage))
    assert run.cluster.wait(stage) == errors.TERMINATED, run.cluster.log_of(stage)
    run.cluster.execute("pool-of-machine-0", f"import os, signal; os.kill({pid}, signal.SIGCONT)")
    time.sleep(_LATE_WORK_SECONDS)  # nothing shows when it is done
    assert run.cluster.stop_serving() == {}
