"""A file that is no package of this pipeline is never sent."""

from pathlib import Path

import pytest

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
