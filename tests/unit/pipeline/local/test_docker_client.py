"""Requests to Docker: an engine that never answers, and errors in one line."""

import shutil
import socket

import pytest

from components.core.errors import TransientError
from pipeline.local.docker_client import Docker, explained


def test_an_engine_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which(Docker().program):
        pytest.skip("no Docker client: install Docker")
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(TransientError, match="within 1 s"):
            Docker().ask("version", seconds=1.0)


def test_complaints_are_one_line() -> None:
    error = explained("Error response from daemon: write /var/lib/x: no space left on device.\nSee 'docker run'.\n")
    assert isinstance(error, TransientError)
    assert "docker system prune" in str(error)
    assert str(explained("Error: one\n\nline two\nSee 'docker create --help'.\n")) == "Docker: Error: one line two"
    assert str(explained("")).isprintable()
