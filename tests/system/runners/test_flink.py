"""The stage on a real Flink cluster: the bytes of the direct runner, also when a task manager is killed in the middle.

Run by `make test-flink`, which makes Flink and Beam's job server first.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from tests.programs import until
from tests.system.runners.conftest import Stage, content, image_settings
from tests.system.runners.flink_cluster import OPENED, FlinkCluster, kill, programs

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    cluster = FlinkCluster(*programs(), tmp_path_factory.mktemp("flink") / "cluster")
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(autouse=True)
def java_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java flags that Beam's job server needs on Java 17, and Beam omits."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", OPENED)


@pytest.fixture(scope="session", params=["images", "idx"])
def settings(
    request: pytest.FixtureRequest, fashion_mnist: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Settings for a folder of images, and for Fashion-MNIST, which takes long enough to break something."""
    if request.param == "idx":
        return {"source": str(fashion_mnist)}
    return image_settings(tmp_path_factory.mktemp("source") / "pets")


def options(cluster: FlinkCluster, kept: bool = True) -> str:
    """Beam's options; workers are kept between steps, or are new in each, and after each failure."""
    runner = f"--runner=FlinkRunner --flink_master={cluster.rest} --flink_version=1.19 --parallelism=2"
    workers = f"--environment_type=EXTERNAL --environment_config={cluster.pool}"
    workers += " --environment_cache_millis=60000" if kept else ""
    return f"{runner} --flink_job_server_jar={programs()[1]} {workers}"


def started_on_both(cluster: FlinkCluster, started: Stage, before: dict[str, str]) -> str:
    """The id of the stage's job, once tasks of it run on both task managers."""

    def job() -> str:
        assert started.process.poll() is None, started.stderr
        both = (job_id for job_id in cluster.jobs().keys() - before if len(cluster.running_task_managers(job_id)) == 2)
        return next(both, "")

    return str(until(job))


def test_same_bytes(
    cluster: FlinkCluster,
    stage: Callable[[dict[str, Any], str], Stage],
    settings: dict[str, Any],
    direct_runner_files: dict[str, str],
) -> None:
    before = cluster.jobs()
    started = stage(settings, options(cluster))
    job = started_on_both(cluster, started, before)
    assert started.wait() == errors.OK, started.stderr
    assert cluster.jobs()[job] == "FINISHED"
    assert content(started.dataset) == direct_runner_files
    assert started.processes() == {}


@pytest.mark.parametrize("settings", ["idx"], indirect=True)
def test_a_task_manager_that_is_killed_costs_time_and_no_data(
    cluster: FlinkCluster,
    stage: Callable[[dict[str, Any], str], Stage],
    settings: dict[str, Any],
    direct_runner_files: dict[str, str],
) -> None:
    before = cluster.jobs()
    started = stage(settings, options(cluster, kept=False))
    job = started_on_both(cluster, started, before)
    kill(cluster.task_managers["task-manager-1"])
    until(lambda: cluster.jobs()[job] == "RESTARTING")  # proof that the fault fired
    cluster.add_task_manager()
    assert started.wait() == errors.OK, started.stderr
    assert cluster.attempts(job) > 0
    assert cluster.jobs()[job] == "FINISHED"
    assert content(started.dataset) == direct_runner_files
    cluster.wait()


@pytest.mark.parametrize("settings", ["idx"], indirect=True)
def test_a_stage_that_is_stopped_leaves_no_dataset(
    cluster: FlinkCluster, stage: Callable[[dict[str, Any], str], Stage], settings: dict[str, Any]
) -> None:
    """Beam's job server does not end a canceled batch job; nobody uses the files that its workers still write."""
    before = cluster.jobs()
    started = stage(settings, options(cluster))
    job = started_on_both(cluster, started, before)
    started.process.send_signal(signal.SIGTERM)
    assert started.wait() == errors.TERMINATED, started.stderr
    assert "Traceback" not in started.stderr
    assert started.processes() == {}
    until(lambda: cluster.jobs()[job] in ("CANCELED", "FAILED", "FINISHED"), 300)
    assert not started.dataset.exists()
