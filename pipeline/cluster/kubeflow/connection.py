"""Connection to a Kubeflow server: address, credentials, and a client that gives up in seconds.

`kfp.Client` retries for twenty seconds with tracebacks, waits forever for a silent server, and prefers the cluster
around it to the named host. So we use the generated API beneath it.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.core.errors import ConfigError, describe_os_error
from pipeline.cluster import redaction, refusals

if TYPE_CHECKING:
    from pipeline.cluster.kubeflow.client import Client

INSTALLED_IN = "kubeflow"  # namespace of Kubeflow Pipelines, and of its pods unless it serves many users
_IN_CLUSTER = f"http://ml-pipeline.{INSTALLED_IN}.svc.cluster.local:8888"
_SERVICE_PROXY = f"/api/v1/namespaces/{INSTALLED_IN}/services/ml-pipeline:http/proxy"
_TOKEN_VOLUME = "/var/run/secrets/kubeflow/pipelines/token"  # noqa: S105
_KUBE_CONTEXT = "context of the kubeconfig: logs are read there, and without a host its API server passes requests on"
# Flag name: the `metavar` and `help` of argparse.
FLAGS = {
    "host": ("URL", "the server (default: KF_PIPELINES_ENDPOINT; in a pod of its cluster, that one)"),
    "namespace": ("NAME", "namespace of the runs on a multi-user server"),
    "kube_context": ("NAME", _KUBE_CONTEXT),
    "token_file": ("FILE", "bearer token, read again for each request (default: KFP_TOKEN holds the token)"),
    "cookie_file": ("FILE", "Cookie header, such as authservice_session=... (default: KFP_COOKIE holds it)"),
    "ca_cert": ("FILE", "CA bundle that verifies the server's certificate"),
}


def from_flags(parsed: argparse.Namespace) -> "KubeflowConnection":
    """Return the connection of flags and environment; nothing is sent yet."""
    problems: list[str] = []
    host, token_file = parsed.host or os.environ.get("KF_PIPELINES_ENDPOINT", ""), parsed.token_file
    if not host and not parsed.kube_context:
        volume = os.environ.get("KF_PIPELINES_SA_TOKEN_PATH", _TOKEN_VOLUME)
        if Path(volume).exists():  # this is a pod of the cluster
            host, token_file = _IN_CLUSTER, token_file or volume
        else:
            problems.append("there is no server: give --host URL (or KF_PIPELINES_ENDPOINT), or --kube-context NAME")
    if re.match(r"(\w+://)?[^/]*@", host):
        problems += ["host must not hold a user or password, which are never sent: give --token-file or --cookie-file"]
    elif host and not re.match(r"https?://[^/]", host):
        problems.append(f"host must begin with http:// or https:// and name a server, got {host}")
    if token_file and not host:
        problems.append("kube_context has credentials of its own: leave out --token-file")
    secrets, token_variable = [], "KFP_TOKEN" if host else ""
    for secret in (("token_file", token_file, token_variable), ("cookie_file", parsed.cookie_file, "KFP_COOKIE")):
        try:
            secrets.append(_secret(*secret))
        except ConfigError as error:
            problems += error.problems
    if parsed.ca_cert and not Path(parsed.ca_cert).is_file():
        problems.append(f"ca_cert must be a file, got {parsed.ca_cert}")
    if problems:
        raise ConfigError(*problems)
    return KubeflowConnection(
        host=host.rstrip("/"),
        namespace=parsed.namespace,
        kube_context=parsed.kube_context,
        token=secrets[0],
        token_file=token_file,
        cookie=secrets[1],
        ca_cert=parsed.ca_cert,
        ui=os.environ.get("KF_PIPELINES_UI_ENDPOINT", "" if host == _IN_CLUSTER else host).rstrip("/"),
    )


def _secret(name: str, path: str, variable: str = "") -> str:
    """Return the content of a file, or else of a variable; it is sent as a header and never shown."""
    if not path:
        name, secret = variable, os.environ.get(variable, "").strip()
    else:
        try:
            secret = Path(path).read_text(errors="replace").strip()
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {describe_os_error(error)}") from None
        if not secret:
            raise ConfigError(f"{name} must not be empty, and {path} is")
    if not secret.isascii() or not secret.isprintable():
        raise ConfigError(f"{name} must hold one line of plain ASCII")
    return secret


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowConnection:
    """Connection to a server. Nothing is sent before `client` is used."""

    host: str  # empty to reach the server through the context's API server
    namespace: str = ""  # of the runs, on a multi-user server
    kube_context: str = ""  # context of the kubeconfig: for pods, and if there is no host
    token: str = dataclasses.field(default="", repr=False)
    token_file: str = ""  # read again for each request, because such files are renewed
    cookie: str = dataclasses.field(default="", repr=False)
    ca_cert: str = ""  # file with the CA bundle; empty for the system's
    ui: str = ""  # URL of the web pages; empty if it is unknown
    seconds: tuple[float, float] = (5.0, 30.0)  # time limits for a connection, and for an answer

    @functools.cached_property
    def client(self) -> "Client":
        """The client, after the server has identified itself and its mode."""
        import kfp_server_api

        from pipeline.cluster.kubeflow.client import Client

        configuration = kfp_server_api.Configuration()
        configuration.retries = False
        if not self.host:
            load_kube_config(configuration, self.kube_context)
            host, hook = f"{configuration.host.rstrip('/')}{_SERVICE_PROXY}", configuration.refresh_api_key_hook
            configuration.host = host
            if hook is not None:

                def renew_login(configuration: Any) -> None:
                    hook(configuration)  # it restores the API server's own address, and itself
                    configuration.host, configuration.refresh_api_key_hook = host, renew_login

                configuration.refresh_api_key_hook = renew_login
        else:
            configuration.host = self.host
            if self.token:
                configuration.api_key["authorization"] = self.token
                configuration.api_key_prefix["authorization"] = "Bearer"
            if self.token_file:

                def renew_token(configuration: Any) -> None:
                    configuration.api_key["authorization"] = _secret("token_file", self.token_file)

                configuration.refresh_api_key_hook = renew_token
        if self.ca_cert:
            configuration.ssl_ca_cert = self.ca_cert
        with self.explained("reach the server"):
            return Client(configuration, self.namespace, self.cookie, self.seconds)

    def explained(self, doing: str, perhaps_done: str = "") -> contextlib.AbstractContextManager[None]:
        """Turn errors of this server within the block into one line (see `refusals.kubeflow`)."""
        return refusals.kubeflow(doing, self.host or f"context {self.kube_context}", self.namespace, perhaps_done)

    @property
    def pod_namespace(self) -> str:
        return self.namespace or INSTALLED_IN


def load_kube_config(configuration: Any, context: str) -> None:
    """Configure a generated client by a context of the kubeconfig."""
    from kubernetes import config

    try:
        file = os.environ.get("KUBECONFIG") or None  # the library reads it only on import
        config.load_kube_config(config_file=file, client_configuration=configuration, context=context)
    except Exception as error:  # a broken file, a missing context and a failing login program raise various ones
        raise ConfigError(f"kube_context {context} cannot be used: {refusals.one_line(str(error))}") from None
    redaction.know_headers(*configuration.api_key.values())
