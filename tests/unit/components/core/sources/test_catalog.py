"""Catalogs on disk, against lists in memory."""

import errno
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.sources.catalog import Catalog, Checksum
from components.core.sources.files import SourceFile

NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=3)
PATHS = st.one_of(st.binary(min_size=1, max_size=9).map(lambda raw: raw.decode("utf-8", "surrogateescape")), st.text())
FILES = st.dictionaries(NAMES, st.tuples(st.integers(0, 2), PATHS.filter(lambda t: "\0" not in t)), max_size=30)


def catalog_of(files: dict[str, tuple[int, str]]) -> Catalog:
    return Catalog("pets", ((kind, SourceFile(name, at, len(at), f"{kind}")) for name, (kind, at) in files.items()))


@given(FILES, st.sets(st.integers(0, 2)))
def test_a_catalog_is_a_sorted_list(files: dict[str, tuple[int, str]], kinds: set[int]) -> None:
    catalog = catalog_of(files)
    listed = catalog.files(*kinds)
    expected = [SourceFile(name, at, len(at), f"{kind}") for name, (kind, at) in sorted(files.items()) if kind in kinds]
    assert list(listed) == expected
    assert len(listed) == len(expected)
    # Two readers at once do not disturb each other.
    assert list(zip(listed, listed, strict=True)) == [(file, file) for file in expected]
    assert list(catalog.names(*kinds)) == [file.name for file in expected]


def test_checksums_come_while_files_are_read_and_take_the_place_of_stamps() -> None:
    # So many that the table is split over many pages, meanwhile.
    files = {f"{number:06d}": (number % 2, f"place {number}") for number in range(20_000)}
    catalog = catalog_of(files)
    catalog.note(Checksum(file.name, file.stamp, file.name * 10) for file in catalog.unread(0))
    assert [*catalog.unread(0)] == []
    assert len(catalog.unread(1)) == 10_000
    assert [file[3:] for file in catalog.files(0)] == [("", name * 10) for name in sorted(files)[::2]]
    assert [*catalog.checksums(0, 1)] == [Checksum(name, "0", name * 10) for name in sorted(files)[::2]]


def test_a_full_disk_is_an_error_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    database = sqlite3.connect("")
    database.execute("PRAGMA max_page_count = 9")
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: database)
    with pytest.raises(OSError, match="No space left") as raised:
        catalog_of({f"{number}": (0, "x" * 99) for number in range(2_000)})
    assert raised.value.errno == errno.ENOSPC
