"""Faults, refusals and outages of the bucket server, and what becomes of google-cloud-storage's requests under them."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud.storage.exceptions import DataCorruption

from tests.gcs_server import faults
from tests.gcs_server.server import FAULTS, LEAK, HangUp, Request, Server, serving
from tests.gcs_server.store import crc32c
from tests.test_gcs_contract import FIRST, SECOND, Place, place_on, upload_in_chunks, upload_in_one

# A client's patience, in seconds, and a stall that it does not sit out.
PATIENCE, STALL = 0.2, 0.6
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


def patient(place: Place) -> dict[str, Any]:
    """How long to wait, and how to try again."""
    return {"timeout": PATIENCE, "retry": place.retry}


def outcome(place: Place, upload: Any, **conditions: Any) -> str:
    """What a client takes a first upload for."""
    try:
        upload(place.blob(), FIRST, **conditions, **patient(place))
    except exceptions.GoogleAPICallError as error:
        return type(error).__name__
    return "made"


# What a client makes of a fault, where it differs from nothing having happened.
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
    assert outcome(place, upload_in_one, if_generation_match=0) == IN_ONE.get(kind, "made")
    assert server.fired == ([] if kind == "flip-download" else [(kind, 0)])
    assert place.content() == (None if kind == "flip-upload" else FIRST)


@every_fault
@pytest.mark.parametrize("at", [0, 1])
def test_create_in_chunks(server: Server, place: Place, kind: str, at: int) -> None:
    server.inject(kind, at, seconds=STALL)
    # The content is in the second request; that can be repeated, because it names an upload of its own.
    damaged = kind == "flip-upload" and at == 1
    assert outcome(place, upload_in_chunks, if_generation_match=0) == ("BadRequest" if damaged else "made")
    assert server.fired == ([(kind, at)] if damaged or not kind.startswith("flip") else [])
    assert place.content() == (None if damaged else FIRST)
    assert "DELETE" not in [request.method for request in server.requests]


@every_fault
def test_read(server: Server, place: Place, kind: str) -> None:
    place.blob(content=FIRST)
    server.inject(kind, seconds=STALL)
    if kind == "flip-download":
        with pytest.raises(DataCorruption):
            place.blob().download_as_bytes(**patient(place))
    else:
        assert place.blob().download_as_bytes(**patient(place)) == FIRST
    assert server.fired == ([] if kind == "flip-upload" else [(kind, 1)])


@every_fault
def test_delete(server: Server, place: Place, kind: str) -> None:
    generation = place.blob(content=FIRST).generation
    server.inject(kind, seconds=STALL)
    done = kind in ("lost-ack", "503-after-commit", "truncated-body")
    with pytest.raises(exceptions.NotFound) if done else contextlib.nullcontext():
        place.blob().delete(if_generation_match=generation, **patient(place))
    assert server.fired == ([] if kind.startswith("flip") else [(kind, 1)])
    assert place.content() is None


@every_fault
def test_listing(server: Server, place: Place, kind: str) -> None:
    names = [f"{number:02}" for number in range(23)]  # three pages
    for name in names:
        place.blob(name, FIRST)
    server.inject(kind, at=1, seconds=STALL)
    assert place.names(timeout=PATIENCE) == names
    assert server.fired == ([] if kind.startswith("flip") else [(kind, 24)])


def test_faults_can_follow_each_other(server: Server, place: Place) -> None:
    server.inject("status-503", at=1, times=2)
    server.inject("reset", at=3)
    for number in range(2):
        place.blob(f"{number}", FIRST)
    assert server.fired == [("status-503", 1), ("status-503", 2), ("reset", 3)]
    assert [request.number for request in server.requests] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="no fault"):
        server.inject("status-418")


def test_too_many_requests_say_when_to_come_again(server: Server) -> None:
    server.inject("status-429")
    with requests.get(f"{server.url}/storage/v1/b/bucket", timeout=5) as answer:
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        assert answer.json()["error"]["code"] == 429


def test_stalled_request_is_acted_upon_when_nobody_waits_any_more(server: Server, place: Place) -> None:
    """A write without a precondition comes late, and puts back what was."""
    acted = threading.Event()
    server.after = lambda request: acted.set() if request.number == 0 else None
    server.inject("stall", seconds=STALL)
    with pytest.raises(requests.ReadTimeout):
        place.blob().upload_from_string(FIRST, timeout=PATIENCE, retry=None)
    place.blob(content=SECOND)
    assert acted.wait(5)
    assert place.content() == FIRST


def test_stall_ends_with_the_server() -> None:
    with serving() as server:
        server.inject("stall", seconds=60)
        start = time.monotonic()
        with pytest.raises(requests.ReadTimeout):
            requests.get(server.url, timeout=0.1)
    assert time.monotonic() - start < 10


# Traps of the client that this shows, beside those of the contract.


def test_what_is_read_through_a_file_is_not_compared(server: Server, place: Place) -> None:
    place.blob(content=FIRST)
    server.inject("flip-download")
    with place.blob().open("rb") as file:
        assert file.read() != FIRST
    assert [kind for kind, _ in server.fired] == ["flip-download"]


def test_download_that_is_taken_up_again_is_not_compared(server: Server, place: Place) -> None:
    content = bytes(range(256)) * 256
    place.blob(content=content)
    server.inject("truncated-body")
    server.inject("flip-download", at=1)
    found = place.blob().download_as_bytes(retry=place.retry)
    assert [kind for kind, _ in server.fired] == ["truncated-body", "flip-download"]
    assert server.requests[2].headers["Range"].startswith("bytes=")
    assert len(found) == len(content)
    assert crc32c(found) != crc32c(content)  # whoever needs to know compares


def test_download_that_fails_leaves_a_part_of_the_file(server: Server, place: Place, tmp_path: Path) -> None:
    place.blob(content=FIRST)
    server.inject("truncated-body")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        place.blob().download_to_filename(str(tmp_path / "file"), retry=None)
    assert FIRST.startswith((tmp_path / "file").read_bytes())
    server.inject("flip-download")
    with pytest.raises(DataCorruption):
        place.blob().download_to_filename(str(tmp_path / "other"), retry=place.retry)
    assert not (tmp_path / "other").exists()


def test_large_upload_that_is_damaged_is_refused_by_the_server(server: Server, place: Place) -> None:
    """Also without `crc32c_checksum_value`: the client tells the checksum with the last chunk."""
    server.inject("flip-upload", at=1)
    with pytest.raises(exceptions.BadRequest):
        place.blob().upload_from_file(io.BytesIO(FIRST), retry=place.retry)
    assert "crc32c" not in server.requests[0].body.decode()
    assert server.requests[1].headers["X-Goog-Hash"] == f"crc32c={crc32c(FIRST)}"
    assert server.objects["bucket"] == {}


@pytest.mark.parametrize("wrong", ["resource", "header"])
def test_each_checksum_that_is_given_is_compared(server: Server, place: Place, wrong: str) -> None:
    given = crc32c(SECOND)
    if wrong == "header":
        server.inject("flip-upload", at=1)
        given = crc32c(faults.flipped(FIRST))
    with pytest.raises(exceptions.BadRequest):
        place.blob().upload_from_file(io.BytesIO(FIRST), crc32c_checksum_value=given, retry=place.retry)
    assert server.objects["bucket"] == {}


def test_large_upload_without_checksum_is_not_noticed_to_be_damaged(server: Server, place: Place) -> None:
    server.inject("flip-upload", at=1)
    place.blob().upload_from_file(io.BytesIO(FIRST), checksum=None, retry=place.retry)
    assert [kind for kind, _ in server.fired] == ["flip-upload"]
    assert place.content() != FIRST


# Permissions.


def test_permission_that_is_denied_is_named(server: Server, place: Place) -> None:
    place.blob(content=FIRST)
    operations = {
        "create": lambda: place.blob("new").upload_from_string(FIRST),
        "get": lambda: place.blob().download_as_bytes(),
        "list": place.names,
        "delete": lambda: place.blob().delete(),
    }
    for verb, operation in operations.items():
        permission = f"storage.objects.{verb}"
        server.deny(permission)
        with pytest.raises(exceptions.Forbidden, match=f"Permission '{permission}' denied"):
            operation()
        assert place.bucket.test_iam_permissions([permission, "storage.buckets.get"]) == ["storage.buckets.get"]
        server.denied.clear()
        operation()


def test_permission_can_be_denied_below_a_prefix(server: Server, place: Place) -> None:
    server.deny("storage.objects.create", f"{place.prefix}closed/")
    place.blob("open", FIRST)
    with pytest.raises(exceptions.Forbidden):
        place.blob("closed/object", FIRST)
    assert place.names() == ["open"]


@pytest.mark.parametrize("upload", [upload_in_one, upload_in_chunks])
def test_replacing_needs_permission_to_delete(server: Server, place: Place, upload: Any) -> None:
    server.deny("storage.objects.delete")
    upload(place.blob(), FIRST, retry=place.retry)
    with pytest.raises(exceptions.Forbidden, match=r"storage\.objects\.delete"):
        upload(place.blob(), SECOND, retry=place.retry)
    with pytest.raises(exceptions.PreconditionFailed):
        upload(place.blob(), SECOND, if_generation_match=0, retry=place.retry)
    assert place.content() == FIRST


# Outages and hooks.


def test_upload_of_a_client_that_dies_makes_nothing(server: Server, place: Place) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    target = "/upload/storage/v1/b/bucket/o?uploadType=media&name=object"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\nhalf".encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert server.objects["bucket"] == {}


def test_outage_answers_503(server: Server, place: Place) -> None:
    server.outage(True)
    with pytest.raises(exceptions.ServiceUnavailable):
        place.blob().upload_from_string(FIRST, retry=None)
    assert server.fired == [("outage", 0)]
    server.outage(False)
    place.blob(content=FIRST)
    assert place.content() == FIRST


def test_outage_refuses_connections(server: Server, place: Place) -> None:
    place.blob(content=FIRST)  # a connection is open
    for _ in range(3):
        server.outage(True, refused=True)
        server.outage(True, refused=True)
        with pytest.raises(requests.ConnectionError, match=r"refused|Remote end closed|reset"):
            place.blob().download_as_bytes(retry=None)
        with pytest.raises(requests.ConnectionError, match="refused"):
            requests.get(server.url, timeout=5)
        server.outage(False)
        server.outage(False)
        assert place.content() == FIRST


def test_client_waits_until_an_outage_is_over(server: Server, place: Place) -> None:
    server.outage(True, refused=True)
    thread = threading.Timer(0.3, server.outage, (False,))
    thread.start()
    place.blob(content=FIRST)
    thread.join()
    assert place.content() == FIRST


def test_hooks_come_before_and_after_the_act(server: Server, place: Place) -> None:
    seen: list[tuple[str, int, bool]] = []

    def see(moment: str) -> Any:
        return lambda request: seen.append((moment, request.number, bool(server.objects["bucket"])))

    server.before, server.after = see("before"), see("after")
    place.blob(content=FIRST)
    assert seen == [("before", 0, False), ("after", 0, True)]


def test_hook_can_hang_up(server: Server, place: Place) -> None:
    def first_only(request: Request) -> None:
        if request.number == 0:
            raise HangUp

    server.before = first_only
    place.blob().upload_from_string(FIRST, if_generation_match=0, retry=place.retry)
    server.before, server.after = None, lambda request: first_only(request) if request.number else None
    assert [request.method for request in server.requests] == ["POST", "POST"]
    assert place.content() == FIRST


def test_hook_can_order_a_race(server: Server, place: Place) -> None:
    """The first of two requests is held until the second has been acted upon."""
    second_acted = threading.Event()

    def hold_first(request: Request) -> None:
        if request.number == 0:
            second_acted.wait(5)

    server.before = hold_first
    server.after = lambda request: second_acted.set() if request.number == 1 else None
    results: list[str] = []
    first = threading.Thread(target=lambda: results.append(outcome(place, upload_in_one, if_generation_match=0)))
    first.start()
    while not server.requests:
        time.sleep(0.005)
    place.blob().upload_from_string(SECOND, if_generation_match=0, retry=place.retry)
    first.join()
    assert results == ["PreconditionFailed"]
    assert place.content() == SECOND


def test_mistake_in_a_hook_comes_out() -> None:
    def mistaken(request: Request) -> None:
        raise KeyError(request.path)

    def serve() -> None:
        with serving() as server:
            server.before = mistaken
            requests.get(server.url, timeout=5).close()

    with pytest.raises(KeyError):
        serve()


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
    with requests.request(method, server.url + path, headers=headers, timeout=5) as answer:
        assert answer.status_code == 501
    assert server.objects["bucket"]["object"].generation == before.generation


def test_server_by_hand() -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "tests.gcs_server", "a-bucket"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip().removeprefix("STORAGE_EMULATOR_HOST=")
        with requests.get(f"{url}/storage/v1/b/a-bucket", timeout=5) as answer:
            assert answer.json()["name"] == "a-bucket"
        process.terminate()
