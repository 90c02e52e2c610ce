"""The story of a pipeline on a Kubeflow: compile, submit, fail, cancel, retry, schedule, and what is recorded of it.

`make test-kubeflow` runs it on the server that KF_PIPELINES_ENDPOINT names (docs/kubeflow.md), with these variables:

    KUBE_CONTEXT   a context of the kubeconfig, for logs and reasons
    ROOT, CLAIM    the folder of all results: in a bucket, or where the volume claim is mounted
    IMAGES         the file that `make push` wrote; without it, images go by their tags

Without a server it runs on the contract server. Its worker starts the stages as processes of this machine, with a
folder as root and with a bucket of the tests' own server; and as containers that share nothing but such a bucket.
"""

import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import yaml

from components.core.storage import buckets
from components.core.storage.location import Location
from pipeline.cluster import waiting
from tests.fakes.gcs import server as bucket_server
from tests.fakes.kubeflow import server as contract_server
from tests.fakes.kubeflow.worker import Worker
from tests.programs import until
from tests.system.docker import required
from tests.system.docker.clusters import BUCKETS, Containers
from tests.system.whole_runs import SMALL, against_umask

pytestmark = pytest.mark.kubeflow

_LIMIT_SECONDS = 1200.0


@dataclasses.dataclass
class Cluster:
    """A Kubeflow, and the words that name it, the package and the root."""

    connection: list[str]
    root: str
    folder: Path  # for the package and the schedules
    environment: dict[str, str]

    @property
    def records_can_be_read(self) -> bool:
        root = Location.of(self.root)
        return root.in_bucket or root.path.is_dir()

    def wgan(self, *words: str, code: int = 0) -> str:
        """Run a command, which must end with this exit code, and return what it printed."""
        command = [sys.executable, "-m", "pipeline", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=_LIMIT_SECONDS
        )
        print(f"$ wgan {' '.join(words)}\n{done.stdout}{done.stderr}")
        assert done.returncode == code, f"exit code {done.returncode}, not {code}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, *more: str, code: int = 0, wait: bool = True, **changes: object) -> str:
        """Submit a run, wait for its end, and return its id."""
        flags = [f"--{name}={value}" for name, value in {**SMALL, "root": self.root, **changes}.items()]
        printed = self.wgan("submit", *flags, *self.connection, *(["--wait"] if wait else []), *more, code=code)
        return printed.split()[0].rpartition("/")[2]

    def status(self, run_id: str) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.wgan("status", run_id, "--json", *self.connection))
        return status

    def stages(self, run_id: str) -> dict[str, str]:
        return {stage["name"]: stage["state"] for stage in self.status(run_id)["stages"]}

    def record(self, run_id: str) -> dict[str, Any]:
        """Return the record of a run, or skip the test if this machine cannot reach the root."""
        if not self.records_can_be_read:
            pytest.skip(f"records are not compared: {self.root} cannot be reached from this machine")
        content = (Location.of(self.root) / "records" / run_id).content("record.json")
        record: dict[str, Any] = json.loads(content or b"")
        return record

    def checkpoints(self) -> int:
        trainings = (Location.of(self.root) / "checkpoints").children() if self.records_can_be_read else []
        return sum(checkpoint.name.startswith("step-") for training in trainings for checkpoint in training.children())


@pytest.fixture(
    scope="module",
    params=["folder", *(pytest.param(name, marks=pytest.mark.long) for name in ("bucket", "containers"))],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubeflow")
    host, context = os.environ.get("KF_PIPELINES_ENDPOINT", ""), os.environ.get("KUBE_CONTEXT", "")
    in_bucket = request.param != "folder"
    if host or context:
        if request.param == "containers" or in_bucket != buckets.is_uri(os.environ.get("ROOT", "")):
            pytest.skip(f"ROOT is not in a {request.param}")
        connection = [*(["--host", host] if host else []), *(["--kube-context", context] if context else [])]
        root, claim, images = (os.environ.get(name, "") for name in ("ROOT", "CLAIM", "IMAGES"))
        assert root, "ROOT is required: a folder in a bucket, or where the volume of CLAIM is mounted"
        kubeflow = Cluster(connection, root, folder, {**os.environ})
        compile_for(kubeflow, claim, ["--images", str(Path(images).resolve())] if images else ["--allow-tags"])
        yield kubeflow
        return
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contract_server.serving())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        docker_run: tuple[str, ...] = ()
        if request.param == "containers":
            client = required.client()
            required.image(client, "train-cpu")
            (folder / "nothing").mkdir()
            for parent in (folder, folder.parent):  # pytest's own are for their owner alone
                parent.chmod(0o755)
            network = "wgan-test-kubeflow"
            docker_run = (client, "run", "--rm", "--network", network, "--user", "12345:0", *required.HARDENED)
            docker_run += ("--env", f"STORAGE_EMULATOR_HOST={BUCKETS}")
            started = stack.enter_context(Containers(client, required.image(client, "preprocess"), network))
            started.serve(folder / "nothing")
            patch.setenv("STORAGE_EMULATOR_HOST", f"http://{started.address_of('buckets')}:8080")
        else:
            storage = stack.enter_context(bucket_server.serving())
            storage.create_bucket("b")
            patch.setenv("STORAGE_EMULATOR_HOST", storage.url)
        (folder / "root").mkdir(mode=0o750)
        root = "gs://b/runs" if in_bucket else str(folder / "root")
        kubeflow = Cluster(["--host", server.url], root, folder, {**os.environ})
        compile_for(kubeflow, "" if in_bucket else "runs", ["--allow-tags"])
        stack.callback(Worker(server, folder / "pods", docker_run).stop)
        yield kubeflow


def compile_for(cluster: Cluster, claim: str, flags: list[str]) -> None:
    stage = {"cpu_request": 1, "memory_request": "2Gi"} | ({"volume_claims": {claim: cluster.root}} if claim else {})
    profiles = {"acceptance": {"kfp": {"stages": {"others": stage}}}}
    (cluster.folder / "profiles.yaml").write_text(yaml.safe_dump(profiles))
    cluster.wgan("compile", "--profiles", "profiles.yaml", "--profile", "acceptance", *flags)


def test_a_bad_model_is_rejected(cluster: Cluster) -> None:
    run_id = cluster.submit(distance_limit=1e-6, run_name="a bad model")
    stages = cluster.stages(run_id)
    assert (stages["evaluate"], stages["publish"]) == ("SUCCEEDED", "SKIPPED")
    record = cluster.record(run_id)
    assert (record["state"], record["verdict"], record["version"]) == ("SUCCEEDED", "REJECT", None)
    assert (record["run_name"], record["reason"][:6]) == ("a bad model", "REJECT")


def test_a_good_one_is_published(cluster: Cluster) -> None:
    run_id = cluster.submit()
    assert cluster.stages(run_id)["publish"] == "SUCCEEDED"
    record = cluster.record(run_id)
    assert (record["state"], record["verdict"], record["version"]) == ("SUCCEEDED", "PROMOTE", 1)
    assert not record["training"]["made"]  # the rejected run had trained it
    assert record["created"]


def test_unchanged_data_is_skipped(cluster: Cluster) -> None:
    run_id = cluster.submit()
    assert cluster.stages(run_id)["decide"] == "SUCCEEDED"
    assert cluster.status(run_id)["state"] == ("SKIPPED" if cluster.records_can_be_read else "SUCCEEDED")
    assert cluster.record(run_id)["state"] == "SKIPPED"


def test_a_schedule_starts_runs_until_it_is_deleted(cluster: Cluster) -> None:
    before = json.loads(cluster.wgan("status", "--json", *cluster.connection))
    values = {**SMALL, "root": cluster.root}
    settings = {"package": "pipeline.yaml", "target": "kfp", "experiment": "acceptance", "parameters": values}
    file = cluster.folder / "schedules.yaml"
    file.write_text(yaml.safe_dump({"schedules": {"acceptance": {"cron": "* * * * *", **settings}}}))
    cluster.wgan("schedule", "apply", *cluster.connection)

    def new() -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = json.loads(cluster.wgan("status", "--json", *cluster.connection))
        return [run for run in runs if run["run_id"] not in {old["run_id"] for old in before}]

    until(new, _LIMIT_SECONDS)
    cluster.wgan("schedule", "pause", "acceptance", *cluster.connection)
    scheduled = new()[-1]["run_id"]
    cluster.wgan("status", scheduled, "--wait", *cluster.connection)
    file.write_text(yaml.safe_dump({"schedules": {}}))
    until(lambda: all(run["finished"] for run in new()), _LIMIT_SECONDS)
    cluster.wgan("schedule", "apply", "--prune", "--target", "kfp", *cluster.connection)
    assert cluster.record(scheduled)["state"] == "SKIPPED"


def test_a_run_that_failed_is_fixed_and_retried(cluster: Cluster) -> None:
    pictures = f"{cluster.root}/pictures"
    run_id = cluster.submit(source=pictures, code=waiting.FAILED)
    assert cluster.stages(run_id)["decide"] == "FAILED"
    record = cluster.record(run_id)
    assert (record["state"], pictures in record["reason"]) == ("FAILED", True)
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, [300, 16, 16, 3], np.uint8)):
        file = Location.of(pictures) / f"{number}.png"
        with io.BytesIO() as encoded:
            PIL.Image.fromarray(pixels).save(encoded, "PNG")
            file.write_file(encoded.getvalue())
    cluster.wgan("retry", run_id, "--wait", *cluster.connection)
    record = cluster.record(run_id)
    assert (record["state"], record["stages"]["decide"]["attempt"]) == ("SUCCEEDED", 4)  # three before the retry


def test_a_canceled_training_goes_on_when_it_is_retried(cluster: Cluster) -> None:
    before = cluster.checkpoints()
    run_id = cluster.submit(steps=3000, seed=5, wait=False)
    until(lambda: cluster.stages(run_id).get("train") == "RUNNING", _LIMIT_SECONDS)
    if cluster.records_can_be_read:
        until(lambda: cluster.checkpoints() > before, _LIMIT_SECONDS)
    else:
        time.sleep(30)
    cluster.wgan("cancel", run_id, *cluster.connection)
    cluster.wgan("status", run_id, "--wait", *cluster.connection, code=waiting.CANCELED)
    assert cluster.record(run_id)["state"] == "CANCELED"
    cluster.wgan("retry", run_id, "--wait", *cluster.connection)
    record = cluster.record(run_id)
    assert (record["state"], record["stages"]["train"]["attempt"]) == ("SUCCEEDED", 2)
    assert record["training"]["made"]


def test_other_users_cannot_read_the_results(cluster: Cluster) -> None:
    root = Location.of(cluster.root)
    if root.in_bucket or not root.path.is_dir():
        pytest.skip(f"{cluster.root} is elsewhere")
    pictures = root.path / "pictures"
    wrong = against_umask(root.path, 0o027)
    assert [path for path in wrong if not Path(path).is_relative_to(pictures)] == []
