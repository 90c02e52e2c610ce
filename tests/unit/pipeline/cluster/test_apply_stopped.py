"""Apply stopped at every request, then applied again, on Kubeflow and on Vertex; in memory see `test_apply.py`."""

from pathlib import Path
from typing import Any

import pytest
from kfp import compiler, dsl

from components.core.errors import TransientError
from pipeline.cluster import apply
from pipeline.cluster.backend import Schedule
from pipeline.cluster.submission import Submission, read_package
from pipeline.package.package_origin import Origin
from tests.unit.pipeline.cluster.worlds import World

pytestmark = pytest.mark.usefixtures("bare_desk")


@dsl.container_component
def train(source: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="trainer:1", command=["python", "-m", "components.train", source])


def retraining(source: str) -> None:
    train(source=source).set_caching_options(False)


def applied(world: World, wanted: list[Schedule]) -> list[Any]:
    """Apply to the end; return the resulting schedules, without ids."""
    location = world.connected()
    apply.apply(location, wanted, True, lambda line: None)
    return sorted((each.name, each.enabled, each.digest, len(each.active_runs)) for each in location.live())


def test_stopped_at_every_request_and_applied_again(world: World, tmp_path: Path) -> None:
    """From one to keep, one to replace at work, one to replace, one to pause and one to delete."""
    # A package of one stage: a server takes long to read ours often.
    path = tmp_path / "pipeline.yaml"
    described = dsl.pipeline(name="retraining", description=str(Origin(world.target, "cpu")))
    compiler.Compiler().compile(described(retraining), str(path))
    read = read_package(path)

    def schedule(name: str, hour: int = 9, enabled: bool = True) -> Schedule:
        run = Submission(
            package=read,
            parameters={"source": "digits"},
            experiment="retraining",
            run_name=name,
            pipeline_root="gs://bucket/root",
        )
        cron = f"0 {hour} * * *"
        return Schedule(name=name, cron=cron, time_zone="UTC", target=world.target, submission=run, enabled=enabled)

    before = [schedule(name) for name in ("keep", "busy", "change", "stop", "go")]
    wanted = [schedule("keep"), schedule("busy", 10), schedule("change", 10), schedule("stop", enabled=False)]
    applied(world, before)
    world.start_run("busy")
    prepared = world.saved()
    world.stop(None)
    whole = applied(world, wanted)
    changing = world.requests()
    assert len(changing) > 10
    for after in (False, True):
        for at, changes in enumerate(changing, 1):
            if after and not changes:
                continue  # the state is that before the next request
            world.restore(prepared)
            world.stop(at, after)
            with pytest.raises(TransientError):
                applied(world, wanted)
            starting = world.starting()
            assert len(set(starting)) == len(starting)
            assert world.killed_runs() == []
            world.stop(None)
            assert applied(world, wanted) == whole, f"stopped {'after' if after else 'before'} request {at}"
            assert sorted(world.starting()) == ["busy", "change", "keep"]
            assert world.killed_runs() == []
    world.end_runs()
    assert [name for name, *_ in applied(world, wanted)] == ["busy", "change", "keep", "stop"]
