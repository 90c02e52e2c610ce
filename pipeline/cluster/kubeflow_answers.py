"""What a Kubeflow server, or the way to it, says instead of doing what was asked, as one line for the user.

The shapes were recorded from a real server: JSON of the API (`message` is a chain, its detail the cause), other JSON of
uploads, plain text, and the pages of what stands before a server.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from components.errors import ConfigError, StageError, TransientError

# The server that our requests were checked against.
KNOWN_SERVER = "2.16.1"
_LONGEST = 300
_NOTHING_SAID = ("Internal Server Error", "Not Found", "")
_UNKNOWN_FIELD = re.compile(r"unknown field \"?([^\s\"]+)")
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_OF_TIME = (408, 425, 429)


@contextlib.contextmanager
def explained(doing: str, host: str, namespace: str = "") -> Iterator[None]:
    """Raises a `StageError` of one line for whatever a client of Kubeflow or Kubernetes raises within.

    Args:
        doing: What is asked for, as it follows "cannot": `submit the run`.
        host: Whom we ask, for what concerns the way there.
        namespace: Whose runs are asked for.

    Raises:
        ConfigError: Another command, permission or server is needed.
        TransientError: The server could not be reached, or failed; the same may work later.
    """
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        known = explain(error, doing, host, namespace)
        if known is None:
            raise
        raise known from None


def explain(error: Exception, doing: str, host: str, namespace: str = "") -> StageError | None:
    """The line for what was raised; None if it comes neither from a server nor from the way there."""
    import urllib3

    if isinstance(error, urllib3.exceptions.HTTPError):
        return _of_the_way(error, doing, host)
    status = getattr(error, "status", None)
    if not isinstance(status, int) or not hasattr(error, "body"):
        return None
    if status == 0:
        return _of_the_way(error, doing, host)
    headers = getattr(error, "headers", None) or {}
    return _of_an_answer(status, error.body, headers.get("Location") or "", doing, host, namespace)


def said(body: str | bytes | None) -> str:
    """What an answer says: its innermost cause if it is told, else all of it, as one line of at most 300 letters."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    answer = _answer(text)
    if not answer:
        return _line(_TAG.sub(" ", text))
    details = answer.get("details")
    causes = [each.get("message") for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    for found in (*causes, answer.get("message"), answer.get("error_message"), answer.get("error")):
        if isinstance(found, str) and found not in _NOTHING_SAID:
            return _line(found)
    return ""


def _line(text: str) -> str:
    # Also the no-break spaces that its decoder of messages strews in.
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _of_an_answer(status: int, body: Any, location: str, doing: str, host: str, namespace: str) -> StageError:
    what = said(body)
    line = f"cannot {doing}: " + (f"the server says: {what} ({status})" if what else f"the server answers {status}")
    too_old = _UNKNOWN_FIELD.search(what)
    if too_old:
        return ConfigError(
            f"cannot {doing}: the server is too old, it does not know {too_old[1]}, "
            f"which {KNOWN_SERVER} does ({status})"
        )
    if 300 <= status < 400:
        return ConfigError(
            f"cannot {doing}: {host} sends us on to {location or 'another page'} ({status}): log in "
            "(--cookie_file or --token_file), or give that address as --host if it is where the server is"
        )
    if status == 401 and _answer(body).get("kind") == "Status":
        return ConfigError(f"{line}: log in to {host} again")
    if status == 401:
        return ConfigError(
            f"{line}: give a token or cookie that is valid (--token_file or KFP_TOKEN, --cookie_file or KFP_COOKIE)"
        )
    if status == 403:
        where = f"namespace {namespace}" if namespace else "the namespace"
        return ConfigError(f"{line}: ask for permission in {where}, or give another --namespace")
    # A thing that is missing has a cause of its own; a route that is missing has none.
    if status in (404, 405, 501) and not _answer(body).get("details"):
        return ConfigError(f"{line}: {host} is no server of Kubeflow Pipelines {KNOWN_SERVER} or newer; check --host")
    if status == 404:
        return ConfigError(f"{line}: check the id and --host")
    if status in _OF_TIME or status >= 500:
        return TransientError(f"{line}: try again, and look at the server's log if that does not help")
    return ConfigError(line)


def _answer(body: Any) -> dict[str, Any]:
    """An answer that is a JSON object; empty if it is something else."""
    try:
        found = json.loads(body or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _of_the_way(error: Exception, doing: str, host: str) -> StageError:
    import urllib3

    reason = getattr(error, "reason", error)
    text = _line(str(reason))
    if isinstance(error, urllib3.exceptions.SSLError) or "SSL" in text or "CERTIFICATE" in text.upper():
        return ConfigError(f"cannot {doing}: {host} cannot be trusted: {text}: give its authority's file (--ca_cert)")
    if isinstance(error, urllib3.exceptions.LocationValueError):
        return ConfigError(f"cannot {doing}: host must be a URL, got {host}")
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        why = "its name is not known"
    elif isinstance(error, urllib3.exceptions.NewConnectionError):
        why = "connection refused" if "refused" in text else text.split(": ", 1)[-1]
    elif isinstance(error, urllib3.exceptions.TimeoutError):
        why = "no answer in time"
    else:
        # What it raises for a connection that ends early are two texts, one of them of the other.
        why = _line(str(reason.args[0])) if getattr(reason, "args", ()) else text
    return TransientError(
        f"cannot {doing}: {host} cannot be reached: {why}: check --host and the network, or try again"
    )
