"""A `kfp.Client` that is made without asking anything, keeps nothing on this machine, and gives up in seconds.

Import this only where a server is about to be asked: kfp takes its time.
"""

import json
import warnings
from typing import Any

import kfp
import kfp_server_api
from kfp_server_api.rest import RESTClientObject

from components.errors import ConfigError


class Client(kfp.Client):  # type: ignore[misc] # kfp has no types
    """The SDK's client; `multi_user`, `version` and `namespace` hold once `greet` has asked the server.

    Attributes:
        multi_user: Whether the server serves many users.
        version: What the server calls itself.
        namespace: To be sent with requests: empty where the server serves one user, as some then fail.
    """

    def __init__(
        self, configuration: kfp_server_api.Configuration, namespace: str, cookie: str, seconds: tuple[float, float]
    ) -> None:
        """Makes the client.

        Args:
            configuration: Where the server is, and whom we are there.
            namespace: Whose runs are asked for, on a server of many users.
            cookie: Cookie header; empty for none.
            seconds: How long to wait for a connection, and for an answer.

        Raises:
            ConfigError: A file that kfp keeps in the user's home folder cannot be read.
        """
        self.given, self.given_namespace = configuration, namespace
        self.multi_user, self.version, self.namespace = False, "unknown", ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                # Without a cookie it would take one from that file.
                super().__init__(cookies=cookie)
            except json.JSONDecodeError:
                raise ConfigError("~/.config/kfp/context.json is not JSON: mend or remove it") from None
        self.api_client = self._run_api.api_client
        self.api_client.rest_client = BoundedRequests(configuration, seconds)

    def _load_config(self, *args: Any, **kwargs: Any) -> kfp_server_api.Configuration:
        """What was given. The SDK's own prefers variables and the cluster around it to what it is told."""
        return self.given

    def get_kfp_healthz(self, sleep_duration: int = 5) -> kfp_server_api.V2beta1GetHealthzResponse:
        """What the SDK would ask for five times, with tracebacks, as soon as it is made."""
        return kfp_server_api.V2beta1GetHealthzResponse(multi_user=self.multi_user)

    def get_user_namespace(self) -> str:
        """The namespace that the SDK sends where it is told none."""
        return self.namespace

    def greet(self) -> None:
        """Asks the server what it is, and whom it serves.

        Raises:
            ConfigError: It is no server of Kubeflow Pipelines.
        """
        answer = self._healthz_api.healthz_service_get_healthz()
        told = json.loads(self.api_client.last_response.data)
        if not isinstance(told, dict) or not told.keys() & {"multi_user", "tag_name"}:
            raise ConfigError(f"{self.given.host} is no server of Kubeflow Pipelines; check --host")
        self.multi_user = bool(answer.multi_user)
        self.version = str(told.get("tag_name", "unknown"))
        self.namespace = self.given_namespace if self.multi_user else ""


class BoundedRequests(RESTClientObject):  # type: ignore[misc] # kfp_server_api has no types
    """What sends requests: each with limits of time, and taking nothing but the API's answers for one."""

    def __init__(self, configuration: kfp_server_api.Configuration, seconds: tuple[float, float]) -> None:
        super().__init__(configuration)
        self.host, self.seconds = configuration.host, seconds

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        kwargs["_request_timeout"] = kwargs.get("_request_timeout") or self.seconds
        try:
            answer = super().request(method, url, **kwargs)
        except kfp_server_api.ApiException as error:
            # The client around this decodes the body, whatever it is, and fails itself where there is none.
            error.body = (error.body or b"").decode(errors="replace").encode()
            raise
        if answer.data:
            try:
                json.loads(answer.data)
            except ValueError:
                kind = answer.getheader("Content-Type") or "something"
                raise ConfigError(
                    f"{self.host} answers with {kind}, not as the API does: log in "
                    "(--cookie_file or --token_file), or check --host"
                ) from None
        return answer
