"""Real packages, read once, and a desk without credentials or a home of its own."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cluster import run_commands, submission, waiting
from pipeline.cluster.submission import ClusterPackage, read_package
from pipeline.compile import compiled_package
from pipeline.profiles import profiles


def compiled(folder: Path, target: str) -> Path:
    path = folder / f"{target}.yaml"
    path.write_bytes(compiled_package(profile=profiles.choose(profiles.read(), "cpu", target)))
    return path


@pytest.fixture(scope="session")
def kfp_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("packages"), profiles.KFP)


@pytest.fixture(scope="session")
def read_kfp_package(kfp_package: Path) -> ClusterPackage:
    return read_package(kfp_package, profiles.KFP)


@pytest.fixture(scope="session")
def vertex_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("packages"), profiles.VERTEX)


@pytest.fixture
def bare_desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables that name a server or hold a secret, a state folder of its own, and waits that do not wait."""
    for name in (
        *("KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "KF_PIPELINES_SA_TOKEN_PATH"),
        *("KFP_TOKEN", "KFP_COOKIE", "KUBECONFIG"),
        *("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> None:
    """Captures what the commands log."""
    caplog.set_level("INFO", logger="pipeline")


@pytest.fixture(scope="session")
def _reads_once() -> Callable[..., ClusterPackage]:
    return functools.cache(read_package)


@pytest.fixture
def packages_read_once(_reads_once: Callable[..., ClusterPackage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages stay as they are here, and take most of the time to read."""
    monkeypatch.setattr(submission, "read_package", _reads_once)
    monkeypatch.setattr(run_commands, "read_package", _reads_once)
