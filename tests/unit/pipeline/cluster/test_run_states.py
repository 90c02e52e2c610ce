"""How a run and its stages stand, for every backend; `test_records.py` has how a run ends."""

from pathlib import Path

import pytest

from pipeline.cluster import backend
from tests.unit.pipeline.cluster.conftest import submission_for
from tests.unit.pipeline.cluster.worlds import Stages, World

pytestmark = pytest.mark.usefixtures("bare_desk")


# State of a run, states and messages of its tasks, and states of its stages.
STATES: list[tuple[str, Stages, dict[str, str]]] = [
    ("PENDING", {}, {}),
    ("RUNNING", {"decide": ("PENDING", "")}, {"decide": "PENDING"}),
    # In the pipeline's order, without tasks around stages.
    (
        "RUNNING",
        {"exit-handler-1": ("RUNNING", ""), "train": ("RUNNING", ""), "decide": ("SUCCEEDED", "")},
        {"decide": "SUCCEEDED", "train": "RUNNING"},
    ),
    ("PAUSED", {"decide": ("SUCCEEDED", "")}, {"decide": "SUCCEEDED"}),
    ("CANCELING", {"train": ("CANCELING", "")}, {"train": "CANCELING"}),
    (
        "SUCCEEDED",
        {"publish": ("SKIPPED", ""), "evaluate": ("SUCCEEDED", "")},
        {"evaluate": "SUCCEEDED", "publish": "SKIPPED"},
    ),
    # Nothing stays active when the run has ended.
    ("SUCCEEDED", {"export": ("RUNNING", "")}, {"export": "SUCCEEDED"}),
    (
        "FAILED",
        {"train": ("FAILED", "x"), "embed": ("RUNNING", ""), "evaluate": ("PENDING", "")},
        {"train": "FAILED", "embed": "CANCELED", "evaluate": "SKIPPED"},
    ),
    (
        "CANCELED",
        {"train": ("CANCELED", ""), "embed": ("CANCELING", ""), "evaluate": ("PENDING", "")},
        {"train": "CANCELED", "embed": "CANCELED", "evaluate": "SKIPPED"},
    ),
]


def test_states_of_a_run_and_its_stages(world: World, packages: Path) -> None:
    runs, wanted = world.runs(), submission_for(world.target, packages)
    for state, reported, stages in STATES:
        run_id = runs.submit(wanted).run_id
        if state == backend.CANCELED:
            runs.cancel(run_id)
        world.set_run(run_id, state, reported)
        run = runs.status(run_id)
        assert run.state == state
        assert (run.finished is not None) == (state in backend.ENDED), state
        assert [(stage.name, stage.state) for stage in run.stages] == list(stages.items())
        messages = {name: message for name, (_, message) in reported.items() if message}
        assert {stage.name: stage.message for stage in run.stages if stage.message} == messages
