"""Training by a TFJob whose workers are containers on a network of their own, which end and go on as pods do.

Kubernetes and the operator are a stand-in (tests/fakes/training_operator.py). No cluster was part of this.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from components.core import errors
from components.core.artifacts import checkpoints
from components.train import tf_job
from pipeline.profiles.kubernetes import KubernetesStage
from tests import programs
from tests.fakes import http, training_operator
from tests.fakes.training_operator import OWN_POD, TrainingOperator
from tests.programs import two_workers
from tests.stages.train import attempts
from tests.system.docker import required

pytestmark = [pytest.mark.docker, pytest.mark.long]

_NETWORK = "wgan-test-tf-job"
_SETTINGS = {
    "batch_size": 16,
    "latent_size": 8,
    "base_filters": 4,
    "steps": 300,
    "log_every": 10,
    "checkpoint_every": 1,
}
# The stage, with the account of its pod in another folder.
_STAGE = """
import sys
from pathlib import Path
from components.core.stage import cli
from components.train import tf_job
tf_job._ACCOUNT = Path(sys.argv[1])
raise SystemExit(cli.main("train", sys.argv[2:]))
"""


class Container:
    def __init__(self, client: str, name: str, described: dict[str, Any], tf_config: dict[str, Any], folder: Path):
        self._client, self._name, self._message = client, name, folder / f"{name}-message"
        self._message.write_text("")
        host = tf_config["cluster"]["worker"][tf_config["task"]["index"]].partition(":")[0]
        folders = [mount["mountPath"] for mount in described["volumeMounts"]]
        volumes = [f"{folder}:{folder}" for folder in folders if folder != "/tmp"]  # noqa: S108
        volumes.append(f"{self._message}:/dev/termination-log")
        variables = {"TF_CONFIG": json.dumps(tf_config), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        self.docker(
            *("run", "--detach", "--name", name, "--network", _NETWORK, "--network-alias", host),
            *("--user", f"{os.getuid()}:{os.getgid()}", *required.HARDENED),
            *(f"--volume={volume}" for volume in volumes),
            *(f"--env={variable}={value}" for variable, value in variables.items()),
            *("--entrypoint", described["command"][0], described["image"]),
            *(*described["command"][1:], *described["args"]),
        )

    def docker(self, *words: str) -> str:
        command = [self._client, *words]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout

    @property
    def exit_code(self) -> int | None:
        running, code = self.docker("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", self._name).split()
        return None if running == "true" else int(code)

    @property
    def log(self) -> list[str]:
        return [line for line in self.docker("logs", self._name).splitlines(keepends=True) if line.endswith("\n")]

    @property
    def message(self) -> str:
        return self._message.read_text()

    def terminate(self) -> None:
        self.docker("kill", "--signal", "TERM", self._name)

    def kill(self) -> None:
        self.docker("kill", self._name)

    def remove(self) -> None:
        self.docker("rm", "--force", self._name)


class Cluster(TrainingOperator):
    def __init__(self, client: str, folder: Path) -> None:
        super().__init__(self._begin)
        self.client, self._folder = client, folder
        self.containers: dict[str, Container] = {}

    def _begin(self, name: str, described: dict[str, Any], tf_config: dict[str, Any]) -> Container:
        if earlier := self.containers.pop(name, None):
            earlier.remove()
        self.containers[name] = Container(self.client, name, described, tf_config, self._folder)
        return self.containers[name]


@pytest.fixture
def cluster(client: str, tmp_path: Path) -> Iterator[Cluster]:
    context = training_operator.account(tmp_path / "account")
    server = Cluster(client, tmp_path)
    server.use_tls(context)
    subprocess.run([client, "network", "create", _NETWORK], check=True, capture_output=True)
    try:
        with http.serving(server) as cluster:
            yield cluster
    finally:
        for container in server.containers.values():
            container.remove()
        subprocess.run([client, "network", "rm", _NETWORK], check=True, capture_output=True)


def resumed_at(log: str) -> int:
    (step,) = re.findall(r"resuming at step (\d+)", log)
    return int(step)


@pytest.mark.timeout(900)
def test_workers_in_containers_stop_go_on_and_end_as_on_loopback(
    cluster: Cluster, train_image: str, tiny_dataset: Path, tmp_path: Path
) -> None:
    """One worker is killed, then the stage is canceled; what is left is the same to the bit as without both."""
    root = tmp_path / "root"
    root.mkdir()
    alone, together = root / "alone", root / "together"
    container = dsl.ContainerSpec(image=train_image, command=["python", "-m", "components", "train"])
    claims = {"runs": str(root), "data": str(tiny_dataset.parent)}
    job = KubernetesStage(workers=2, volume_claims=claims).job(container)
    flags = attempts.flags(tiny_dataset, together, **_SETTINGS, accelerator="multi-worker")
    environment = {
        **os.environ,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": cluster.url.rpartition(":")[2],
        "KFP_POD_NAME": OWN_POD["metadata"]["name"],
        tf_job.VARIABLE: json.dumps(job),
    }

    def saved() -> list[int]:
        return [step for training in together.glob("*") for step in checkpoints.steps(training)]

    def stage(act: Callable[[programs.Program], None] | None = None) -> tuple[int | None, str]:
        """Run the stage and act after its next checkpoint; return exit code and log."""
        before = saved()
        command = [sys.executable, "-c", _STAGE, str(tmp_path / "account"), *flags]
        with programs.start(command, environment) as program:
            while act and program.returncode is None and saved() == before:
                time.sleep(0.05)
            if act:
                act(program)
            log = program.communicate()[1]
        return program.returncode, log

    def kill_second(_: object) -> None:
        (container,) = [container for name, container in cluster.containers.items() if name.endswith("worker-1")]
        container.kill()

    code, log = stage(kill_second)
    assert code == errors.TRANSIENT, log
    assert "137" in log
    killed_at = max(saved())

    code, log = stage(lambda program: program.send_signal(signal.SIGTERM))
    assert code == errors.TERMINATED, log
    assert resumed_at(log) == killed_at

    code, log = stage()
    assert code == errors.OK, log
    assert killed_at < resumed_at(log) < _SETTINGS["steps"]
    assert "worker 0 of 2, the chief" in log
    jobs = len(cluster.jobs)
    code, log = stage()
    assert (code, len(cluster.jobs)) == (errors.OK, jobs), log  # complete: no workers start

    command = [sys.executable, "-m", "components", "train"]
    command += attempts.flags(tiny_dataset, alone, **_SETTINGS, accelerator="multi-worker")
    with two_workers(tmp_path / "loopback", command) as processes:
        pass
    assert [process.returncode for process in processes] == [0, 0]
    assert attempts.left_by(attempts.training_in(together)) == attempts.left_by(attempts.training_in(alone))
