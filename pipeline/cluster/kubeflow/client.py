"""The generated API of Kubeflow Pipelines over one connection: one try per request, with time limits.

Import this only where a server is about to be asked: kfp_server_api takes 0.2 seconds.
"""

import json
from typing import Any

import kfp_server_api
from kfp_server_api.rest import RESTClientObject

from components.core.errors import ConfigError
from pipeline.cluster import redaction, refusals


class Client:
    """The services of one server, which has said what it is."""

    def __init__(
        self, configuration: kfp_server_api.Configuration, namespace: str, cookie: str, seconds: tuple[float, float]
    ) -> None:
        """Ask the server for its version and whom it serves; `seconds` limit a connection, and an answer."""
        self.api_client = kfp_server_api.ApiClient(configuration, cookie=cookie or None)
        self.api_client.rest_client = _BoundedRequests(configuration, seconds)
        self.experiments = kfp_server_api.ExperimentServiceApi(self.api_client)
        self.pipelines = kfp_server_api.PipelineServiceApi(self.api_client)
        self.recurring_runs = kfp_server_api.RecurringRunServiceApi(self.api_client)
        self.runs = kfp_server_api.RunServiceApi(self.api_client)
        self.uploads = kfp_server_api.PipelineUploadServiceApi(self.api_client)
        kfp_server_api.HealthzServiceApi(self.api_client).healthz_service_get_healthz()
        # The generated model drops the version.
        answer = json.loads(self.api_client.last_response.data)
        host = configuration.host
        if not isinstance(answer, dict) or not answer.keys() & {"multi_user", "tag_name"}:
            raise ConfigError(f"{host} is no server of Kubeflow Pipelines; check --host")
        multi_user = bool(answer.get("multi_user"))
        if multi_user and not namespace:
            raise ConfigError(f"{host} is a multi-user server: give --namespace")
        self.namespace = namespace if multi_user else ""  # with one, a server of one user refuses some requests


class _BoundedRequests(RESTClientObject):  # type: ignore[misc] # kfp_server_api has no types
    """Sends requests, each with time limits, and refuses answers that are not JSON."""

    def __init__(self, configuration: kfp_server_api.Configuration, seconds: tuple[float, float]) -> None:
        super().__init__(configuration)
        self.host, self.seconds = configuration.host, seconds

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        headers = kwargs.get("headers") or {}
        redaction.know_headers(headers.get("authorization"), headers.get("Cookie"))
        kwargs["_request_timeout"] = kwargs.get("_request_timeout") or self.seconds
        try:
            answer = super().request(method, url, **kwargs)
        except kfp_server_api.ApiException as error:
            # ApiClient decodes the body, and fails itself where there is none.
            error.body = (error.body or b"").decode(errors="replace").encode()
            raise
        try:
            json.loads(answer.data or "{}")
        except ValueError:
            kind = refusals.one_line(answer.getheader("Content-Type") or "something")
            raise ConfigError(
                f"{self.host} answers with {kind}, not as the API does: log in "
                "(--cookie-file or --token-file), or check --host"
            ) from None
        return answer
