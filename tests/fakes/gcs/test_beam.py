"""Beam's own requests, against the bucket server: it deletes, copies and renames in batches."""

from collections.abc import Iterator

import pytest

from tests.contracts.test_gcs import FIRST, SECOND, Place, place_on
from tests.fakes.gcs.server import serving


@pytest.fixture
def place() -> Iterator[Place]:
    with serving() as server, place_on(server) as found:
        yield found


def test_beam_writes_lists_reads_renames_and_deletes(place: Place) -> None:
    from apache_beam.io.gcp.gcsio import GcsIO

    gcs = GcsIO(storage_client=place.client)
    names = [f"gs://bucket/{place.prefix}{number}" for number in range(12)]
    for name in names:
        with gcs.open(name, "w") as file:
            file.write(FIRST)
    assert sorted(name for name, _ in gcs.list_files(f"gs://bucket/{place.prefix}")) == sorted(names)
    with gcs.open(names[3], "r") as file:
        assert file.read() == FIRST
    gcs.rename(names[0], f"{names[0]}-renamed")
    copies = gcs.copy_batch([(name, f"{name}-copy") for name in names[1:3]])
    assert [error for *_, error in copies] == [None, None]
    place.blob("1", SECOND)
    deleted = gcs.delete_batch(names)
    assert [error for _, error in deleted] == [None] * 12  # the one that is gone is as good as deleted
    assert place.names() == ["0-renamed", "1-copy", "2-copy"]
    assert place.content("1-copy") == FIRST
