"""Apply on Kubeflow and on Vertex, also stopped at every request, and then applied again."""

import copy
import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from kfp import compiler, dsl

from components.core.errors import TransientError
from pipeline.cluster import apply
from pipeline.cluster.backend import Schedule, Submission
from pipeline.package import reader
from pipeline.profiles.targets import Origin
from tests.unit.pipeline.cluster.worlds import CREATES_A_SCHEDULE, World

pytestmark = pytest.mark.usefixtures("bare_desk")


@dsl.container_component
def train(source: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="trainer:1", command=["python", "-m", "components", "train", source])


def retraining(source: str) -> None:
    train(source=source)


def applied(world: World, wanted: list[Schedule]) -> list[Any]:
    """Apply to the end; return the resulting schedules, without ids."""
    schedules = world.connected()
    list(apply.apply(world.target, schedules, wanted, prune=True))
    return sorted((live.name, live.enabled, live.digest, len(live.active_runs)) for live in schedules.live())


@functools.cache
def small_package(target: str) -> reader.Package:
    """A package of one stage: a server takes long to read ours often."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        described = dsl.pipeline(name="retraining", description=str(Origin(target, "cpu")))
        compiler.Compiler().compile(described(retraining), str(path))
        return reader.read(path)


def weekly(world: World, name: str = "weekly", hour: int = 9, enabled: bool = True) -> Schedule:
    """Return a schedule of a small package."""
    run = Submission(
        package=small_package(world.target),
        parameters={"source": "digits"},
        experiment="retraining",
        run_name=name,
        pipeline_root="gs://bucket/root",
    )
    cron = f"0 {hour} * * *"
    return Schedule(name=name, cron=cron, time_zone="UTC", target=world.target, submission=run, enabled=enabled)


def test_stopped_at_every_request_and_applied_again(world: World) -> None:
    """From one to keep, one to replace at work, one to replace, one to pause and one to delete.

    A request whose answer is lost leaves the state in which the next one is refused.
    """
    before = [weekly(world, name) for name in ("keep", "busy", "change", "stop", "go")]
    replaced = [weekly(world, name, hour=10) for name in ("busy", "change")]
    wanted = [weekly(world, "keep"), *replaced, weekly(world, "stop", enabled=False)]
    applied(world, before)
    world.start_run("busy")
    prepared = copy.deepcopy(world.state())
    world.stop(None)
    whole = applied(world, wanted)
    requests = len(world.requests())
    assert requests > 10
    for at in range(1, requests + 1):
        world.restore(prepared)
        world.stop(at)
        with pytest.raises(TransientError):
            applied(world, wanted)
        starting = world.starting()
        assert len(set(starting)) == len(starting)
        assert world.killed_runs() == []
        world.stop(None)
        assert applied(world, wanted) == whole, f"stopped before request {at}"
        assert sorted(world.starting()) == ["busy", "change", "keep"]
        assert world.killed_runs() == []
    for run_id in world.run_ids():
        world.set_run(run_id, "SUCCEEDED")
    assert [name for name, *_ in applied(world, wanted)] == ["busy", "change", "keep", "stop"]


def test_back_to_a_replaced_schedule_creates_it_anew(world: World) -> None:
    """One that was paused while another replaced it may start missed runs at once."""
    for hour in (9, 10):
        applied(world, [weekly(world, hour=hour)])
        world.start_run("weekly")
    replaced = {live.schedule_id for live in world.connected().live()}
    applied(world, [weekly(world)])
    enabled = {live.schedule_id for live in world.connected().live() if live.enabled}
    assert (len(enabled), enabled & replaced, world.starting()) == (1, set(), ["weekly"])


def test_two_of_one_name_become_one(world: World) -> None:
    schedules = world.connected()
    for _ in range(2):
        schedules.resume(schedules.create(weekly(world)))
    assert world.starting() == ["weekly", "weekly"]
    applied(world, [weekly(world)])
    assert world.starts() == [("weekly", True)]


@pytest.mark.parametrize("acted", [False, True])
def test_one_that_cannot_be_replaced_goes_on(world: World, acted: bool) -> None:
    applied(world, [weekly(world)])
    world.lose(CREATES_A_SCHEDULE, acted, onwards=False)
    with pytest.raises(TransientError):
        applied(world, [weekly(world, hour=10)])
    assert world.starting() == ["weekly"]


def test_one_that_is_resumed_meanwhile_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    applied(world, [weekly(world)])
    schedules = world.connected()
    monkeypatch.setattr(schedules, "pause", lambda schedule_id: None)  # somebody resumes it at once
    (stays, _) = apply.apply(world.target, schedules, [], prune=True)
    assert stays.endswith(" stays: it was resumed meanwhile")
    assert world.starting() == ["weekly"]
