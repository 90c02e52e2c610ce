"""A canceled run, which the server ends as failed, is shown as canceled."""

import pytest

from pipeline.cluster import backend
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.submission import Submission
from tests.fakes.kubeflow.server import Server

pytestmark = pytest.mark.usefixtures("bare_desk")


# Each is a sequence of events of a run, and the state shown at its end: the server says FAILED.
@pytest.mark.parametrize(
    ("events", "state"),
    [
        (["RUNNING", "FAILED"], backend.FAILED),
        (["RUNNING", "cancel", "FAILED"], backend.CANCELED),
        (["cancel", "cancel", "FAILED"], backend.CANCELED),
        (["RUNNING", "CANCELING", "FAILED"], backend.CANCELED),  # canceled elsewhere, and the history says so
        (["RUNNING", "cancel", "FAILED", "retry", "FAILED"], backend.FAILED),
        (["RUNNING", "cancel", "FAILED", "retry", "cancel", "FAILED"], backend.CANCELED),
        (["RUNNING", "FAILED", "retry", "SUCCEEDED"], backend.SUCCEEDED),
    ],
)
def test_a_canceled_run_is_distinguished_from_a_failed_one(
    server: Server, runs: KubeflowRuns, kfp_run: Submission, events: list[str], state: str
) -> None:
    run_id = runs.submit(kfp_run).run_id
    for event in events:
        if event == "cancel":
            runs.cancel(run_id)
        elif event == "retry":
            runs.retry(run_id)
        else:
            server.set_run(run_id, event)
    assert runs.status(run_id).state == state
    terminated = [request for request in server.requests if request.path.endswith(":terminate")]
    assert len(terminated) == (2 if events.count("cancel") == 2 and "retry" in events else int("cancel" in events))
