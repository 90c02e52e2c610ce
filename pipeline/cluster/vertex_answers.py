"""What Vertex AI and Google's login answer when they refuse or fail, in one line each with its remedy."""

import contextlib
from collections.abc import Iterator

from components.errors import ConfigError, StageError, TransientError

_LOG_IN = "log in with `gcloud auth application-default login`, or name a key by GOOGLE_APPLICATION_CREDENTIALS"
_ACT_AS = "the role Service Account User (roles/iam.serviceAccountUser) on the run's service account is needed"
# By gRPC's name of the status. The same request can pass another time, or can never.
_REMEDIES_IF_PASSING = {
    "ABORTED": "",
    "CANCELLED": "",
    "DATA_LOSS": "",
    "DEADLINE_EXCEEDED": "",
    "INTERNAL": "",
    "RESOURCE_EXHAUSTED": "a quota is used up: try again later, or ask for more",
    "UNAVAILABLE": "",
    "UNKNOWN": "",
}
_REMEDIES_IF_LASTING = {
    "NOT_FOUND": "look at its id, at project and location",
    "PERMISSION_DENIED": "the role Vertex AI User (roles/aiplatform.user) in the project is needed",
    "UNAUTHENTICATED": _LOG_IN,
    "UNIMPLEMENTED": "this is not the address of Vertex AI: look at api_endpoint",
}


@contextlib.contextmanager
def in_one_line(doing: str, perhaps_done: str = "") -> Iterator[None]:
    """Turns what Google's libraries raise into one line for the user.

    Args:
        doing: What was asked for, as it follows `cannot`.
        perhaps_done: Where to look whether it was done although no answer came; empty if it does not matter.

    Raises:
        ConfigError: It was refused, and the user can do something about it.
        TransientError: There was no answer, or one that may be another the next time.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except GoogleAuthError as error:
        raise _of_login(doing, error) from None
    except GoogleAPIError as error:
        raise _of_vertex(doing, error, perhaps_done) from None
    except TimeoutError:
        raise TransientError(f"cannot {doing}: Vertex has not finished it in time; try again") from None


def _of_vertex(doing: str, error: Exception, perhaps_done: str) -> StageError:
    status = getattr(error, "grpc_status_code", None)
    name = status.name if status is not None else "UNKNOWN"
    said = [_one_line(getattr(error, "message", None) or str(error)), *_refused_fields(error)]
    line = f"cannot {doing}: Vertex answers {name}: {'; '.join(said)}"
    if name in _REMEDIES_IF_PASSING:
        return TransientError("; ".join(filter(None, (line, _REMEDIES_IF_PASSING[name], perhaps_done))))
    remedy = _REMEDIES_IF_LASTING.get(name, "")
    if name == "PERMISSION_DENIED" and "actAs" in line:
        remedy = _ACT_AS
    return ConfigError("; ".join(filter(None, (line, remedy))))


def _refused_fields(error: Exception) -> list[str]:
    """What an answer says of single fields of the request, if it does."""
    return [
        _one_line(f"{violation.field}: {violation.description}")
        for detail in getattr(error, "details", None) or ()
        for violation in getattr(detail, "field_violations", ())
    ]


def _of_login(doing: str, error: Exception) -> StageError:
    from google.auth.exceptions import DefaultCredentialsError, TransportError

    said = _one_line(str(error.args[0] if error.args else error))
    if isinstance(error, DefaultCredentialsError):
        return ConfigError(f"cannot {doing}: {said}; {_LOG_IN}")
    if isinstance(error, TransportError) or getattr(error, "retryable", False):
        return TransientError(f"cannot {doing}: who gives out access tokens does not answer: {said}")
    return ConfigError(f"cannot {doing}: an access token is refused: {said}; {_LOG_IN}")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
