"""Registries in buckets, over HTTP: the order of writes, and what a death or a rival changes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.artifacts import evaluations, models
from components.core.errors import ConfigError, DataError, TransientError
from components.core.registry import registry
from components.core.storage.location import Location
from tests.fakes.gcs.server import HangUp, Request
from tests.faults.candidates import candidate
from tests.faults.soak import publication
from tests.faults.soak.publication import NAME, Bench
from tests.faults.soak.served import dies, without_retries

# A connection that a fault cuts, or a thread leaves open, is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with publication.bench(tmp_path_factory.mktemp("bench")) as running:
        yield running


def written(bench: Bench, since: int) -> list[str]:
    heads = (request.body.split(b"\r\n\r\n")[1].split(b"\r\n")[0] for request in bench.server.writes(since))
    return [str(json.loads(head)["name"]).removeprefix(f"{NAME}/") for head in heads]


def test_a_version_is_claimed_then_uploaded_then_committed_then_named(bench: Bench) -> None:
    location, since = bench.started(), len(bench.server.requests)
    result = bench.second.publish(location)
    assert result.parameters["version"] == 2
    assert not result.reused
    names = written(bench, since)
    assert names[0] == "claims/00000002"
    order = ["versions/2/saved_model.pb", "versions/2/MANIFEST.json", "champion.json", "champions/00000002.json"]
    assert names[-4:] == order
    assert len({*names[1:-4]}) == 8
    assert all(name.startswith("versions/2/") for name in names[1:-4])
    champion = registry.read_champion(location)
    assert (champion.version, champion.revision, champion.previous) == (2, 2, (1,))
    assert champion.model_digest == models.Manifest.of(bench.second.model).digest
    assert registry.read_version(location, 2, champion).evaluation.champion_version == 1
    assert registry.versions(location) == [1, 2]


def test_the_same_publication_again_writes_nothing(bench: Bench) -> None:
    location = bench.started()
    bench.second.publish(location)
    since = len(bench.server.requests)
    for candidate_, version in ((bench.second, 2), (bench.first, 1)):
        again = candidate_.publish(location)
        assert again.reused
        assert again.parameters["version"] == version
        assert re.findall(r"\d+", str(again.parameters["summary"])) == [f"{version}", "2"]
    assert bench.server.writes(since) == []
    assert bench.contents(location) == bench.published_second


def test_models_and_evaluations_come_from_buckets_too(bench: Bench, tmp_path: Path) -> None:
    location = bench.started()
    root = location.removesuffix(f"/{NAME}")
    Location.of(f"{root}/model").commit(Path(bench.second.model), models.MANIFEST)
    Location.of(f"{root}/evaluation").commit(Path(bench.second.evaluation), evaluations.MANIFEST)
    elsewhere = publication.Candidate(f"{root}/model", f"{root}/evaluation", bench.second.digest)
    assert elsewhere.publish(location).parameters["version"] == 2
    assert bench.contents(location) == bench.published_second


def test_a_process_killed_at_its_requests(bench: Bench) -> None:
    for at in range(3, bench.requests, 9):
        assert bench.kill(at, acted=at % 2 == 0) == publication.Tried(True, []), at


def test_what_died_does_not_stop_another_publication(bench: Bench) -> None:
    for at in (bench.writes[0], bench.writes[5], bench.writes[-2], bench.writes[-1]):
        assert bench.abandon(at, acted=True) == publication.Tried(True, []), at


@pytest.mark.parametrize("then", ["retry", "successor", "rollback"])
def test_a_zombie_that_wakes_up_changes_nothing(bench: Bench, then: str) -> None:
    for at in (0, bench.writes[1], bench.writes[-1]):
        assert bench.zombie(at, acted=False, then=then) == publication.Tried(True, []), at


def test_of_publications_at_once_one_wins(bench: Bench) -> None:
    assert [bench.race(seed).violations for seed in range(3)] == [[]] * 3


def test_what_another_process_deletes_is_noticed_before_it_is_champion(bench: Bench) -> None:
    for at in (bench.requests // 2, bench.requests - 4):
        assert bench.interference(at, "saved_model.pb").violations == []


def test_two_first_publications(bench: Bench, tmp_path: Path) -> None:
    """Both have claimed and uploaded, and neither is champion."""
    location = bench.fresh()
    other = candidate(tmp_path, 500)
    for publisher in (bench.first, other):
        bench.server.before = _refuse_champion
        with without_retries(), pytest.raises(TransientError):
            publisher.publish(location)
        bench.server.before = None
    assert registry.versions(location) == [1, 2]
    assert registry.read_champion(location).version == 0
    assert other.publish(location).parameters["version"] == 2
    with pytest.raises(DataError, match=r"no champion, .* version 2"):
        bench.first.publish(location)


def _refuse_champion(request: Request) -> None:
    if request.method == "POST" and b"champion.json" in request.body and b'"version": 0' not in request.body:
        raise HangUp


def test_a_first_publication_that_dies_is_finished_by_the_same_command(bench: Bench) -> None:
    """After it has written its first champion.json, its claim, its manifest, and the champion.json that names it."""
    location, since = bench.fresh(), len(bench.server.requests)
    bench.first.publish(location)
    whole, writes = bench.contents(location), [request.number - since for request in bench.server.writes(since)]
    for at in (writes[0], writes[1], writes[-2], writes[-1]):
        location = bench.fresh()
        assert dies(bench.server, at, True, bench.first.publish, location)
        registry.read_champion(location)  # no champion counts as lost
        assert bench.first.publish(location).parameters["version"] == 1
        assert bench.contents(location) == whole, at


def test_what_may_not_be_written_is_reported(bench: Bench) -> None:
    location = bench.started()
    bench.server.deny("storage.objects.create", f"{NAME}/versions/")
    with pytest.raises(ConfigError, match="permission is missing"):
        bench.second.publish(location)
    bench.server.denied.clear()
    bench.server.deny("storage.objects.delete", f"{NAME}/versions/")  # nothing of a version is ever replaced
    bench.server.deny("storage.objects.delete", f"{NAME}/claims/")
    assert bench.second.publish(location).parameters["version"] == 2
    bench.server.denied.clear()
