"""How to reach a Kubeflow server: its address, whom we are there, and a client that gives up in seconds.

`kfp.Client` alone probes for twenty seconds with tracebacks when it is not let in, waits without end for a server that
does not answer, takes a login page for an answer, and prefers the cluster around it to the one that was asked for.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from components import errors
from components.errors import ConfigError
from pipeline.cluster import kubeflow_answers

if TYPE_CHECKING:
    from pipeline.cluster.kubeflow_client import Client

# Where Kubeflow Pipelines is installed; its runs have their pods there too unless it serves many users.
INSTALLED_IN = "kubeflow"
_IN_CLUSTER = f"http://ml-pipeline.{INSTALLED_IN}.svc.cluster.local:8888"
_SERVICE_PROXY = f"/api/v1/namespaces/{INSTALLED_IN}/services/ml-pipeline:http/proxy"
_TOKEN_VOLUME = "/var/run/secrets/kubeflow/pipelines/token"  # noqa: S105
_WAYS = "give --host URL (or KF_PIPELINES_ENDPOINT), --kube_context NAME, or --in_cluster"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say where a server is, and whom we are there."""
    group = parser.add_argument_group("the Kubeflow server")
    group.add_argument("--host", metavar="URL", help="the server (default: KF_PIPELINES_ENDPOINT)")
    group.add_argument("--namespace", default="", help="whose runs these are, on a server of many users")
    group.add_argument(
        *("--kube_context", "--kube-context"),
        metavar="NAME",
        help="context of the kubeconfig: logs are read there, and without --host its API server passes requests on",
    )
    group.add_argument(
        *("--in_cluster", "--in-cluster"),
        action="store_true",
        help="we are in a pod of its cluster: as the account of the token volume (KF_PIPELINES_SA_TOKEN_PATH)",
    )
    group.add_argument(
        *("--token_file", "--token-file"),
        type=Path,
        metavar="FILE",
        help="bearer token, read anew for each request (default: KFP_TOKEN holds the token)",
    )
    group.add_argument(
        *("--cookie_file", "--cookie-file"),
        type=Path,
        metavar="FILE",
        help="Cookie header, such as authservice_session=... (default: KFP_COOKIE holds it)",
    )
    group.add_argument(
        *("--iap_client_id", "--iap-client-id"),
        default="",
        metavar="ID",
        help="OAuth client of the Identity-Aware Proxy before it; as a user with KF_PIPELINES_APP_OAUTH2_CLIENT_ID "
        "and KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET, else as the machine's service account",
    )
    group.add_argument(
        *("--ca_cert", "--ca-cert"), type=Path, metavar="FILE", help="authority that the server's certificate is of"
    )


def from_flags(parsed: argparse.Namespace) -> "KubeflowConnection":
    """The connection that flags and environment ask for; nothing is sent yet.

    Raises:
        ConfigError: With every mistake.
    """
    problems: list[str] = []
    if parsed.in_cluster and (parsed.host or parsed.kube_context):
        problems.append("in_cluster is a way to the server of its own: leave out --host and --kube_context")
    other = parsed.in_cluster or parsed.kube_context
    host = parsed.host or ("" if other else os.environ.get("KF_PIPELINES_ENDPOINT", ""))
    if not other and not host:
        problems.append(f"there is no server: {_WAYS}")
    if host and not host.startswith(("http://", "https://")):
        problems.append(f"host must begin with http:// or https://, got {host}")
    elif host and not urlsplit(host).hostname:
        problems.append(f"host must name a server, got {host}")
    token_file = parsed.token_file
    if parsed.in_cluster and token_file is None:
        token_file = Path(os.environ.get("KF_PIPELINES_SA_TOKEN_PATH", _TOKEN_VOLUME))
    elif parsed.kube_context and not host and (token_file or parsed.iap_client_id):
        problems.append("kube_context has credentials of its own: leave out --token_file and --iap_client_id")
    secrets = {
        "token_file": _secret("token_file", token_file, "KFP_TOKEN" if host else "", problems),
        "cookie_file": _secret("cookie_file", parsed.cookie_file, "KFP_COOKIE", problems),
    }
    if parsed.ca_cert is not None and not parsed.ca_cert.is_file():
        problems.append(f"ca_cert must be a file, got {parsed.ca_cert}")
    if problems:
        raise ConfigError(*problems)
    return KubeflowConnection(
        host=_IN_CLUSTER if parsed.in_cluster else host.rstrip("/"),
        namespace=parsed.namespace,
        kube_context=parsed.kube_context or "",
        in_cluster=parsed.in_cluster,
        token=secrets["token_file"],
        token_file=token_file,
        cookie=secrets["cookie_file"],
        iap_client_id=parsed.iap_client_id,
        ca_cert=str(parsed.ca_cert) if parsed.ca_cert else "",
        ui=os.environ.get("KF_PIPELINES_UI_ENDPOINT", host),
    )


def _secret(name: str, path: Path | None, variable: str, problems: list[str]) -> str:
    try:
        return read_secret(path, name) if path is not None else _clean(os.environ.get(variable, ""), variable)
    except ConfigError as error:
        problems.extend(error.problems)
        return ""


def read_secret(path: Path, name: str) -> str:
    """What a file holds, which is to be sent as a header and must never be shown.

    Raises:
        ConfigError: It cannot be read, is empty, or cannot be a header.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {errors.describe_os_error(error)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{name} must hold text, and {path} does not") from None
    if not text.strip():
        raise ConfigError(f"{name} must hold something, and {path} is empty")
    return _clean(text, name)


def _clean(text: str, name: str) -> str:
    found = text.strip()
    if not found.isascii() or not found.isprintable():
        raise ConfigError(f"{name} must hold one line of plain ASCII")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowConnection:
    """A way to a server. Nothing is sent before `client` is asked for.

    Attributes:
        host: URL of the server; empty to reach it through the API server of the context.
        namespace: Whose runs, on a server of many users; empty for none.
        kube_context: Context of the kubeconfig, for pods and where there is no host; empty for none.
        in_cluster: Whether we are in a pod of the cluster.
        token: Bearer token; empty for none.
        token_file: Where the token is read anew for each request, as such files are renewed.
        cookie: Cookie header; empty for none.
        iap_client_id: OAuth client of an Identity-Aware Proxy; empty for none.
        ca_cert: File with the authority of the server's certificate; empty for the usual ones.
        ui: URL of the pages that people look at; empty if it is not known.
        connect_seconds: How long to wait for a connection.
        read_seconds: How long to wait for an answer.
    """

    host: str
    namespace: str = ""
    kube_context: str = ""
    in_cluster: bool = False
    token: str = dataclasses.field(default="", repr=False)
    token_file: Path | None = None
    cookie: str = dataclasses.field(default="", repr=False)
    iap_client_id: str = ""
    ca_cert: str = ""
    ui: str = ""
    connect_seconds: float = 5.0
    read_seconds: float = 30.0

    @property
    def name(self) -> str:
        """What to call the server in messages."""
        return self.host or f"context {self.kube_context}"

    @functools.cached_property
    def client(self) -> "Client":
        """The client, after the server has said that it is one and whom it serves.

        Raises:
            StageError: It is not reached, does not let us in, is no server of Kubeflow Pipelines, or needs a namespace.
        """
        from pipeline.cluster.kubeflow_client import Client

        with self.explained("reach the server"):
            client = Client(
                self._configuration(), self.namespace, self.cookie, (self.connect_seconds, self.read_seconds)
            )
            client.greet()
        if client.multi_user and not self.namespace:
            raise ConfigError(f"{self.name} serves many users: say whose runs these are (--namespace)")
        return client

    def explained(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """Where errors of this server become one line (see `kubeflow_answers.explained`)."""
        return kubeflow_answers.explained(doing, self.name, self.namespace)

    @property
    def pod_namespace(self) -> str:
        """Where the pods of runs are."""
        return self.namespace or INSTALLED_IN

    def run_link(self, run_id: str) -> str:
        """The page of a run; empty if it is not known where pages are."""
        return f"{self.ui.rstrip('/')}/#/runs/details/{run_id}" if self.ui else ""

    def _configuration(self) -> Any:
        """What the generated client is told: where, as whom, and that it asks once."""
        import kfp_server_api

        found = kfp_server_api.Configuration()
        found.retries = False
        if not self.host:
            load_kube_config(found, self.kube_context)
            found.host = f"{found.host.rstrip('/')}{_SERVICE_PROXY}"
            # For each request it writes the API server's own address back, and itself.
            found.refresh_api_key_hook = _kept(found.refresh_api_key_hook, found.host)
        else:
            found.host = self.host
            token = self._iap_token() if self.iap_client_id and not self.token else self.token
            if token:
                found.api_key["authorization"] = token
                found.api_key_prefix["authorization"] = "Bearer"
            if self.token_file is not None:
                found.refresh_api_key_hook = self._renew
        if self.ca_cert:
            found.ssl_ca_cert = self.ca_cert
        return found

    def _renew(self, configuration: Any) -> None:
        if self.token_file is not None:
            configuration.api_key["authorization"] = read_secret(self.token_file, "token_file")

    def _iap_token(self) -> str:
        from kfp.client import auth

        try:
            token, _ = auth.get_auth_token(
                self.iap_client_id,
                os.environ.get("KF_PIPELINES_APP_OAUTH2_CLIENT_ID"),
                os.environ.get("KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"),
            )
        except Exception as error:
            # What Google's libraries raise has no common ancestor.
            raise ConfigError(
                f"iap_client_id {self.iap_client_id}: no token: {' '.join(str(error).split())}: log in with "
                "`gcloud auth application-default login`, or set KF_PIPELINES_APP_OAUTH2_CLIENT_ID and _SECRET"
            ) from None
        if not token:
            raise ConfigError(
                f"iap_client_id {self.iap_client_id}: no token for a person's own credentials: "
                "set KF_PIPELINES_APP_OAUTH2_CLIENT_ID and KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"
            )
        return str(token)


def load_kube_config(configuration: Any, context: str) -> None:
    """Tells a generated client what a context of the kubeconfig says.

    Raises:
        ConfigError: There is no such context, or its credentials cannot be had.
    """
    from kubernetes import config

    try:
        # The library looks at the variable when it is imported, and never again.
        file = os.environ.get("KUBECONFIG") or None
        config.load_kube_config(config_file=file, client_configuration=configuration, context=context)
    except Exception as error:
        # A broken file, a context that is missing and a login program that fails raise what they like.
        raise ConfigError(f"kube_context {context} cannot be used: {' '.join(str(error).split())}") from None


def _kept(hook: Callable[[Any], None] | None, host: str) -> Callable[[Any], None] | None:
    if hook is None:
        return None

    def renew(configuration: Any) -> None:
        hook(configuration)
        configuration.host, configuration.refresh_api_key_hook = host, renew

    return renew
