"""`wgan submit` sends nothing that cannot run."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from components.core import errors
from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.cluster import conftest
from tests.unit.pipeline.cluster.conftest import wgan
from tests.unit.pipeline.cluster.worlds import Kubeflow

pytestmark = pytest.mark.usefixtures("bare_desk")

Refused = Callable[..., list[str]]


@pytest.fixture
def refused(server: Server) -> Refused:
    """Submit a package, which is refused; return why."""

    def submit(package: Path, *words: str) -> list[str]:
        ended = conftest.submit(Kubeflow(server), package, *words)
        assert (ended.code, server.requests) == (errors.BAD_CONFIGURATION, [])
        return ended.complaints

    return submit


@pytest.mark.parametrize("text", ["a: [1,\n  b: }", "", "[]", "a: b"])
def test_what_is_no_package_is_never_sent(refused: Refused, tmp_path: Path, text: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    assert len(refused(path)) == 1


def test_a_file_of_settings_is_submitted_and_flags_override_it(server: Server, packages: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("root: /data/mine\npreprocess: {source: fashion-mnist}\ntrain: {steps: 1e3, batch_size: 8}\n")
    flags = ("submit", "--host", server.url, "--package", str(packages / "kfp.yaml"), "--config", str(path))
    assert wgan(*flags, "--batch_size", "16").code == errors.OK
    (run,) = server.store.runs.values()
    expected = {"root": "/data/mine", "source": "fashion-mnist", "steps": 1000, "batch_size": 16}
    assert run["runtime_config"]["parameters"] == expected


def test_mistakes_in_a_file_of_settings_are_reported_with_those_of_flags(
    refused: Refused, packages: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("train:\n  steps: 0\n")
    in_file, in_flag = refused(packages / "kfp.yaml", "--config", str(path), "--seed", "x")
    assert "line 2: train.steps" in in_file
    assert "seed" in in_flag


def test_flags_of_the_other_target_are_refused(refused: Refused, packages: Path) -> None:
    lines = refused(packages / "vertex.yaml", "--seed", "1", "--sed=2")
    assert any("host" in line and "kfp" in line and "vertex" in line for line in lines)
    assert any(line.endswith(" seed?") for line in lines)


@pytest.mark.parametrize("root", ["/data", "/data/runs", "/data/../data/runs", "gs://bucket/runs"])
def test_results_may_go_into_a_bucket_or_a_volume_of_every_stage(server: Server, packages: Path, root: str) -> None:
    assert conftest.submit(Kubeflow(server), packages / "kfp.yaml", "--root", root).code == errors.OK


@pytest.mark.parametrize("root", ["/dat", "/database", "/data/../runs"])
def test_a_folder_that_no_volume_holds_is_refused(refused: Refused, packages: Path, root: str) -> None:
    (line,) = refused(packages / "kfp.yaml", "--root", root)
    assert all(named in line for named in (root, "volume_claims", "gs://", "decide"))


def test_a_stage_without_the_volume_is_named(refused: Refused, packages: Path, tmp_path: Path) -> None:
    package, platforms = yaml.safe_load_all((packages / "kfp.yaml").read_text())
    del platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-embed"]
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump_all([package, platforms]))
    (line,) = refused(path)
    assert ("embed" in line, "decide" in line) == (True, False)
