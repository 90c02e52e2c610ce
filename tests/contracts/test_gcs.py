"""The contract between google-cloud-storage and Cloud Storage, as far as this project relies on it.

One suite for three servers: ours in tests/fakes/gcs; fake-gcs-server, a public emulator, as far as it is right; and the
service itself, below `WGAN_TEST_BUCKET=gs://BUCKET/FOLDER`, if that is set.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.retry import DEFAULT_RETRY

from tests.fakes.gcs.server import serving
from tests.fakes.gcs.store import crc32c

ROOT = Path(__file__).parents[2]
# The most that clients send in one request.
MULTIPART_MOST = 8 << 20
FIRST, SECOND, THIRD = b"the first content", b"a second", b"and a third, longer content"


@dataclasses.dataclass(frozen=True)
class Place:
    """A bucket that a case may change freely."""

    client: Client
    bucket: Bucket
    prefix: str  # of the case's own names
    retry: Retry

    def blob(self, name: str = "object", content: bytes | None = None, generation: int | None = None) -> Blob:
        blob = self.bucket.blob(self.prefix + name, generation=generation)
        if content is not None:
            blob.upload_from_string(content, retry=self.retry)
        return blob

    def content(self, name: str = "object") -> bytes | None:
        try:
            return bytes(self.blob(name).download_as_bytes(retry=self.retry))
        except exceptions.NotFound:
            return None

    def names(self) -> list[str]:
        blobs = self.client.list_blobs(self.bucket, prefix=self.prefix, retry=self.retry)
        return [blob.name.removeprefix(self.prefix) for blob in blobs]


def client_of(url: str) -> Client:
    return Client(project="none", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})


_NUMBERS = itertools.count()


@pytest.fixture(params=["ours", "emulator", "service"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "ours":
        with serving() as server, contextlib.closing(client_of(server.url)) as client:
            server.create_bucket("bucket")
            soon = DEFAULT_RETRY.with_delay(initial=0.01, maximum=0.02).with_timeout(5)
            yield Place(client, client.bucket("bucket"), "folder/", soon)
    elif request.param == "emulator":
        if reason := WRONG_IN_EMULATOR.get(request.node.originalname):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        with contextlib.closing(client_of(request.getfixturevalue("emulator"))) as client:
            bucket = client.create_bucket(f"bucket-{next(_NUMBERS)}")
            yield Place(client, bucket, "folder/", DEFAULT_RETRY.with_timeout(5))
    else:
        where = os.environ.get("WGAN_TEST_BUCKET", "")
        if not where:
            pytest.skip("no bucket of Cloud Storage itself: set WGAN_TEST_BUCKET=gs://BUCKET/FOLDER")
        bucket, _, folder = where.removeprefix("gs://").partition("/")
        prefix = f"{folder.rstrip('/')}/{os.urandom(8).hex()}/".lstrip("/")
        with contextlib.closing(Client()) as client:
            place = Place(client, client.bucket(bucket), prefix, DEFAULT_RETRY)
            try:
                yield place
            finally:
                for blob in client.list_blobs(bucket, prefix=prefix):
                    blob.delete()


# Cases that the emulator gets wrong. Each runs and must fail: when the emulator is fixed, its line goes.
WRONG_IN_EMULATOR = {
    "test_delete_needs_the_generation_that_is_there": "deleting obeys no precondition",
    "test_listing_of_some_fields": "the listing has all fields",
}


# Uploads.


# At once (multipart) the client sends small content.
UPLOADS: dict[str, Callable[..., None]] = {
    "in one": Blob.upload_from_string,
    # Resumable, as for large content or unknown sizes.
    "in chunks": lambda blob, content, **conditions: blob.upload_from_file(io.BytesIO(content), **conditions),
}
uploads = pytest.mark.parametrize("upload", UPLOADS)


@uploads
def test_upload_can_be_read_and_tells_what_it_made(place: Place, upload: str) -> None:
    blob = place.blob()
    UPLOADS[upload](blob, FIRST, retry=place.retry)
    stored = place.bucket.get_blob(blob.name, retry=place.retry)
    assert (blob.generation, blob.crc32c, blob.size) == (stored.generation, stored.crc32c, stored.size)
    assert (stored.crc32c, stored.size, stored.metageneration) == (crc32c(FIRST), len(FIRST), 1)
    assert place.content() == FIRST


@uploads
def test_only_the_generation_that_is_there_is_replaced(place: Place, upload: str) -> None:
    def write(content: bytes, generation: int) -> int:
        blob = place.blob()
        UPLOADS[upload](blob, content, if_generation_match=generation, retry=place.retry)
        return int(blob.generation)

    first = write(FIRST, 0)
    second = write(SECOND, first)
    assert second > first
    for stale in (0, first):
        with pytest.raises(exceptions.PreconditionFailed):
            write(THIRD, stale)
        assert place.content() == SECOND
    place.blob().delete(retry=place.retry)
    with pytest.raises(exceptions.PreconditionFailed):
        write(THIRD, second)
    assert place.content() is None


def test_resumable_upload_is_refused_if_the_object_comes_to_be_in_between(place: Place) -> None:
    class Slow(io.BytesIO):
        """A file of two chunks; another object appears before the second."""

        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                place.blob(content=FIRST)
            return super().read(size)

    blob = place.blob()
    blob.chunk_size = 256 * 1024
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_file(Slow(SECOND * 40_000), if_generation_match=0, retry=place.retry)
    assert place.content() == FIRST


def test_large_file_goes_in_chunks_and_obeys_preconditions(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(1 << 20) * 8 + b"more")
    assert file.stat().st_size > MULTIPART_MOST
    options = {"crc32c_checksum_value": crc32c(file.read_bytes()), "retry": place.retry, "if_generation_match": 0}
    place.blob().upload_from_filename(str(file), **options)
    with pytest.raises(exceptions.PreconditionFailed):
        place.blob().upload_from_filename(str(file), **options)
    place.blob().download_to_filename(str(tmp_path / "again"), retry=place.retry)
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def winner(act: Callable[[bytes], object], conflict: type[Exception]) -> bytes:
    """Return the content of the one, of eight that write theirs at once, that meets no conflict."""
    start, contents = threading.Barrier(8), [b"of %d" % number for number in range(8)]

    def wins(content: bytes) -> bool:
        start.wait()
        with contextlib.suppress(conflict):
            act(content)
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        (content,) = itertools.compress(contents, pool.map(wins, contents))
    return content


def test_one_of_eight_that_create_at_once_wins(place: Place) -> None:
    def create(content: bytes) -> None:
        place.blob().upload_from_string(content, if_generation_match=0, retry=place.retry)

    first = winner(create, exceptions.PreconditionFailed)
    assert place.content() == first


@uploads
def test_damage_on_the_way_is_refused(place: Place, upload: str) -> None:
    blob, wrong = place.blob(), crc32c(SECOND)
    checked = {"crc32c_checksum_value": wrong}
    if upload == "in one":
        blob.crc32c, checked = wrong, {}
    with pytest.raises(exceptions.BadRequest):
        UPLOADS[upload](blob, FIRST, checksum=None, retry=place.retry, **checked)
    assert place.content() is None


# Reading, listing, deleting.


def test_generations_grow_over_all_names_and_deletions(place: Place) -> None:
    generations = [place.blob("a", FIRST).generation, place.blob("a", SECOND).generation]
    place.blob("a").delete()
    generations += [place.blob("a", FIRST).generation]
    assert generations == sorted(set(generations))


def test_generation_that_was_replaced_is_not_there(place: Place) -> None:
    old = place.blob(content=FIRST).generation
    new = place.blob(content=SECOND).generation
    assert place.blob(generation=new).download_as_bytes() == SECOND
    with pytest.raises(exceptions.NotFound):
        place.blob(generation=old).download_as_bytes()
    assert place.bucket.get_blob(place.blob().name, generation=old) is None
    with pytest.raises(exceptions.NotFound):
        place.blob(generation=old).delete()
    assert place.content() == SECOND


def test_delete_needs_the_generation_that_is_there(place: Place) -> None:
    generation = place.blob(content=FIRST).generation
    with pytest.raises(exceptions.PreconditionFailed):
        place.blob().delete(if_generation_match=generation - 1, retry=place.retry)
    assert place.content() == FIRST
    place.blob().delete(if_generation_match=generation, retry=place.retry)
    assert place.content() is None
    with pytest.raises(exceptions.NotFound):
        place.blob().delete(if_generation_match=generation, retry=place.retry)


def test_part_of_an_object(place: Place) -> None:
    blob = place.blob(content=FIRST)
    for start, end, expected in ((0, 3, b"the "), (4, 8, b"first"), (10, None, b"content"), (10, 999, b"content")):
        assert blob.download_as_bytes(start=start, end=end, retry=place.retry) == expected
    with pytest.raises(exceptions.RequestRangeNotSatisfiable):
        blob.download_as_bytes(start=len(FIRST), retry=place.retry)


@pytest.mark.parametrize("name", ["a b+c", "100%", "ä/ö\N{SNOWMAN}", "#1?x=y&z", "a//b", "'\"<>\\", "a/../b"])
def test_name_of_any_letters(place: Place, name: str) -> None:
    place.blob(name, FIRST)
    assert place.content(name) == FIRST
    assert place.names() == [name]
    place.blob(name).delete()
    assert place.names() == []


def test_listing_is_in_order_and_complete_over_pages(place: Place) -> None:
    names = [f"{folder}/{number:02}" for folder in ("b", "a") for number in range(13)]
    for name in names:
        place.blob(name, FIRST)
    assert place.names() == sorted(names)
    pages = list(place.client.list_blobs(place.bucket, prefix=place.prefix, page_size=4).pages)
    sizes = [page.num_items for page in pages]
    assert max(sizes) <= 4
    assert sum(sizes) == len(names)


def test_listing_of_some_fields(place: Place) -> None:
    created = place.blob(content=FIRST)
    fields = "items(bucket,name,size,crc32c,generation),nextPageToken"
    listed = list(place.client.list_blobs(place.bucket, prefix=place.prefix, fields=fields))
    assert [(blob.name, blob.size, blob.crc32c) for blob in listed] == [(created.name, len(FIRST), crc32c(FIRST))]
    assert listed[0].generation == created.generation
    assert listed[0].metageneration is None


def test_bucket_that_is_not_there(place: Place) -> None:
    missing = place.client.bucket(f"{place.bucket.name}-missing-{'0' * 8}")
    with pytest.raises(exceptions.NotFound):
        missing.blob("object").upload_from_string(FIRST, retry=place.retry)
    with pytest.raises(exceptions.NotFound):
        list(place.client.list_blobs(missing))
