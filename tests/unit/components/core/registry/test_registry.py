"""The same operations on a registry in a folder and in a bucket give the same results."""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.artifacts import models
from components.core.errors import StageError
from components.core.registry import registry
from pipeline.registry import upkeep
from tests.fakes.gcs.server import Server
from tests.faults.candidates import Candidate, candidate
from tests.faults.soak.served import quick_server

# A connection that a fault cuts, or a thread leaves open, is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

Operation = tuple[str, int]
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["publish", "late"]), st.integers(1, 4)),
    st.tuples(st.just("promote"), st.integers(1, 5)),
    st.tuples(st.just("rollback"), st.just(0)),
    st.tuples(st.just("gc"), st.integers(1, 2)),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with quick_server(tmp_path_factory.mktemp("served")) as started:
        yield started


@functools.cache
def cached_candidate(folder: Path, step: int, digest: str, version: int) -> Candidate:
    return candidate(folder / f"{step}-{digest[:12]}-{version}", step, rival=(digest, version))


def done(folder: Path, location: str, operation: Operation, rival: registry.Champion) -> str:
    """Return the result of an operation, or the kind of its failure."""
    name, number = operation
    try:
        if name in ("publish", "late"):
            result = cached_candidate(folder, number, rival.model_digest, rival.version).publish(location)
            return str((result.parameters, result.reused))
        with contextlib.redirect_stdout(None):
            if name == "promote":
                upkeep.promote(location, number)
            elif name == "rollback":
                upkeep.rollback(location)
            else:
                upkeep.gc(location, number, uncommitted=False, yes=True)
        return "done"
    except StageError as error:
        return f"{type(error).__name__}: {error}".replace(location, "PLACE")


def state(location: str) -> str:
    """Return everything that a reader finds."""
    champion = registry.read_champion(location)
    numbers = registry.versions(location, champion)
    described = [models.Manifest.fetch(registry.version_location(location, number)).digest for number in numbers]
    assert [registry.damage(location, number, champion) for number in numbers] == [[]] * len(numbers)
    return json.dumps([dataclasses.asdict(champion), numbers, described], indent=1)


@settings(max_examples=3)
@given(st.lists(OPERATIONS, min_size=3, max_size=6))
def test_alike(server: Server, tmp_path_factory: pytest.TempPathFactory, operations: list[Operation]) -> None:
    root = tmp_path_factory.mktemp("alike")
    server.create_bucket(root.name)
    folder, bucket, previous = str(root / "registry"), f"gs://{root.name}/registry", registry.NOBODY
    for operation in [("publish", 1), *operations]:
        champion = registry.read_champion(folder)
        rival = previous if operation[0] == "late" else champion
        wanted = done(root, folder, operation, rival)
        assert done(root, bucket, operation, rival) == wanted, operation
        assert state(bucket) == state(folder), operation
        previous = champion
