"""Objects in buckets: preconditions, own success told apart from a refusal, and every network fault."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import google.cloud.storage.blob
import google_crc32c
import pytest

from components.core.errors import ConfigError, DataError, TransientError
from components.core.storage import buckets
from tests.fakes.gcs.server import FAULTS, Server


def test_what_is_not_there(bucket: Server, tmp_path: Path) -> None:
    assert buckets.stat("gs://b/x") is None
    assert buckets.read("gs://b/x") is None
    assert [*buckets.below("gs://b/x")] == []
    with pytest.raises(DataError, match=r"^gs://b/x is missing$"):
        buckets.download("gs://b/x", tmp_path / "x")


@pytest.mark.parametrize("name", ["plain", "a b+c", "100%", "ä/ö\N{SNOWMAN}", "#1?x=y&z", "'<>\\\""])
def test_an_object_of_any_name_is_read_as_it_is_stored_and_listed(bucket: Server, name: str) -> None:
    uri = f"gs://b/x/{name}"
    for content in (gzip.compress(b"as it is stored"), b"", b"longer than it was"):
        buckets.put(uri, content)
        (listed,) = buckets.below("gs://b/x")
        assert buckets.read(uri) == (content, listed)
    buckets.delete(listed)
    assert buckets.read(uri) is None


def test_a_listing_has_pages_and_no_neighbors(bucket: Server) -> None:
    names = [f"x/{number:02d}" for number in range(23)]
    for name in [*names, "x", "xy/1"]:
        buckets.create(f"gs://b/{name}", name.encode())
    assert [stored.uri for stored in buckets.below("gs://b/x/")] == [f"gs://b/{name}" for name in names]
    assert len([*buckets.below("gs://b")]) == 25


def test_only_what_was_listed_is_deleted(bucket: Server) -> None:
    buckets.put("gs://b/x", b"1")
    (stored,) = buckets.below("gs://b")
    buckets.put("gs://b/x", b"2")
    buckets.delete(stored)
    assert bucket.contents() == {"x": b"2"}
    buckets.delete(next(buckets.below("gs://b")))
    buckets.delete(stored)
    assert bucket.contents() == {}


@pytest.mark.parametrize("uri", ["gs://", "gs:///x", "gs://b//x", "gs://b/x/../y", "gs://b/./x"])
def test_what_is_no_place(uri: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(uri)} .* gs://BUCKET/FOLDER"):
        buckets.split(uri)


def script(location: str, path: Path) -> None:
    """Call every function with traffic, on small objects and one that is sent in chunks."""
    large = path / "large"
    if not large.exists():
        large.write_bytes(AFTER["large"])
    buckets.create(f"{location}/one", b"one")
    buckets.create(f"{location}/large", large)
    buckets.put(f"{location}/note", b"note")
    pointer = buckets.read(f"{location}/pointer")
    if pointer is None or pointer[0] == b"0":
        buckets.create(f"{location}/pointer", b"1", over=pointer[1].generation if pointer else 0)
    buckets.download(f"{location}/large", path / "fetched")
    assert (path / "fetched").read_bytes() == large.read_bytes()
    assert buckets.read_range(f"{location}/large", 2, 5, google_crc32c.value(b"rgela")) == b"rgela"
    large_content, _ = buckets.read(f"{location}/large") or (b"", None)
    assert large_content == large.read_bytes()
    for stored in buckets.below(f"{location}/old"):
        buckets.delete(stored)


AFTER = {"one": b"one", "large": b"large" * (5 << 14), "note": b"note", "pointer": b"1"}


def test_every_fault_at_every_request(bucket: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google.cloud.storage.blob, "_MAX_MULTIPART_SIZE", 1 << 18)  # smaller ones go in chunks too

    def result(name: str) -> dict[str, bytes]:
        """Return what the script leaves at a location of its own, because a stalled request may be executed late."""
        script(f"gs://b/{name}", tmp_path)
        start, objects = f"{name}/", bucket.contents()
        return {path.removeprefix(start): objects[path] for path in objects if path.startswith(start)}

    buckets.create("gs://b/clean/old/1", b"old")
    bucket.requests.clear()
    assert result("clean") == AFTER
    count = len(bucket.requests)
    assert count >= 10
    statuses = [kind for kind in FAULTS if kind.startswith("status-")]
    planned = [(statuses[at % len(statuses)], at) for at in range(count)]  # one of them each, as all are retried alike
    planned += [(kind, at) for kind in FAULTS if kind not in statuses for at in range(count)]
    for kind, at in planned:
        buckets.create(f"gs://b/{kind}-{at}/old/1", b"old")
        monkeypatch.setattr(buckets, "REQUEST_SECONDS", 0.3 if kind == "stall" else 60.0)
        bucket.inject(kind, at=at, seconds=0.6)
        assert result(f"{kind}-{at}") == AFTER, (kind, at)
    assert {kind for kind, _ in bucket.fired} == set(FAULTS)
    assert len(bucket.fired) >= len(planned) - 2 * count  # a byte can be flipped only where content travels


@pytest.mark.parametrize("kind", ["status-503", "reset", "truncated-body", "lost-ack"])
@pytest.mark.usefixtures("no_retries")
def test_what_does_not_pass_is_reported_in_a_line(bucket: Server, kind: str, tmp_path: Path) -> None:
    bucket.inject(kind, times=10_000)
    with pytest.raises(TransientError, match=r"^gs://b/x cannot be read; check the ") as raised:
        buckets.read("gs://b/x")
    assert "\n" not in str(raised.value)
    assert bucket.fired


@pytest.mark.parametrize(
    ("done", "fault", "ask"),
    [
        ("written", "flip-upload", lambda folder: buckets.create("gs://b/new", b"content")),
        ("read", "flip-download", lambda folder: buckets.read("gs://b/x")),
        ("read", "flip-download", lambda folder: buckets.download("gs://b/x", folder / "x")),
        ("read", "flip-download", lambda folder: buckets.read_range("gs://b/x", 0, 3, google_crc32c.value(b"con"))),
    ],
)
def test_damage_that_stays_is_reported(
    bucket: Server, tmp_path: Path, done: str, fault: str, ask: Callable[[Path], object]
) -> None:
    buckets.create("gs://b/x", b"content")
    bucket.inject(fault, times=10_000)
    with pytest.raises(DataError, match=rf"^gs://b/\w+ cannot be {done}: .* damaged 3 times"):
        ask(tmp_path)
    assert bucket.contents() == {"x": b"content"}


def test_an_answer_that_is_cut_and_gone_on_with_is_compared_as_a_whole(bucket: Server, tmp_path: Path) -> None:
    """The library compares nothing then: the second part of an answer may be damaged."""
    content = bytes(range(256)) * 256
    buckets.create("gs://b/x", content)
    bucket.inject("truncated-body")
    bucket.inject("flip-download", at=1)
    buckets.download("gs://b/x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content
    bucket.inject("truncated-body")
    bucket.inject("flip-download", at=1)
    downloaded = buckets.read("gs://b/x")
    assert downloaded is not None
    assert downloaded[0] == content
    assert [kind for kind, _ in bucket.fired] == ["truncated-body", "flip-download"] * 2


@pytest.mark.parametrize(
    ("permission", "asked"),
    [
        ("storage.objects.create", lambda: buckets.create("gs://b/x", b"1")),
        ("storage.objects.get", lambda: buckets.read("gs://b/there")),
        ("storage.objects.list", lambda: [*buckets.below("gs://b")]),
    ],
)
def test_what_is_forbidden_is_reported_at_once(bucket: Server, permission: str, asked: Callable[[], object]) -> None:
    buckets.create("gs://b/there", b"1")
    bucket.deny(permission)
    bucket.requests.clear()
    with pytest.raises(ConfigError, match=rf"^gs://b.* cannot be .*: permission is missing \(.*{permission}") as raised:
        asked()
    assert "\n" not in str(raised.value)
    assert len(bucket.requests) == 1


def test_a_place_is_tried_before_the_work(bucket: Server, caplog: pytest.LogCaptureFixture) -> None:
    buckets.require_writable("gs://b/x")
    assert bucket.contents() == {}
    assert caplog.text.count("cannot be deleted") == 0
    bucket.deny("storage.objects.delete")
    buckets.require_writable("gs://b/x")
    assert caplog.text.count("cannot be deleted") == 1
    bucket.deny("storage.objects.create")
    with pytest.raises(ConfigError, match="permission is missing"):
        buckets.require_writable("gs://b/x")
    for asked in (buckets.require_writable, lambda uri: [*buckets.below(uri)]):
        with pytest.raises(ConfigError, match="no bucket none"):
            asked("gs://none/x")
