"""The stage on a real Flink cluster on loopback: the bytes of the direct runner, and none after it was stopped.

Run by `make test-flink`, which makes Flink and Beam's job server first.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from components.core import errors
from tests import servers
from tests.programs import until
from tests.system.runners import flink_cluster
from tests.system.runners.conftest import Stage, content, write_idx

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]
_LOOPBACK = "127.0.0.1"


class Cluster(NamedTuple):
    """A running cluster: its REST endpoint, and Beam's options for it."""

    rest: str
    options: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A worker pool of Beam, a job manager and a task manager."""
    flink_cluster.require_programs()
    folder = tmp_path_factory.mktemp("flink")
    pool, rest, rpc = (servers.free_port() for _ in range(3))
    flink_cluster.configure(folder, host=_LOOPBACK, bind=_LOOPBACK, rpc=rpc, rest=rest, scratch=folder)
    options = f"--runner=FlinkRunner --flink_master={_LOOPBACK}:{rest} --flink_version=1.19 --parallelism=2"
    options += f" --flink_job_server_jar={flink_cluster.JOB_SERVER} --environment_cache_millis=60000"
    options += f" --environment_type=EXTERNAL --environment_config=localhost:{pool}"
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # A worker pool starts its workers as `python`, which must be this one.
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("JDK_JAVA_OPTIONS", flink_cluster.OPENED)  # Beam omits it for its job server
        pool_module = "apache_beam.runners.worker.worker_pool_main"
        for name, command, port in (
            ("pool", [sys.executable, "-m", pool_module, f"--service_port={pool}"], pool),
            ("job-manager", ["java", *flink_cluster.job_manager(folder)], rest),
            ("task-manager", ["java", *flink_cluster.task_manager(folder, _LOOPBACK)], rest),
        ):
            stack.enter_context(servers.running(command, port, folder / f"{name}.log"))
        until(lambda: flink_cluster.free_slots(f"{_LOOPBACK}:{rest}"))
        yield Cluster(f"{_LOOPBACK}:{rest}", options)


def test_same_bytes(
    cluster: Cluster,
    stage: Callable[[dict[str, Any], str], Stage],
    settings: dict[str, Any],
    direct_runner_files: dict[str, str],
) -> None:
    before = flink_cluster.jobs(cluster.rest)
    started = stage(settings, cluster.options)
    assert started.wait() == errors.OK, started.stderr
    after = flink_cluster.jobs(cluster.rest)
    assert [after[job] for job in after.keys() - before] == ["FINISHED"]  # proof of who ran it
    assert content(started.datasets) == direct_runner_files
    assert started.processes() == {}


def test_a_stage_that_is_stopped_leaves_no_dataset(
    cluster: Cluster, stage: Callable[[dict[str, Any], str], Stage], tmp_path: Path
) -> None:
    """Beam's job server does not end a canceled batch job; nobody uses the files that its workers still write."""
    started = stage({"source": write_idx(tmp_path / "idx", 60_000)}, cluster.options)
    until(lambda: [*started.datasets.rglob("*.rows")])
    started.process.send_signal(signal.SIGTERM)
    assert started.wait() == errors.TERMINATED, started.stderr
    assert "preprocess: terminated; run the command again to resume" in started.stderr
    assert started.processes() == {}
    until(lambda: {*flink_cluster.jobs(cluster.rest).values()} <= {"CANCELED", "FAILED", "FINISHED"}, 300)
    assert not [*started.datasets.glob("[!.]*")]
