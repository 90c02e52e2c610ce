"""The effect of each fault of the bucket server on a request of google-cloud-storage.

tests/unit/components/core/storage/test_buckets.py applies every fault to every request of ours.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from google.api_core import exceptions

from tests.contracts.test_gcs import FIRST, SECOND, Place, place_on, upload_in_one
from tests.fakes.gcs.server import FAULTS, LEAK, Server, serving

# Seconds until a client gives up, of a stall that outlasts them, and until one gives up that waits for no stall.
PATIENCE, STALL, LONG = 0.2, 0.6, 60.0
pytestmark = pytest.mark.filterwarnings(f"ignore:{LEAK}:ResourceWarning")
every_fault = pytest.mark.parametrize("kind", FAULTS)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    with place_on(server) as found:
        yield found


def patient(place: Place, kind: str) -> dict[str, Any]:
    """Return timeout and retry policy for a fault."""
    return {"timeout": PATIENCE if kind == "stall" else LONG, "retry": place.retry}


def outcome(place: Place, kind: str, upload: Any, **conditions: Any) -> str:
    """Return how a first upload ends for the client after a fault."""
    try:
        upload(place.blob(), FIRST, **conditions, **patient(place, kind))
    except exceptions.GoogleAPICallError as error:
        return type(error).__name__
    return "made"


# The outcome of a fault for the client, if it differs from that of no fault.
IN_ONE = {
    "flip-upload": "BadRequest",
    # It was made, and the client takes its own object for another's.
    "lost-ack": "PreconditionFailed",
    "503-after-commit": "PreconditionFailed",
    "truncated-body": "PreconditionFailed",
}


@every_fault
def test_create_in_one(server: Server, place: Place, kind: str) -> None:
    server.inject(kind, seconds=STALL)
    assert outcome(place, kind, upload_in_one, if_generation_match=0) == IN_ONE.get(kind, "made")
    assert server.fired == ([] if kind == "flip-download" else [(kind, 0)])
    assert place.content() == (None if kind == "flip-upload" else FIRST)


def test_stalled_request_is_acted_upon_when_nobody_waits_any_more(server: Server, place: Place) -> None:
    """A write without a precondition comes late, and puts back what was."""
    acted = threading.Event()
    server.after = lambda request: acted.set() if request.number == 0 else None
    server.inject("stall", seconds=STALL)
    with pytest.raises(requests.ReadTimeout):
        place.blob().upload_from_string(FIRST, timeout=PATIENCE, retry=None)
    place.blob(content=SECOND)
    assert acted.wait(60)
    assert place.content() == FIRST


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/storage/v1/b/bucket/o?versions=true", {}),
        ("GET", "/storage/v1/b/bucket/o/object?softDeleted=true", {}),
        ("DELETE", "/storage/v1/b/bucket/o/object?ifGenerationmatch=1", {}),
        ("DELETE", "/storage/v1/b/bucket/o/object", {"If-Match": "x"}),
        ("POST", "/storage/v1/b/bucket/o/object/moveTo/o/other", {}),
        ("PUT", "/bucket/object", {}),
    ],
)
def test_what_is_not_served_is_refused(
    server: Server, place: Place, method: str, path: str, headers: dict[str, str]
) -> None:
    before = place.bucket.blob("object")
    before.upload_from_string(FIRST)
    with requests.request(method, server.url + path, headers=headers, timeout=60) as answer:
        assert answer.status_code == 501
    assert server.objects["bucket"]["object"].generation == before.generation
