"""How Vertex AI is reached: project, region and credentials, looked at before anything is sent."""

import argparse
import dataclasses
import functools
import logging
import os
import re
from typing import Any

from components.errors import ConfigError
from pipeline.cluster import vertex_answers

# Where Google's programs look as well.
_PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
_LOCATION_VARIABLES = ("GOOGLE_CLOUD_REGION", "CLOUD_ML_REGION")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_SECONDS = 20
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]+")
_LOCATION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_NETWORK = re.compile(r"projects/[0-9]+/global/networks/[a-z][a-z0-9-]{0,62}")
_BUCKET = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?")
_KEY = re.compile(r"projects/[^/]+/locations/([^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_ENDPOINT = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|http://(localhost|127\.0\.0\.1|\[::1\]):[0-9]+")
_PLAIN = "http://"
# A run may start as long as its graph, of which Vertex reads every word, can be sent; the rest is quick.
REQUEST_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class VertexConnection:
    """Where runs and schedules are.

    Attributes:
        project: The Google Cloud project's id.
        location: The region.
        network: The network that jobs are peered with, in full; empty for none.
        staging_bucket: Where artefacts of runs lie that name no pipeline root; `gs://...`, or empty.
        encryption_key: The key of Cloud KMS that runs are encrypted with, in full; empty for Google's own.
        api_endpoint: Another address of the API; empty for that of the region. With `http://`, a server on this
            machine, which is sent no credentials.
    """

    project: str
    location: str
    network: str = ""
    staging_bucket: str = ""
    encryption_key: str = ""
    api_endpoint: str = ""

    @property
    def parent(self) -> str:
        """What everything there is named below."""
        return f"projects/{self.project}/locations/{self.location}"

    def pipelines(self) -> Any:
        """A client for runs.

        Raises:
            ConfigError: google-cloud-aiplatform is not installed, or there are no credentials, or they are refused.
            TransientError: Whoever gives out access tokens does not answer.
        """
        return self._client("PipelineServiceClient")

    def schedules(self) -> Any:
        """A client for schedules; see `pipelines`."""
        return self._client("ScheduleServiceClient")

    def _client(self, name: str) -> Any:
        aiplatform_v1 = library()
        client_class = getattr(aiplatform_v1, name)
        if self.api_endpoint.startswith(_PLAIN):
            import grpc

            # Neither a proxy nor a token is for a server of this machine.
            address = self.api_endpoint.removeprefix(_PLAIN)
            channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
            return client_class(transport=client_class.get_transport_class("grpc")(channel=channel))
        endpoint = self.api_endpoint or f"{self.location}-aiplatform.googleapis.com"
        return client_class(credentials=_credentials(), client_options={"api_endpoint": endpoint})


def library() -> Any:
    """Google's library for Vertex, which takes seconds to import: to be asked for as late as can be.

    Raises:
        ConfigError: It is not installed.
    """
    # It tells of every connection that ends, in lines of its own; read once, when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from google.cloud import aiplatform_v1
    except ImportError:
        raise ConfigError(
            "google-cloud-aiplatform is needed for Vertex: pip install 'wgan-gp-pipeline[vertex]'"
        ) from None
    return aiplatform_v1


def _credentials() -> Any:
    """The application default credentials, with an access token: gRPC would ask again and again for one, in vain."""
    import google.auth
    import google.auth.transport.requests
    from google.oauth2 import service_account

    # It would warn that no project is named, which is ours to ask for.
    logging.getLogger("google.auth._default").setLevel(logging.ERROR)
    with vertex_answers.in_one_line("log in to Google Cloud"):
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        if isinstance(credentials, service_account.Credentials):
            # As the clients do themselves: such a token needs nobody's answer. (google-auth types few functions.)
            credentials = credentials.with_always_use_jwt_access(True)  # type: ignore[no-untyped-call]
        request = google.auth.transport.requests.Request()
        credentials.refresh(functools.partial(request, timeout=_TOKEN_SECONDS))  # type: ignore[no-untyped-call]
    return credentials


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `from_flags` reads."""
    group = parser.add_argument_group(
        "Vertex AI", "Credentials are the application default ones: gcloud auth application-default login."
    )
    group.add_argument("--project", help=f"id of the Google Cloud project (default: {_PROJECT_VARIABLE})")
    group.add_argument(
        "--location", metavar="REGION", help=f"its region, such as us-central1 (default: {_LOCATION_VARIABLES[0]})"
    )
    group.add_argument(
        "--network", help="network that jobs are peered with: projects/NUMBER/global/networks/NAME (default: none)"
    )
    group.add_argument(
        *("--staging_bucket", "--staging-bucket"),
        metavar="gs://...",
        help="where Vertex keeps what stages hand it (metrics, reports), unless a pipeline root is given",
    )
    group.add_argument(
        *("--encryption_key", "--encryption-key"),
        metavar="KEY",
        help="key that runs are encrypted with: projects/.../locations/.../keyRings/.../cryptoKeys/... (default: "
        "Google's own)",
    )
    group.add_argument(
        *("--api_endpoint", "--api-endpoint"),
        metavar="HOST",
        help="another address of the API, such as one of Private Service Connect (default: that of the region)",
    )


def from_flags(parsed: argparse.Namespace) -> VertexConnection:
    """What the flags, and the variables of the environment, say; nothing is asked of anybody.

    Raises:
        ConfigError: With everything that is missing or malformed.
    """
    location_of_environment = next(filter(None, map(os.environ.get, _LOCATION_VARIABLES)), None)
    connection = VertexConnection(
        project=parsed.project or os.environ.get(_PROJECT_VARIABLE) or "",
        location=parsed.location or location_of_environment or "",
        network=parsed.network or "",
        staging_bucket=(parsed.staging_bucket or "").rstrip("/"),
        encryption_key=parsed.encryption_key or "",
        api_endpoint=parsed.api_endpoint or "",
    )
    problems = _problems(connection)
    if problems:
        raise ConfigError(*problems)
    return connection


def _problems(connection: VertexConnection) -> list[str]:
    """A sentence for everything that is missing or malformed."""
    found = []
    project, location = connection.project, connection.location
    if not project:
        found.append(f"project is required for Vertex: give --project, or set {_PROJECT_VARIABLE}")
    elif not _PROJECT.fullmatch(project):
        found.append(f"project must be the id of a Google Cloud project, such as my-project-123, got {project!r}")
    if not location:
        found.append(f"location is required for Vertex: give --location, or set {_LOCATION_VARIABLES[0]}")
    elif not _LOCATION.fullmatch(location):
        zone = re.fullmatch(rf"({_LOCATION.pattern})-[a-z]", location)
        meant = f": {location} is a zone, its region is {zone[1]}" if zone else ""
        found.append(f"location must be a region, such as us-central1, got {location!r}{meant}")
    if connection.network and not _NETWORK.fullmatch(connection.network):
        found.append(
            "network must be projects/NUMBER/global/networks/NAME, with the number of the project, "
            f"got {connection.network!r}"
        )
    if connection.staging_bucket:
        found += pipeline_root_problems("staging_bucket", connection.staging_bucket)
    if connection.encryption_key:
        key = _KEY.fullmatch(connection.encryption_key)
        if key is None:
            found.append(
                "encryption_key must be projects/.../locations/.../keyRings/.../cryptoKeys/..., "
                f"got {connection.encryption_key!r}"
            )
        elif key[1] != location and _LOCATION.fullmatch(location):
            found.append(f"encryption_key is in {key[1]}, and runs in {location}: both must be in one region")
    if connection.api_endpoint and not _ENDPOINT.fullmatch(connection.api_endpoint):
        found.append(
            f"api_endpoint must be HOST or HOST:PORT, or http:// on this machine alone, got {connection.api_endpoint!r}"
        )
    return found


def pipeline_root_problems(setting: str, value: str) -> list[str]:
    """Why Vertex cannot keep artefacts there: a sentence, or none."""
    if _BUCKET.fullmatch(value):
        return []
    return [f"{setting} must be in a bucket of Google Cloud Storage for Vertex, gs://BUCKET/FOLDER, got {value!r}"]
