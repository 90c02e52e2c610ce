"""`wgan submit` sends nothing that cannot run."""

from pathlib import Path

import pytest
import yaml

from components.core import errors
from pipeline.__main__ import main
from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.cluster.conftest import complaints, submit

pytestmark = pytest.mark.usefixtures("bare_desk", "logged")


@pytest.mark.parametrize("text", ["a: [1,\n  b: }", "", "[]", "a: b"])
def test_what_is_no_package_is_never_sent(
    server: Server, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    assert submit(server, path) == errors.BAD_CONFIGURATION
    assert len(complaints(caplog)) == 1
    assert server.requests == []


def test_a_file_of_settings_is_submitted_and_flags_override_it(server: Server, packages: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("root: /data/mine\npreprocess: {source: fashion-mnist}\ntrain: {steps: 1e3, batch_size: 8}\n")
    flags = ("submit", "--host", server.url, "--package", str(packages / "kfp.yaml"), "--config", str(path))
    assert main([*flags, "--batch_size", "16"]) == errors.OK
    (run,) = server.store.runs.values()
    expected = {"root": "/data/mine", "source": "fashion-mnist", "steps": 1000, "batch_size": 16}
    assert run["runtime_config"]["parameters"] == expected


def test_mistakes_in_a_file_of_settings_are_reported_with_those_of_flags(
    server: Server, packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("train:\n  steps: 0\n")
    assert submit(server, packages / "kfp.yaml", "--config", str(path), "--seed", "x") == errors.BAD_CONFIGURATION
    in_file, in_flag = complaints(caplog)
    assert "line 2: train.steps" in in_file
    assert "seed" in in_flag
    assert server.requests == []


def test_flags_of_the_other_target_are_refused(
    server: Server, packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert submit(server, packages / "vertex.yaml", "--seed", "1", "--sed=2") == errors.BAD_CONFIGURATION
    lines = complaints(caplog)
    assert any("host" in line and "kfp" in line and "vertex" in line for line in lines)
    assert any(line.endswith(" seed?") for line in lines)
    assert server.requests == []


@pytest.mark.parametrize("root", ["/data", "/data/runs", "/data/../data/runs", "gs://bucket/runs"])
def test_results_may_go_into_a_bucket_or_a_volume_of_every_stage(server: Server, packages: Path, root: str) -> None:
    assert submit(server, packages / "kfp.yaml", "--root", root) == errors.OK


@pytest.mark.parametrize("root", ["/dat", "/database", "/data/../runs"])
def test_a_folder_that_no_volume_holds_is_refused(
    server: Server, packages: Path, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert submit(server, packages / "kfp.yaml", "--root", root) == errors.BAD_CONFIGURATION
    (line,) = complaints(caplog)
    for named in (root, "volume_claims", "gs://", "decide"):
        assert named in line
    assert server.requests == []


def test_a_stage_without_the_volume_is_named(
    server: Server, packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package, platforms = yaml.safe_load_all((packages / "kfp.yaml").read_text())
    del platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-embed"]
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump_all([package, platforms]))
    assert submit(server, path) == errors.BAD_CONFIGURATION
    (line,) = complaints(caplog)
    assert "embed" in line
    assert "decide" not in line
