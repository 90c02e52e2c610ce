"""Each target has its flags; those of another are unknown."""

from pathlib import Path

import pytest

from components.core import errors
from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.cluster.conftest import complaints, submit

pytestmark = pytest.mark.usefixtures("bare_desk", "logged")


def test_flags_of_the_other_target_are_refused(
    server: Server, packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert submit(server, packages / "vertex.yaml", "--seed", "1", "--sed=2") == errors.BAD_CONFIGURATION
    lines = complaints(caplog)
    assert any("host" in line and "kfp" in line and "vertex" in line for line in lines)
    assert any(line.endswith(" seed?") for line in lines)
    assert server.requests == []
