"""Broken variants of publication to a bucket, which the trials must notice."""

import contextlib
import random
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from components.core.artifacts import evaluations, models
from components.core.registry import registry, registry_bucket
from components.core.storage import buckets
from components.core.storage.location import files_below
from components.publish import run as publish
from tests.faults.soak.publication import Bench, Tried

Trial = Callable[[Bench, int], Tried]


def _uploads_by(order: Callable[[str], Any]) -> AbstractContextManager[Any]:
    """Upload the files of a version in another order, by their names."""

    def upload(prepared: Path, location: str) -> None:
        names = sorted(path.relative_to(prepared).as_posix() for path in prepared.rglob("*") if path.is_file())
        for name in sorted(names, key=order):
            buckets.create(f"{location}/{name}", prepared / name)

    return mock.patch.object(registry_bucket, "_upload", upload)


def _manifest_first() -> AbstractContextManager[Any]:
    """Upload the manifest before the files that it describes."""
    return _uploads_by(lambda name: name != models.MANIFEST)


def _servable_first() -> AbstractContextManager[Any]:
    """Upload the file that TensorFlow Serving looks for before the variables."""
    return _uploads_by(lambda name: (name == models.MANIFEST, name != "saved_model.pb"))


def _blind_pointer() -> AbstractContextManager[Any]:
    """Write the champion without a precondition."""

    def replace(uri: str, content: bytes, generation: int) -> None:
        while True:
            found = buckets.stat(uri)
            if buckets._upload(uri, content, found.generation if found else 0):
                return

    return mock.patch.object(buckets, "replace", replace)


def _refusal_is_failure() -> AbstractContextManager[Any]:
    """Treat 412 as a failure, even if our own upload is there."""

    def create(uri: str, source: Path | bytes) -> None:
        if not buckets._upload(uri, source, generation=0):
            raise buckets.Conflict(uri)

    return mock.patch.object(buckets, "create", create)


def _refusal_is_success() -> AbstractContextManager[Any]:
    """Treat 412 as success, even over another object."""

    def create(uri: str, source: Path | bytes) -> None:
        buckets._upload(uri, source, generation=0)

    return mock.patch.object(buckets, "create", create)


def _unverified() -> AbstractContextManager[Any]:
    """Verify nothing: neither uploads, nor the version before it becomes champion."""

    def compared(location: str, expected: dict[str, tuple[int, str]]) -> set[str]:
        there = set(files_below(location))
        return set(expected) if "saved_model.pb" in there else there

    def read_version(location: str, number: int, champion: registry.Champion | None) -> registry.Version:
        folder = registry.version_folder(location, number)
        with contextlib.suppress(Exception):
            registry._fetched(location, number)
        return registry.Version(
            number=number,
            model=models.Description.read(folder),
            evaluation=evaluations.Description.read(registry.evaluation_folder(folder)),
        )

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(registry_bucket, "_compared", compared))
    stack.enter_context(mock.patch.object(publish.registry, "read_version", read_version))
    return stack


def _no_claim() -> AbstractContextManager[Any]:
    """Take as a version's number one more than the highest listed one."""

    def claimed(location: str, claim: bytes, taken: int, removed: Collection[int]) -> int:
        return max([0, *registry_bucket.committed(location)]) + 1

    return mock.patch.object(registry_bucket, "_claimed", claimed)


def _rollback_undone() -> AbstractContextManager[Any]:
    """Publish without checking whether the version was champion before."""
    return mock.patch.object(publish, "_published_before", return_value=None)


def _lost_answer(bench: Bench, seed: int) -> Tried:
    return bench.fault("lost-ack", random.Random(seed).choice(bench.writes))


def _interference(bench: Bench, seed: int) -> Tried:
    at = random.Random(seed).randrange(bench.writes[-3])
    return bench.interference(at, ("saved_model.pb", "variables/variables.index")[seed % 2])


def _abandon(bench: Bench, seed: int) -> Tried:
    return bench.abandon(random.Random(seed).choice(bench.writes), acted=True)


def _zombie(then: str) -> Trial:
    def trial(bench: Bench, seed: int) -> Tried:
        return bench.zombie(random.Random(seed).randrange(bench.requests), acted=False, then=then)

    return trial


# By name: the broken part, and the trials that must notice it.
MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Trial]] = {
    "manifest first": (_manifest_first, Bench.race),
    "servable first": (_servable_first, Bench.race),
    "blind pointer": (_blind_pointer, _zombie("successor")),
    "412 is failure": (_refusal_is_failure, _lost_answer),
    "412 is success": (_refusal_is_success, Bench.race),
    "unverified": (_unverified, _interference),
    "no claim": (_no_claim, _abandon),
    "rollback undone": (_rollback_undone, _zombie("rollback")),
}


def caught(bench: Bench, name: str, seeds: Collection[int]) -> int:
    """Return in how many trials a mutant was noticed."""
    broken, trial = MUTANTS[name]
    with broken():
        return sum(bool(trial(bench, seed).violations) for seed in seeds)
