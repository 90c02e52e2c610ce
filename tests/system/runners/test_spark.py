"""The stage on a real Spark cluster: the bytes of the direct runner, also when a worker is killed in the middle.

Run by `make test-spark`, which makes Spark and Beam's job server first; JOBS=100 repeats the jobs.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from tests.system.runners.conftest import Stage, content
from tests.system.runners.processes import kill, programs, until
from tests.system.runners.spark_cluster import SparkCluster

JOBS = int(os.environ.get("JOBS", "1"))  # of each kind of source
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300 + 60 * JOBS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers."""
    with SparkCluster(programs("spark")[0], tmp_path_factory.mktemp("spark") / "cluster") as found:
        yield found


def options(cluster: SparkCluster) -> str:
    """Beam's options."""
    runner = f"--runner=SparkRunner --spark_master_url={cluster.url} --spark_job_server_jar={programs('spark')[1]}"
    return f"{runner} --environment_type=EXTERNAL --environment_config={cluster.pool}"


def rows_of(started: Stage) -> list[Path]:
    """The files of rows that its workers have written."""
    return [*started.dataset.parent.glob(".tmp-*/rows/*.rows")]


def test_same_bytes(
    cluster: SparkCluster,
    stage: Callable[[dict[str, Any], str], Stage],
    settings: dict[str, Any],
    of_direct_runner: dict[str, str],
) -> None:
    for _ in range(JOBS):
        started = stage(settings, options(cluster))
        assert started.wait() == errors.OK, started.stderr
        assert content(started.dataset) == of_direct_runner
        assert started.processes() == {}


def test_a_worker_that_is_killed_costs_time_and_no_data(
    cluster: SparkCluster,
    stage: Callable[[dict[str, Any], str], Stage],
    settings: dict[str, Any],
    of_direct_runner: dict[str, str],
) -> None:
    started = stage(settings, options(cluster))
    until(lambda: rows_of(started))
    kill(cluster.workers["worker-1"])  # and its executors
    cluster.add_worker()
    assert started.wait() == errors.OK, started.stderr
    assert content(started.dataset) == of_direct_runner
    cluster.wait()


def test_a_stage_that_is_stopped_leaves_no_dataset(
    cluster: SparkCluster, stage: Callable[[dict[str, Any], str], Stage], settings: dict[str, Any]
) -> None:
    started = stage(settings, options(cluster))
    until(lambda: (cluster.state() or {})["activeapps"])
    started.process.send_signal(signal.SIGTERM)
    assert started.wait() == errors.TERMINATED, started.stderr
    assert "Traceback" not in started.stderr
    assert started.processes() == {}
    assert not started.dataset.exists()
    until(lambda: not (cluster.state() or {"activeapps": 1})["activeapps"])
