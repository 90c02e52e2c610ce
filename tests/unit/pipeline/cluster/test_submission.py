"""A file that is no package of this pipeline is never sent."""

from pathlib import Path

import pytest
import yaml

from components.core import errors
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
