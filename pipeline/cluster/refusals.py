"""Turn refusals of Kubeflow, Kubernetes and Vertex AI, and network failures, into one line with a remedy.

All use the codes of google.rpc: Vertex by name, the others as an HTTP status.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from components.core.errors import ConfigError, TransientError
from pipeline.cluster import redaction

# The server version that our requests were checked against.
KNOWN_SERVER = "2.16.1"
_LONGEST = 300
_SAYS_NOTHING = ("Internal Server Error", "Not Found", "")
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
# HTTP statuses; other ones from 500 on are INTERNAL. Kubeflow uses 409 for permanent conflicts, so no retry helps.
_CODES = dict.fromkeys((405, 501), "UNIMPLEMENTED") | {
    **{401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "INVALID_ARGUMENT"},
    **{408: "DEADLINE_EXCEEDED", 425: "UNAVAILABLE", 429: "RESOURCE_EXHAUSTED"},
}


class _Answer(NamedTuple):
    """What a server answers, or why it does not."""

    code: str  # of google.rpc
    message: str
    remedy: str = ""


def kubeflow(
    doing: str, host: str, namespace: str = "", perhaps_done: str = ""
) -> contextlib.AbstractContextManager[None]:
    """Turn each error of a client of Kubeflow or Kubernetes within a block into one line: `cannot DOING: ...`.

    It is a `TransientError` if a retry may work, else a `ConfigError`. A lost answer does not show whether the request
    was executed: `perhaps_done` says then what may have happened, and where to look.
    """
    return _explained(doing, perhaps_done, lambda error: _kubeflow(error, host, namespace))


def vertex(doing: str, perhaps_done: str = "") -> contextlib.AbstractContextManager[None]:
    """Turn each error of Google's libraries within a block into one line, as `kubeflow` does."""
    return _explained(doing, perhaps_done, _vertex)


@contextlib.contextmanager
def _explained(doing: str, perhaps_done: str, parse: Callable[[Any], _Answer | None]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (answer := parse(error)) is None:
            raise
        kind = TransientError if answer.code in _TRANSIENT_CODES else ConfigError
        remedy = perhaps_done if perhaps_done and kind is TransientError else answer.remedy
        raise kind(": ".join(filter(None, (f"cannot {doing}", answer.message, remedy)))) from None


def _kubeflow(error: Any, host: str, namespace: str) -> _Answer | None:
    """Return the answer of an error; None if it comes neither from a server nor from the network."""
    import urllib3

    status = getattr(error, "status", None)
    if isinstance(error, urllib3.exceptions.HTTPError) or status == 0:
        return _unreached(error, host)
    if not isinstance(status, int) or not hasattr(error, "body"):
        return None
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body or ""
    content: Any = None
    with contextlib.suppress(ValueError):
        content = json.loads(body)
    content = content if isinstance(content, dict) else {"message": _TAG.sub(" ", body)}
    # The cause is in `details`, a chain of messages in `message`; uploads answer with other JSON, proxies with pages.
    details = content.get("details")
    causes = [detail.get("message") for detail in details or () if isinstance(detail, dict)]
    causes += [content.get(name) for name in ("message", "error_message", "error")]
    cause = _shortened(next((text for text in causes if isinstance(text, str) and text not in _SAYS_NOTHING), ""))
    if unknown := _UNKNOWN_FIELD.search(cause):
        too_old = f"the server is too old, it does not know {unknown[1]}, which {KNOWN_SERVER} does ({status})"
        return _Answer("INVALID_ARGUMENT", too_old)
    if 300 <= status < 400:
        page = one_line((error.headers or {}).get("Location") or "another page")
        log_in = "log in (--cookie-file or --token-file), or give that address as --host if it is where the server is"
        return _Answer("UNAUTHENTICATED", f"{host} redirects to {page} ({status})", log_in)
    code = _CODES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    if code == "NOT_FOUND" and not details:
        code = "UNIMPLEMENTED"  # a missing object has a cause; a missing route has none
    remedy = _KUBEFLOW_REMEDIES.get(code, "")
    if status == 401 and content.get("kind") == "Status":  # Kubernetes
        remedy = "log in to {host} again"
    message = f"the server says: {cause} ({status})" if cause else f"the server answers {status}"
    where = f"namespace {namespace}" if namespace else "the namespace"
    return _Answer(code, message, remedy.format(host=host, namespace=where))


def _unreached(error: Any, host: str) -> _Answer:
    from urllib3 import exceptions

    reason = getattr(error, "reason", error)
    cause = _shortened(str(reason.args[0] if getattr(reason, "args", ()) else reason))
    if isinstance(error, exceptions.SSLError) or "SSL" in cause or "CERTIFICATE" in cause.upper():
        untrusted = f"{host} has an untrusted certificate: {cause}"
        return _Answer("FAILED_PRECONDITION", untrusted, "give its CA bundle (--ca-cert)")
    if isinstance(error, exceptions.LocationValueError):
        return _Answer("INVALID_ARGUMENT", f"host must be a URL, got {host}")
    why = cause.split(": ", 1)[-1].rstrip(".")  # without the connection
    if isinstance(error, exceptions.TimeoutError) and not isinstance(error, exceptions.NewConnectionError):
        why = "no answer in time"
    return _Answer("UNAVAILABLE", f"{host} cannot be reached: {why}", "check --host and the network, or try again")


def _vertex(error: Any) -> _Answer | None:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

    cause = _shortened(str(error.args[0] if error.args else error)).rstrip(".")
    if isinstance(error, DefaultCredentialsError):
        return _Answer("UNAUTHENTICATED", cause, _LOG_IN)
    if isinstance(error, GoogleAuthError):
        if isinstance(error, TransportError) or getattr(error, "retryable", False):
            return _Answer("UNAVAILABLE", f"the token server does not answer: {cause}")
        return _Answer("UNAUTHENTICATED", f"an access token is refused: {cause}", _LOG_IN)
    if isinstance(error, TimeoutError):
        return _Answer("UNAVAILABLE", "Vertex has not finished it in time; try again")
    if not isinstance(error, GoogleAPIError):
        return None
    status = getattr(error, "grpc_status_code", None)
    code = status.name if status is not None else "UNKNOWN"
    causes = [getattr(error, "message", None) or str(error)]
    for detail in getattr(error, "details", None) or ():
        causes += [f"{entry.field}: {entry.description}" for entry in getattr(detail, "field_violations", ())]
    message = f"Vertex answers {code}: {'; '.join(_shortened(cause).rstrip('.') for cause in causes)}"
    remedy = _ACT_AS if code == "PERMISSION_DENIED" and "actAs" in message else _VERTEX_REMEDIES.get(code, "")
    if code == "RESOURCE_EXHAUSTED":  # which counts, too, where the request may have been executed
        return _Answer(code, f"{message}: {remedy}")
    return _Answer(code, message, remedy)


def one_line(text: str) -> str:
    """Return a server's text as one line, without the secrets that it may echo."""
    return redaction.redacted(" ".join(text.split()))  # also without the no-break spaces of proto's decoder


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
