"""Connection to Vertex AI: project, region and credentials, checked before anything is sent."""

import argparse
import dataclasses
import functools
import json
import logging
import os
import re
from typing import Any

from components.core.errors import ConfigError
from pipeline.cluster import redaction, refusals

_VARIABLES = {"project": ("GOOGLE_CLOUD_PROJECT",), "location": ("GOOGLE_CLOUD_REGION", "CLOUD_ML_REGION")}  # Google's
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_SECONDS = 20
_PROJECT = r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]+"
_LOCATION = r"[a-z]+-[a-z]+[0-9]+"
_ADDRESS = r"[A-Za-z0-9.-]+(:[0-9]+)?|http://(localhost|127\.0\.0\.1|\[::1\]):[0-9]+"
_API_ENDPOINT = "another address of the API, such as one of Private Service Connect (default: that of the region)"
# Flag name: the `metavar` and `help` of argparse.
FLAGS = {
    "project": ("ID", f"id of the Google Cloud project (default: {_VARIABLES['project'][0]})"),
    "location": ("REGION", f"its region, such as us-central1 (default: {_VARIABLES['location'][0]})"),
    "api_endpoint": ("HOST", _API_ENDPOINT),
}
# The pattern of each setting, and its description.
_FORMS = {
    "project": (_PROJECT, "the id of a Google Cloud project, such as my-project-123"),
    "location": (_LOCATION, "a region, such as us-central1"),
    "api_endpoint": (_ADDRESS, "HOST or HOST:PORT, or http:// on this machine alone"),
}
_PLAIN = "http://"
# Vertex reads the whole graph when a run starts, so that may take long; the rest is quick.
REQUEST_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class VertexConnection:
    """A project's region, and how to reach it. Nothing is sent before a client is asked for."""

    project: str
    location: str
    api_endpoint: str = ""  # empty for the region's; http:// is for a local server, which gets no credentials

    @property
    def parent(self) -> str:
        """Prefix of every resource name."""
        return f"projects/{self.project}/locations/{self.location}"

    # Clients for runs and for schedules, logged in.
    pipelines = functools.cached_property(lambda self: self._client("PipelineServiceClient"))
    schedules = functools.cached_property(lambda self: self._client("ScheduleServiceClient"))

    def _client(self, name: str) -> Any:
        client_class = getattr(library(), name)
        if self.api_endpoint.startswith(_PLAIN):
            import grpc

            # A local server gets neither a proxy nor a token.
            address = self.api_endpoint.removeprefix(_PLAIN)
            channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
            return client_class(transport=client_class.get_transport_class("grpc")(channel=channel))
        import google.auth
        import google.auth.transport.requests
        from google.oauth2 import service_account

        # It would warn about a missing project, which we check.
        logging.getLogger("google.auth._default").setLevel(logging.ERROR)
        with refusals.vertex("log in to Google Cloud"):
            credentials, _ = google.auth.default(scopes=[_SCOPE])
            if isinstance(credentials, service_account.Credentials):
                # As the clients do: such a token needs no server. (google-auth types few functions.)
                credentials = credentials.with_always_use_jwt_access(True)  # type: ignore[no-untyped-call]
            # With an access token: gRPC would request one again and again.
            request = functools.partial(google.auth.transport.requests.Request(), timeout=_TOKEN_SECONDS)
            credentials.refresh(request)  # type: ignore[no-untyped-call]
        redaction.know(credentials.token)
        endpoint = self.api_endpoint or f"{self.location}-aiplatform.googleapis.com"
        return client_class(credentials=credentials, client_options={"api_endpoint": endpoint})


def library() -> Any:
    """Return Google's library for Vertex, which takes seconds to import."""
    # It logs every connection that ends; its setting is read once, on import.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from google.cloud import aiplatform_v1
    except ImportError:
        install = "pip install 'wgan-gp-pipeline[vertex]'"
        raise ConfigError(f"google-cloud-aiplatform is needed for Vertex: {install}") from None
    return aiplatform_v1


def message(kind: str, content: dict[str, Any]) -> Any:
    """Return JSON as a message of Vertex, such as `PipelineJob`."""
    return getattr(library().types, kind).from_json(json.dumps(content))


def from_flags(parsed: argparse.Namespace) -> VertexConnection:
    """Return the connection of flags and environment; nothing is sent yet."""
    settings: dict[str, Any] = {}
    problems = []
    for name, (form, meaning) in _FORMS.items():
        variables = _VARIABLES.get(name, ())
        value = settings[name] = getattr(parsed, name) or next(filter(None, map(os.environ.get, variables)), "")
        if not value and variables:
            problems.append(f"{name} is required for Vertex: give --{name}, or set {variables[0]}")
        if value and not re.fullmatch(form, value):
            zone = re.fullmatch(rf"({_LOCATION})-[a-z]", value)
            hint = f": {value} is a zone, its region is {zone[1]}" if zone else ""
            problems.append(f"{name} must be {meaning}, got {value!r}{hint}")
    if problems:
        raise ConfigError(*problems)
    return VertexConnection(**settings)
