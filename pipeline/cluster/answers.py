"""Turn refusals of Kubeflow, Kubernetes and Vertex AI, and network failures, into one line with a remedy.

Both use the codes of google.rpc: Vertex by name, Kubeflow as an HTTP status. Kubeflow's JSON has a chain of messages in
`message` and the cause in `details`; uploads answer with other JSON, and proxies before a server with plain text or
pages.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from components.core.errors import ConfigError, StageError, TransientError
from pipeline.cluster import redaction

# The server version that our requests were checked against.
KNOWN_SERVER = "2.16.1"
_LONGEST = 300
_EMPTY_MESSAGES = ("Internal Server Error", "Not Found", "")
_UNKNOWN_FIELD = re.compile(r"unknown field \"?([^\s\"]+)")
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_LOG_IN = "log in with `gcloud auth application-default login`, or name a key by GOOGLE_APPLICATION_CREDENTIALS"
_ACT_AS = "the role Service Account User (roles/iam.serviceAccountUser) on the run's service account is needed"
_LATER = "try again, and look at the server's log if that does not help"
# Codes of google.rpc after which the same request may work later; any other is a refusal.
_TRANSIENT_CODES = (
    *("ABORTED", "CANCELLED", "DATA_LOSS", "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    "UNKNOWN",
)
# Remedies for users.
_KUBEFLOW_REMEDIES = {
    "NOT_FOUND": "check the id and --host",
    "PERMISSION_DENIED": "ask for permission in {namespace}, or give another --namespace",
    "UNAUTHENTICATED": "give a token or cookie that is valid (--token-file or KFP_TOKEN, --cookie-file or KFP_COOKIE)",
    "UNIMPLEMENTED": f"{{host}} is no server of Kubeflow Pipelines {KNOWN_SERVER} or newer; check --host",
    **dict.fromkeys(_TRANSIENT_CODES, _LATER),
}
_VERTEX_REMEDIES = {
    "NOT_FOUND": "check the id, project and location",
    "PERMISSION_DENIED": "the role Vertex AI User (roles/aiplatform.user) in the project is needed",
    "RESOURCE_EXHAUSTED": "a quota is used up: try again later, or ask for more",
    "UNAUTHENTICATED": _LOG_IN,
    "UNIMPLEMENTED": "this is not the address of Vertex AI: check api_endpoint",
}
# HTTP statuses; other ones from 500 on are INTERNAL. Kubeflow uses 409 for permanent conflicts.
_CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    425: "UNAVAILABLE",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
}


@contextlib.contextmanager
def of_kubeflow(doing: str, host: str, namespace: str = "", perhaps_done: str = "") -> Iterator[None]:
    """Turn each error of a client of Kubeflow or Kubernetes into one line: `cannot DOING: ...`.

    It is a `TransientError` if a retry may work, else a `ConfigError`. A lost answer does not show whether the request
    was executed: `perhaps_done` says then what may have happened, and where to look.
    """
    try:
        yield
    except Exception as error:
        explanation = explain_kubeflow(error, doing, host, namespace, perhaps_done)
        if explanation is None:
            raise
        raise explanation from None


def explain_kubeflow(
    error: Exception, doing: str, host: str, namespace: str = "", perhaps_done: str = ""
) -> StageError | None:
    """Return the line for an error; None if it comes neither from a server nor from the network."""
    import urllib3

    status = getattr(error, "status", None)
    if isinstance(error, urllib3.exceptions.HTTPError) or status == 0:
        return _unreached(error, doing, host, perhaps_done)
    if not isinstance(status, int) or not hasattr(error, "body"):
        return None
    cause = _cause(error.body)
    if unknown := _UNKNOWN_FIELD.search(cause):
        return ConfigError(
            f"cannot {doing}: the server is too old, it does not know {unknown[1]}, "
            f"which {KNOWN_SERVER} does ({status})"
        )
    if 300 <= status < 400:
        page = one_line((getattr(error, "headers", None) or {}).get("Location") or "another page")
        return ConfigError(
            f"cannot {doing}: {host} redirects to {page} ({status}): log in (--cookie-file or --token-file), "
            "or give that address as --host if it is where the server is"
        )
    answer = _as_json(error.body)
    code = _CODES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    if code == "NOT_FOUND" and not answer.get("details"):
        code = "UNIMPLEMENTED"  # a missing object has a cause; a missing route has none
    remedy = _KUBEFLOW_REMEDIES.get(code, "")
    if status == 401 and answer.get("kind") == "Status":  # Kubernetes
        remedy = "log in to {host} again"
    remedy = remedy.format(host=host, namespace=f"namespace {namespace}" if namespace else "the namespace")
    says = f"the server says: {cause} ({status})" if cause else f"the server answers {status}"
    kind = TransientError if code in _TRANSIENT_CODES else ConfigError
    if perhaps_done and kind is TransientError:
        remedy = perhaps_done
    return kind(": ".join(filter(None, (f"cannot {doing}", says, remedy))))


def _cause(body: Any) -> str:
    """Return the innermost cause of an answer, else all of it, as one line."""
    answer = _as_json(body)
    if not answer:
        text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
        return _shortened(_TAG.sub(" ", text))
    details = answer.get("details")
    causes = [item.get("message") for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    for cause in (*causes, answer.get("message"), answer.get("error_message"), answer.get("error")):
        if isinstance(cause, str) and cause not in _EMPTY_MESSAGES:
            return _shortened(cause)
    return ""


def _as_json(body: Any) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        content = json.loads(body or "")
        return content if isinstance(content, dict) else {}
    return {}


def one_line(text: str) -> str:
    """Return a server's text as one line, without the secrets that it may echo."""
    return redaction.redacted(" ".join(text.split()))  # also without the no-break spaces of proto's decoder


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _unreached(error: Exception, doing: str, host: str, perhaps_done: str) -> StageError:
    from urllib3 import exceptions

    reason = getattr(error, "reason", error)
    cause = _shortened(str(reason.args[0] if getattr(reason, "args", ()) else reason))
    if isinstance(error, exceptions.SSLError) or "SSL" in cause or "CERTIFICATE" in cause.upper():
        return ConfigError(
            f"cannot {doing}: {host} has an untrusted certificate: {cause}: give its CA bundle (--ca-cert)"
        )
    if isinstance(error, exceptions.LocationValueError):
        return ConfigError(f"cannot {doing}: host must be a URL, got {host}")
    why = cause.split(": ", 1)[-1].rstrip(".")  # without the connection
    if isinstance(error, exceptions.TimeoutError) and not isinstance(error, exceptions.NewConnectionError):
        why = "no answer in time"
    remedy = perhaps_done or "check --host and the network, or try again"
    return TransientError(f"cannot {doing}: {host} cannot be reached: {why}: {remedy}")


@contextlib.contextmanager
def of_vertex(doing: str, perhaps_done: str = "") -> Iterator[None]:
    """Do the same for errors of Google's libraries."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except GoogleAuthError as error:
        raise _explain_login(doing, error) from None
    except GoogleAPIError as error:
        raise _explain_vertex(doing, error, perhaps_done) from None
    except TimeoutError:
        raise TransientError(f"cannot {doing}: Vertex has not finished it in time; try again") from None


def _explain_vertex(doing: str, error: Exception, perhaps_done: str) -> StageError:
    status = getattr(error, "grpc_status_code", None)
    code = status.name if status is not None else "UNKNOWN"
    causes = [getattr(error, "message", None) or str(error)]
    for detail in getattr(error, "details", None) or ():
        causes += [f"{entry.field}: {entry.description}" for entry in getattr(detail, "field_violations", ())]
    line = f"cannot {doing}: Vertex answers {code}: {'; '.join(_shortened(cause).rstrip('.') for cause in causes)}"
    remedy = _ACT_AS if code == "PERMISSION_DENIED" and "actAs" in line else _VERTEX_REMEDIES.get(code, "")
    if code in _TRANSIENT_CODES:
        return TransientError("; ".join(filter(None, (line, remedy, perhaps_done))))
    return ConfigError("; ".join(filter(None, (line, remedy))))


def _explain_login(doing: str, error: Exception) -> StageError:
    from google.auth.exceptions import DefaultCredentialsError, TransportError

    cause = _shortened(str(error.args[0] if error.args else error)).rstrip(".")
    if isinstance(error, DefaultCredentialsError):
        return ConfigError(f"cannot {doing}: {cause}; {_LOG_IN}")
    if isinstance(error, TransportError) or getattr(error, "retryable", False):
        return TransientError(f"cannot {doing}: the token server does not answer: {cause}")
    return ConfigError(f"cannot {doing}: an access token is refused: {cause}; {_LOG_IN}")
