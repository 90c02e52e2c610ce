"""Real packages, compiled and read once, and an environment without credentials or a home folder."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cluster import waiting
from pipeline.cluster.backend import Submission
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from pipeline.kfp_graph import compiled_package
from pipeline.package import reader
from pipeline.profiles import targets
from tests.fakes.kubeflow.server import Server, serving
from tests.unit.pipeline.cluster import worlds
from tests.unit.pipeline.cluster.worlds import World
from tests.unit.pipeline.conftest import Ended, ended
from tests.unit.pipeline.packages import DIGESTS, PROFILES, package_of


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package for each target: `kfp.yaml`, which mounts a volume at /data, and `vertex.yaml`."""
    folder = tmp_path_factory.mktemp("packages")
    profile = PROFILES["cpu", targets.KFP]
    mounted = {"volume_claims": {"wgan-runs": "/data"}}
    stages = {name: stage.model_copy(update=mounted) for name, stage in profile.stages.items()}
    with_volume = compiled_package(DIGESTS, dataclasses.replace(profile, stages=stages))
    (folder / "kfp.yaml").write_bytes(with_volume)
    (folder / "vertex.yaml").write_bytes(package_of("cpu", targets.VERTEX))
    return folder


@pytest.fixture(params=targets.TARGETS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The fake server of each target, in turn."""
    with worlds.world(request.param) as target_world:
        yield target_world


def submission_for(target: str, packages: Path, root: str = "/data/runs") -> Submission:
    """Return a run to start on a target."""
    return Submission(
        package=reader.read(packages / f"{target}.yaml"),
        parameters={"source": "digits", "root": root},
        experiment="mine",
        run_name="first",
        pipeline_root="gs://runs/vertex" if target == targets.VERTEX else "",
    )


@pytest.fixture(scope="session")
def kfp_run(packages: Path) -> Submission:
    return submission_for(targets.KFP, packages)


@pytest.fixture
def bare_desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables that name a server or hold a secret, an empty state folder, and waits without waiting."""
    for name in (
        *("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "KF_PIPELINES_SA_TOKEN_PATH"),
        *("KFP_TOKEN", "KFP_COOKIE", "KUBECONFIG"),
        *("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)


@pytest.fixture
def server(bare_desk: None) -> Iterator[Server]:
    """A fake of Kubeflow, on which nothing was ended by mistake."""
    with serving() as kubeflow:
        yield kubeflow
    assert kubeflow.store.killed_runs == []


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Name a server as the context `here` of the kubeconfig, which is not the current one."""

    def write(url: str) -> None:
        urls = {"here": url, "elsewhere": "http://127.0.0.1:9"}
        content = {
            "current-context": "elsewhere",
            "clusters": [{"name": name, "cluster": {"server": address}} for name, address in urls.items()],
            "users": [{"name": "me", "user": {"token": "of-the-cluster"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in urls],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(path))

    return write


@pytest.fixture
def runs(server: Server) -> KubeflowBackend:
    return KubeflowBackend(KubeflowConnection(host=server.url))


@pytest.fixture
def started(runs: KubeflowBackend, kfp_run: Submission) -> str:
    """The id of a run that was submitted to Kubeflow."""
    return runs.submit(kfp_run).run_id


def submit(world: World, package: Path, *words: str) -> Ended:
    required = ("--package", str(package), "--source", "gs://images", "--root", "/data/runs")
    return ended("submit", *required, *world.pipeline_root, *world.flags, *words)


def on(world: World, verb: str, *words: str) -> Ended:
    """Run a `wgan` command on a target's server."""
    return ended(verb, *words, "--target", world.target, *world.flags)


Write = Callable[..., None]
Schedule = Callable[..., tuple[int, list[str], list[str]]]


def write_schedules(path: Path, package: Path, target: str, **schedules: dict[str, Any]) -> None:
    """Write a file of schedules by name, each with additional or changed settings."""
    usual = {
        "cron": "0 9 * * 1",
        "package": str(package),
        "target": target,
        "experiment": "retraining",
        "pipeline_root": "gs://bucket/root",
        "parameters": {"source": "gs://images", "root": "/data/runs", "critic_learning_rate": 0.001},
    }
    content = {"schedules": {name: {**usual, **settings} for name, settings in schedules.items()}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schedules.yaml"


@pytest.fixture
def write(path: Path, packages: Path) -> Write:
    return lambda **schedules: write_schedules(path, packages / "kfp.yaml", "kfp", **schedules)


@pytest.fixture
def schedule(path: Path, server: Server) -> Schedule:
    """Run `wgan schedule ...`; return its exit code, output without ids, and log."""

    def run(*words: str) -> tuple[int, list[str], list[str]]:
        done = ended("schedule", *words, "--file", str(path), "--host", server.url)
        return done.code, re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", done.out).splitlines(), done.log

    return run


def recurring(server: Server) -> list[dict[str, Any]]:
    return list(server.store.recurring_runs.values())
