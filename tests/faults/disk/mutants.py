"""Broken variants of the writers of artifacts, for tests of the tests: each must be caught."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from components.core.storage import atomic_files
from tests.faults.counts import Counts
from tests.faults.disk.every_call import fail_everywhere, kill_everywhere
from tests.faults.disk.power_loss import lose_power_everywhere
from tests.faults.disk.writers import Writer

_write_file, _new_folder = atomic_files.write_file, atomic_files.new_folder


def _without_sync() -> Any:
    return mock.patch.multiple(os, fsync=lambda handle: None)


def _overwrites() -> Any:
    def write_file(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return mock.patch.multiple(atomic_files, write_file=write_file)


def _renames_first() -> Any:
    def write_file(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}-aside")
        with open(aside, "wb") as file:
            aside.replace(path)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return mock.patch.multiple(atomic_files, write_file=write_file)


def _manifest_first() -> Any:
    @contextlib.contextmanager
    def new_folder(location: Path, complete: str) -> Iterator[Path]:
        with _new_folder(location.with_name(f"{location.name}-aside"), complete) as folder:
            yield folder
            location.mkdir(parents=True)
            for path in sorted(folder.iterdir(), key=lambda path: path.name != complete):
                path.rename(location / path.name)
            (folder / complete).touch()

    return mock.patch.multiple(atomic_files, new_folder=new_folder)


def _ignores_errors() -> Any:
    def write_file(path: Path, content: bytes) -> None:
        with contextlib.suppress(OSError):
            _write_file(path, content)

    return mock.patch.multiple(atomic_files, write_file=write_file)


MUTANTS: dict[str, Callable[[], Any]] = {
    "no sync": _without_sync,
    "overwrites in place": _overwrites,
    "renames before it writes": _renames_first,
    "manifest first": _manifest_first,
    "ignores errors": _ignores_errors,
}


# The faults that must catch each, and the writer to try them on.
CATCHES: dict[str, list[tuple[Callable[[Writer, Path], Counts], str]]] = {
    "no sync": [(lose_power_everywhere, "file"), (lose_power_everywhere, "checkpoint")],
    "overwrites in place": [(kill_everywhere, "file"), (lose_power_everywhere, "file")],
    "renames before it writes": [(kill_everywhere, "file"), (lose_power_everywhere, "file")],
    "manifest first": [(kill_everywhere, "folder"), (kill_everywhere, "checkpoint")],
    "ignores errors": [(fail_everywhere, "file")],
}


def mutated(writer: Writer, mutant: str) -> Writer:
    """Return the writer in a broken variant; preparation and reader are unchanged."""

    def write(folder: Path) -> object:
        with MUTANTS[mutant]():
            return writer.write(folder)

    return dataclasses.replace(writer, write=write)
