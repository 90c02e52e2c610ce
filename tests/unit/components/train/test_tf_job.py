"""Training by a TFJob: what the stage asks of Kubernetes, what it shows, and what it makes of each end."""

import copy
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import ConfigError, DataError, StageError, Terminated, TransientError
from components.core.stage import cli
from components.train import tf_job
from components.train.config import TrainConfig
from tests.fakes import http, training_operator
from tests.fakes.training_operator import TrainingOperator

_CONTAINER = {"name": "tensorflow", "image": "train", "command": ["python", "-m", "components", "train"]}
_TEMPLATE: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [_CONTAINER]}}}}},
}


class Worker:
    message = "its last words"
    log: Sequence[str] = ("line 0", "line 1", "line 2", "line 3", "line 4")

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code

    def terminate(self) -> None:
        self.exit_code = 143


class Cluster(TrainingOperator):
    """Starts workers that have ended with planned exit codes, or run until a test ends them."""

    def __init__(self) -> None:
        super().__init__(self._begin)
        self.plan: list[int | None] = []  # exit codes of the workers to come; 0 for others
        self.started: list[Worker] = []

    def _begin(self, name: str, container: dict[str, Any], tf_config: dict[str, Any]) -> Worker:
        self.started.append(Worker(self.plan.pop(0) if self.plan else 0))
        return self.started[-1]

    def at_pods(self, act: Callable[[], None]) -> None:
        """Act once, when the pods are asked for next."""

        def before(request: http.Request) -> None:
            if request.path.endswith("/pods"):
                self.before = None
                act()

        self.before = before

    def end(self) -> None:
        for worker in self.started:
            worker.exit_code = 0

    @property
    def created(self) -> int:
        return sum(request.method == "POST" for request in self.requests)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    folder = tmp_path / "account"
    context = training_operator.account(folder)
    server = Cluster()
    server.use_tls(context)
    with http.serving(server) as served:
        monkeypatch.setattr(tf_job, "_ACCOUNT", folder)
        monkeypatch.setattr(tf_job, "_LOOK_SECONDS", 0.01)
        monkeypatch.setattr(tf_job, "_LOG_SECONDS", 0.0)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", served.url.rpartition(":")[2])
        monkeypatch.setenv("KFP_POD_NAME", "wf-train-1")
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # it is not for the cluster's own API
        yield served


def train(accelerator: str = "multi-worker") -> None:
    config = TrainConfig(dataset="/d", checkpoints="/c", accelerator=accelerator, steps=60)
    tf_job.train(copy.deepcopy(_TEMPLATE), config, "/c/k")


def test_workers_get_the_settings_of_the_stage_and_the_rights_of_its_pod(cluster: Cluster) -> None:
    train()
    (job,) = cluster.jobs.values()
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert {"--steps=60", "--checkpoints=/c", "--accelerator=multi-worker"} <= {*pod["containers"][0]["args"]}
    assert (pod["serviceAccountName"], pod["securityContext"]) == ("pipeline-runner", {"fsGroup": 0})
    rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    assert pod["containers"][0]["securityContext"] == rights
    assert job["metadata"]["ownerReferences"][0]["uid"] == "5b7e"


def test_each_line_of_the_chief_is_shown_once_though_its_stream_breaks_off(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plan = [None, 0]
    cluster.cut_logs_after = 4

    def go_on() -> None:
        assert cluster.cut_logs_after == 0
        cluster.end()

    cluster.at_pods(lambda: cluster.at_pods(go_on))
    train()
    assert capsys.readouterr().err.splitlines() == [*Worker.log]


@pytest.mark.parametrize(
    ("codes", "error", "named"),
    [
        ([75, 65], DataError, "worker 1"),
        ([64, 75], ConfigError, "worker 0"),
        ([75, 70], StageError, "worker 1"),
        ([75, 75], TransientError, "worker 0"),
        ([None, 137], TransientError, "137"),
    ],
)
def test_the_worker_that_failed_first_gives_the_reason_and_ends_the_others(
    cluster: Cluster, codes: list[int | None], error: type[StageError], named: str
) -> None:
    cluster.plan = [*codes]
    with pytest.raises(error) as caught:
        train()
    assert type(caught.value) is error
    assert named in str(caught.value)
    assert Worker.message in str(caught.value)
    assert [worker.exit_code == 143 for worker in cluster.started] == [code is None for code in codes]
    train()  # which replaces the job
    assert cluster.created == 2


def test_a_job_that_trains_already_is_waited_for(cluster: Cluster) -> None:
    """As after the stage's pod was lost."""
    train()
    for worker in cluster.started:
        worker.exit_code = None
    cluster.at_pods(cluster.end)
    train()
    assert cluster.created == 1


def test_a_job_that_is_being_deleted_is_replaced_when_its_workers_have_ended(cluster: Cluster) -> None:
    train()
    (job,) = cluster.jobs.values()
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.started[0].exit_code = None
    asked = len(cluster.requests)

    def end_after_some_looks(request: http.Request) -> None:
        if request.number == asked + 5:
            assert cluster.created == 1
            cluster.end()

    cluster.before = end_after_some_looks
    train()
    assert cluster.created == 2


def test_canceling_ends_the_workers(cluster: Cluster) -> None:
    previous = signal.signal(signal.SIGTERM, cli._terminate)
    cluster.plan = [None, None]
    cluster.at_pods(lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(Terminated):
            train()
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert [worker.exit_code for worker in cluster.started] == [143, 143]


def test_a_job_that_someone_deleted_is_made_again_by_a_retry(cluster: Cluster) -> None:
    cluster.plan = [None, None]

    def delete() -> None:
        (job,) = cluster.jobs.values()
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.end()

    cluster.at_pods(delete)
    with pytest.raises(TransientError):
        train()


def test_a_cluster_that_cannot_run_it_is_refused_with_the_remedy(cluster: Cluster) -> None:
    for code, reason, message in (
        (404, "the server could not find the requested resource", "Training Operator"),
        (403, "tfjobs.kubeflow.org is forbidden", "forbidden.*pods/log"),
        (422, "spec.tfReplicaSpecs is invalid", "is invalid"),
    ):
        cluster.refusals = {"POST": (code, reason)}
        with pytest.raises(ConfigError, match=message):
            train()
    with pytest.raises(ConfigError, match=r"cpu"):
        train(accelerator="cpu")
    assert not cluster.jobs


def test_why_workers_wait_is_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.pending = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    cluster.plan = [None, None]

    def start() -> None:
        cluster.pending = ""
        cluster.end()

    cluster.at_pods(lambda: cluster.at_pods(start))  # after one look
    with caplog.at_level("INFO"):
        train()
    assert caplog.text.count(f"worker-1: Unschedulable: {'0/3 nodes are available'}") == 1


def test_only_a_pod_whose_package_names_a_job_starts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tf_job.VARIABLE, '{"kind": "TFJob"}')
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert tf_job.requested() is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert tf_job.requested() == {"kind": "TFJob"}
    monkeypatch.delenv(tf_job.VARIABLE)
    assert tf_job.requested() is None
