"""One story of a run and one of a schedule for every backend, as a user would tell them.

The servers are fakes: nothing here has been near a cluster or Vertex.
"""

import json
import re
from pathlib import Path

import pytest

from components.core import errors
from pipeline.cluster import waiting
from pipeline.cluster.vertex import runs as vertex_runs
from tests.unit.pipeline.cluster.conftest import on, submit, write_schedules
from tests.unit.pipeline.cluster.worlds import STARTS_A_RUN, World
from tests.unit.pipeline.conftest import ended as wgan

pytestmark = pytest.mark.usefixtures("bare_desk")


@pytest.fixture
def package(world: World, packages: Path) -> Path:
    return packages / f"{world.target}.yaml"


def test_submit_wait_fail_logs_retry_succeed(world: World, package: Path) -> None:
    world.play(
        ("RUNNING", {"decide": ("RUNNING", "")}),
        ("RUNNING", {"decide": ("SUCCEEDED", ""), "train": ("RUNNING", "")}),
        ("FAILED", {"decide": ("SUCCEEDED", ""), "train": ("FAILED", "out of memory")}),
    )
    ended = submit(world, package, "--wait", "--steps", "500")
    assert ended.code == waiting.FAILED
    (run_id,) = world.run_ids()
    states = [message.split(" after ")[0] for message in ended.log if message.startswith(("decide: ", "train: "))]
    assert states == ["decide: running", "decide: succeeded", "train: running", "train: failed"]
    assert ended.log[-1].startswith(f"run {run_id} failed: train: out of memory; `{world.logs_command(run_id)}")
    rows = [row.split()[:2] for row in ended.out.splitlines() if row.startswith(("decide ", "train ", "root "))]
    assert rows == [["decide", "succeeded"], ["train", "failed"]]
    logs = on(world, "logs", run_id, "train")
    assert logs.code == errors.BAD_CONFIGURATION
    assert world.logs_remedy in logs.log[-1]

    # Vertex starts another run.
    assert on(world, "retry", run_id).code == errors.OK
    world.play(("RUNNING", {"train": ("RUNNING", "")}), ("SUCCEEDED", {"train": ("SUCCEEDED", "")}))
    newest = world.run_ids()[-1]
    assert on(world, "status", newest, "--wait").code == errors.OK
    listed = json.loads(on(world, "status", "--json").out)
    assert {run["run_id"]: run["state"] for run in listed} == {run_id: "FAILED", newest: "SUCCEEDED"}


def test_cancel_and_retry_fit_the_state(world: World, package: Path) -> None:
    submit(world, package)
    (run_id,) = world.run_ids()
    world.stop(None)
    assert on(world, "retry", run_id).code == errors.BAD_CONFIGURATION
    world.set_run(run_id, "SUCCEEDED")
    assert on(world, "cancel", run_id).code == errors.BAD_CONFIGURATION
    assert on(world, "retry", run_id).code == errors.BAD_CONFIGURATION
    assert not any(world.requests())


@pytest.mark.parametrize("acted", [False, True])
def test_no_second_run_starts(world: World, package: Path, acted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vertex_runs, "_WAITS", (0.0,))
    submit(world, package)  # another one, which is not taken for it
    world.lose(STARTS_A_RUN, acted, onwards=False)
    code = submit(world, package).code
    assert (code, len(world.run_ids())) in [(errors.OK, 2)] + [(errors.TRANSIENT, 1)] * (not acted)


def test_every_mistake_is_found_before_anything_is_sent(world: World, package: Path) -> None:
    words = ["--package", str(package), "--root", "runs", "--steps", "many", "--stepz", "3", "--timeout", "5"]
    ended = wgan("submit", *words, *world.flags, "--run-name", "n" * 129)
    assert ended.code == errors.BAD_CONFIGURATION
    pipeline_root = ["pipeline_root"] if world.target == "vertex" else []
    names = ["stepz", *pipeline_root, "run_name", "timeout", "root", "source", "steps"]
    assert [message.removeprefix("unknown flag ").split()[0].strip(";") for message in ended.log] == names
    assert world.server.requests == []


def test_a_schedule(world: World, package: Path, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"

    def schedule(*words: str) -> tuple[int, list[str]]:
        """Run `wgan schedule ...`; its exit code and what it printed, without ids."""
        ids = {live.schedule_id for live in world.connected().live()}
        ended = on(world, "schedule", *words, "--file", str(file))
        ids |= {*world.run_ids(), *(live.schedule_id for live in world.connected().live())}
        return ended.code, [
            " ".join(word for word in line.split() if word not in ids) for line in ended.out.splitlines()
        ]

    def write(**schedules: dict[str, object]) -> None:
        write_schedules(file, package, world.target, **schedules)

    write(weekly={}, nightly={"cron": "30 2 * * 1-7", "enabled": False})
    assert schedule("apply") == (0, ["weekly: created", "nightly: created, paused"])
    assert world.starts() == [("weekly", True), ("nightly", False)]
    world.stop(None)
    assert schedule("apply") == (0, [f"{world.target}: nothing to change"])
    assert not any(world.requests())
    unchanged = [f"unchanged weekly ({world.target})", f"unchanged nightly ({world.target}, paused)"]
    assert schedule("diff", "--exit-code") == (0, unchanged)

    # Edited while a run is active: it goes on, and its schedule starts no other.
    ((run_id, _),) = world.fire().items()
    write(weekly={"cron": "0 7 * * 1", "concurrency": 2}, nightly={"cron": "30 2 * * *"})
    code, lines = schedule("diff", "--exit-code")
    assert (code, lines[0], lines[2]) == (1, f"replace weekly ({world.target})", f"resume nightly ({world.target})")
    assert "will be deleted" in lines[1]
    code, lines = schedule("apply")
    assert (code, lines[:2]) == (0, ["weekly: replaced", "nightly: resumed"])
    assert lines[3].startswith(f"{world.target}: apply again")
    assert world.starts() == [("weekly", False), ("nightly", True), ("weekly", True)]
    assert {tuple(line.split()[:5]) for line in schedule("list")[1][1:]} >= {
        ("weekly", world.target, "paused", "to", "be"),
        ("weekly", world.target, "enabled", "enabled", "0" if world.target == "kfp" else "TZ=UTC"),
    }
    world.set_run(run_id, "SUCCEEDED")
    assert schedule("apply") == (0, ["weekly: deleted"])
    assert world.killed_runs() == []

    for said in ("paused", "is paused already"):
        assert schedule("pause", "weekly") == (0, [f"weekly: {said}"])
        assert world.starting() == ["nightly"]
    assert schedule("resume", "weekly") == (0, ["weekly: resumed"])
    assert (schedule("pause", "weekly")[0], schedule("apply")) == (0, (0, ["weekly: resumed"]))

    # What the file no longer has.
    write(weekly={"cron": "0 7 * * 1", "concurrency": 2})
    assert re.match(rf"delete nightly \({world.target}\): .*--prune", schedule("diff")[1][1])
    assert schedule("apply") == (0, [f"{world.target}: nothing to change"])
    assert schedule("apply", "--prune") == (0, ["nightly: deleted"])
    assert world.starts() == [("weekly", True)]
