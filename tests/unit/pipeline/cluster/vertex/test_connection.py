"""The flags of Vertex, and logging in to Google Cloud, for which a server on loopback gives out tokens."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import ConfigError, StageError, TransientError
from pipeline.cluster import backends
from pipeline.cluster.backend import Submission
from pipeline.cluster.vertex import connection as vertex_connection
from pipeline.cluster.vertex.connection import VertexConnection
from pipeline.cluster.vertex.schedules import VertexBackend
from tests.fakes import http

GOOD: dict[str, Any] = {"project": "my-project-1", "location": "us-central1"}
LogIn = Callable[[dict[str, str]], None]


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    # Neither the user's own login nor Google's metadata server.
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "no-login"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def read(**flags: str) -> VertexConnection:
    parser = argparse.ArgumentParser()
    backends.add_flags(parser)
    words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    return vertex_connection.from_flags(parser.parse_args(words))


def test_flags_and_what_the_environment_says_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-environment")
    monkeypatch.setenv("CLOUD_ML_REGION", "europe-west4")
    assert read() == VertexConnection(project="of-environment", location="europe-west4")
    monkeypatch.setenv("GOOGLE_CLOUD_REGION", "europe-west1")
    assert read(project="other-project") == VertexConnection(project="other-project", location="europe-west1")
    assert read(**GOOD) == VertexConnection(**GOOD)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({}, ["project", "location"]),
        (GOOD | {"project": "My Project"}, ["project must be .*'My Project'"]),
        (GOOD | {"location": "us-central1-a"}, ["location must be .* its region is us-central1$"]),
        (GOOD | {"api_endpoint": "http://vertex.example.com:80"}, ["api_endpoint .*'http://vertex.example.com:80'"]),
    ],
)
def test_what_is_missing_or_malformed_is_reported(flags: dict[str, str], named: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(**flags)
    assert len(refusal.value.problems) == len(named)
    assert all(map(re.match, named, refusal.value.problems))


class Tokens(http.Server):
    """Gives out access tokens, or refuses, as OAuth 2 says."""

    status = 400
    content: Mapping[str, object] = {"error": "invalid_grant", "error_description": "it has expired"}

    def answer(self, request: http.Request) -> http.Answer:
        return http.json_answer(self.status, self.content)


@pytest.fixture
def log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LogIn:
    """Make something the application default credentials."""

    def write(credentials: dict[str, str]) -> None:
        file = tmp_path / "credentials.json"
        file.write_text(json.dumps(credentials))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    return write


def login_refusal(kind: type[StageError]) -> str:
    with pytest.raises(kind) as refusal:
        _ = VertexConnection(**GOOD).pipelines
    assert len(str(refusal.value).splitlines()) == 1
    return str(refusal.value)


def test_nobody_is_logged_in() -> None:
    assert "gcloud auth application-default login" in login_refusal(ConfigError)


def test_a_token_is_given_out_refused_or_not_to_be_had(log_in: LogIn) -> None:
    with http.serving(Tokens()) as tokens:
        user = {"client_id": "id", "client_secret": "secret", "refresh_token": "refresh"}
        user |= {"token_url": f"{tokens.url}/token", "token_info_url": f"{tokens.url}/token"}
        audience = "//iam.googleapis.com/locations/global/workforcePools/pool/providers/provider"
        log_in({"type": "external_account_authorized_user", "audience": audience, **user})
        refusal = login_refusal(ConfigError)
        assert "it has expired" in refusal
        assert "gcloud auth application-default login" in refusal
        tokens.status, tokens.content = 200, {"access_token": "given-out", "expires_in": 3600}
        client = VertexConnection(**GOOD).pipelines
        assert client.api_endpoint == "us-central1-aiplatform.googleapis.com"
        assert client.transport._credentials.token == "given-out"  # noqa: S105
        other = VertexConnection(**GOOD, api_endpoint="vertex.internal:443")
        assert other.schedules.api_endpoint == "vertex.internal:443"
    login_refusal(TransientError)


def test_a_key_of_an_account_needs_nobody(log_in: LogIn) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    email, nobody = "trainer@my-project-1.iam.gserviceaccount.com", "http://127.0.0.1:9/nobody"
    log_in({"type": "service_account", "client_email": email, "private_key": pem.decode(), "token_uri": nobody})
    credentials = VertexConnection(**GOOD).pipelines.transport._credentials
    credentials.refresh(None)
    assert credentials.token


def test_the_library_is_missing(wanted: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("google.cloud.aiplatform_v1", raising=False)
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform_v1", None)
    runs = VertexBackend(VertexConnection(**GOOD))
    for ask in (lambda: runs.recent(1), lambda: runs.status("a"), lambda: runs.submit(wanted)):
        with pytest.raises(ConfigError, match="google-cloud-aiplatform"):
            ask()
