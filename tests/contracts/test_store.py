"""The contract of a store: one suite for a folder, and for a bucket of our server and of fake-gcs-server."""

import os
from pathlib import Path

import pytest
import requests

from components.core.errors import DataError
from components.core.storage import buckets
from components.core.storage.buckets import Conflict
from components.core.storage.location import Location
from tests.contracts.test_gcs import winner


@pytest.fixture(params=["folder", "ours", "emulator"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Location:
    if request.param == "folder":
        return Location.of(tmp_path / "store")
    request.getfixturevalue("gcs").create_bucket("store")
    if request.param == "emulator":
        url = request.getfixturevalue("emulator")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        requests.post(f"{url}/storage/v1/b", json={"name": "store"}, timeout=9)  # unless it is there
    return Location.of(f"gs://store/{os.urandom(8).hex()}")


def test_a_file_is_created_once(store: Location, tmp_path: Path) -> None:
    def create(content: bytes) -> None:
        source = tmp_path / os.urandom(8).hex()
        source.write_bytes(content)
        store.create({"a/b": source})

    assert (store.files(), store.content("a/b")) == ({}, None)
    first = winner(create, Conflict)
    create(first)  # again: its answer was lost
    with pytest.raises(Conflict, match="a/b"):
        create(b"other")
    files = {name: (file.bytes, file.crc32c) for name, file in store.files(checksums=True).items()}
    assert files == {"a/b": buckets.size_and_checksum(first)}
    assert (store.content("a/b"), [child.name for child in store.children()]) == (first, ["a"])


def test_a_file_is_replaced_by_who_knows_its_content(store: Location) -> None:
    first = winner(lambda content: store.replace("p", content, None), Conflict)
    with pytest.raises(Conflict, match="p"):
        store.replace("p", b"new", b"another")
    second = winner(lambda content: store.replace("p", b"new" + content, first), Conflict)
    store.replace("p", b"new" + second, first)  # again: its answer was lost
    assert store.content("p") == b"new" + second


def test_a_folder_is_committed_whole_and_once(store: Location) -> None:
    def make(content: bytes) -> None:
        with store.new_folder("m") as folder:
            (folder / "n").write_bytes(content)
            if content == b"slow":
                make(b"fast")
            assert content != b"bad"
            (folder / "m").write_bytes(content)

    with pytest.raises(AssertionError):
        make(b"bad")
    assert not store.fetch("m")
    make(b"slow")
    assert store.fetch("m")
    assert {path.name: path.read_bytes() for path in store.path.iterdir()} == {"n": b"fast", "m": b"fast"}
    assert [path.name for path in store.path.parent.iterdir()] == [store.name]
    with store.removed_if_damaged():
        raise DataError("it is damaged")
    assert not store.fetch("m")
    make(b"again")
    store.remove("m")
    assert (store.files(), store.fetch("m")) == ({}, False)
