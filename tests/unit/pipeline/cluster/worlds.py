"""Kubeflow and Vertex alike: a fake server of each, and what a test may do to it behind the client's back."""

import contextlib
import copy
import datetime
import re
from collections.abc import Iterator
from typing import Any, Protocol

import grpc

from pipeline.cluster.backend import Server
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from pipeline.cluster.vertex.connection import VertexConnection
from pipeline.cluster.vertex.schedules import VertexBackend
from tests.fakes.kubeflow import server as kubeflow
from tests.fakes.vertex import server as vertex

Stages = dict[str, tuple[str, str]]  # name: state and message
# Requests of either target, by method and path, or name.
READS_A_RUN = "GET .*/runs/|GetPipelineJob"
STARTS_A_RUN = "POST .*/runs$|CreatePipelineJob"
CHANGES_A_RUN = f"{STARTS_A_RUN}|:terminate$|:retry$|CancelPipelineJob"
CREATES_A_SCHEDULE = "POST .*/recurringruns$|CreateSchedule"
# Words of Vertex for states of Kubeflow; its SKIPPED is of a task whose result was reused.
_VERTEX_STATES = {"CANCELING": "CANCELLING", "CANCELED": "CANCELLED", "SKIPPED": "NOT_TRIGGERED"}


def matches(pattern: str, *request: Any) -> bool:
    """Whether a request, as `server.before` gets it, is one of these."""
    name = request[0] if isinstance(request[0], str) else f"{request[0].method} {request[0].path}"
    return bool(re.search(pattern, name))


class World(Protocol):
    """The tests' view of either server."""

    target: str
    flags: list[str]  # words of a command line that say where it is
    pipeline_root: list[str]  # words for `wgan submit`
    logs_remedy: str  # what `wgan logs` of the stage train says
    server: Any
    first: int = 0

    def connected(self) -> Server: ...  # through a new connection
    def run_ids(self) -> list[str]: ...  # of all runs, oldest first
    def logs_command(self, run_id: str) -> str: ...  # its beginning, for the stage train
    def inputs_of_exit_handler(self, run_id: str) -> dict[str, str] | None: ...  # None if it is not started
    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None: ...  # in Kubeflow's terms
    def fire(self) -> dict[str, str]: ...  # starts what schedules may start now; their names by the ids of the runs
    def starts(self) -> list[tuple[str, bool]]: ...  # names of schedules, and whether they start runs within the hour
    def killed_runs(self) -> list[str]: ...  # runs that did not end by themselves
    def requests(self) -> list[bool]: ...  # since `stop` was called: whether each could change anything
    def state(self) -> list[dict[str, Any]]: ...
    def hang_up(self) -> None: ...  # raises an error that ends a connection

    def play(self, *states: tuple[str, Stages]) -> None:
        """Have the newest run be in these states, each at the next request for it."""
        left = list(states)

        def report(*request: Any) -> None:
            if left and matches(READS_A_RUN, *request):
                self.set_run(self.run_ids()[-1], *left.pop(0))

        self.server.before = report

    def lose(self, requests: str, acted: bool = False, onwards: bool = True) -> None:
        """Hang up at the first of these requests, before or after it is executed, and at each from then on."""
        lost: list[object] = []

        def hang_up(*request: Any) -> None:
            if (lost and onwards) or (not lost and matches(requests, *request)):
                lost.append(request)
                self.hang_up()

        setattr(self.server, "after" if acted else "before", hang_up)

    def start_run(self, name: str) -> None:
        """Let schedules start runs, of which only that of one name continues."""
        for run_id, schedule in self.fire().items():
            if schedule != name:
                self.set_run(run_id, "SUCCEEDED")

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for current, previous in zip(self.state(), copy.deepcopy(saved), strict=True):
            current.clear()
            current.update(previous)

    def starting(self) -> list[str]:
        """Names of the schedules that start runs."""
        return [name for name, starts in self.starts() if starts]

    def stop(self, at: int | None) -> None:
        """Let no request through from number `at` on, counted from 1, as if the program were gone; None for all."""
        self.first = len(self.server.requests)

        def refuse(*_: Any) -> None:
            if at is not None and len(self.server.requests) >= self.first + at:
                self.hang_up()

        self.server.before = refuse


class Kubeflow(World):
    target = "kfp"
    logs_remedy = "give --kube-context NAME"

    def __init__(self, server: kubeflow.Server) -> None:
        self.server = server
        self.flags, self.pipeline_root = ["--host", server.url], []

    def logs_command(self, run_id: str) -> str:
        return f"kubectl logs -n kubeflow -l pipeline/runid={run_id} "

    def connected(self) -> Server:
        return KubeflowBackend(KubeflowConnection(host=self.server.url))

    def inputs_of_exit_handler(self, run_id: str) -> dict[str, str] | None:
        inputs: dict[str, str] | None = self.server.store.inputs_of_exit_handler(run_id)
        return inputs

    def run_ids(self) -> list[str]:
        return list(self.server.store.runs)

    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None:
        # the real server ends a canceled run as failed
        self.server.set_run(run_id, "FAILED" if state == "CANCELED" else state, stages)

    def fire(self) -> dict[str, str]:
        store = self.server.store
        ids = {run_id: store.runs[run_id]["recurring_run_id"] for run_id in self.server.tick()}
        return {run_id: store.recurring_runs[schedule_id]["display_name"] for run_id, schedule_id in ids.items()}

    def starts(self) -> list[tuple[str, bool]]:
        recurring = self.server.store.recurring_runs.values()
        return [(schedule["display_name"], schedule["mode"] == "ENABLE") for schedule in recurring]

    def killed_runs(self) -> list[str]:
        return list(self.server.store.killed_runs)

    def requests(self) -> list[bool]:
        return [request.method != "GET" for request in self.server.requests[self.first :]]

    def state(self) -> list[dict[str, Any]]:
        return [vars(self.server.store)]

    def hang_up(self) -> None:
        raise kubeflow.HangUp


class Vertex(World):
    target = "vertex"
    logs_remedy = "gcloud logging read 'resource.labels.job_id=(\"1003\")'"

    def __init__(self, server: vertex.VertexServer) -> None:
        self.server = server
        self.pipeline_root = ["--pipeline-root", "gs://bucket/vertex"]
        self.flags = ["--project", "my-project-1", "--location", "us-central1", "--api-endpoint", server.url]

    def logs_command(self, run_id: str) -> str:
        return f"wgan logs {run_id} train --target vertex "

    def connected(self) -> Server:
        place: dict[str, Any] = {"project": "my-project-1", "location": "us-central1", "api_endpoint": self.server.url}
        return VertexBackend(VertexConnection(**place))

    def inputs_of_exit_handler(self, run_id: str) -> dict[str, str] | None:
        return dict(self.server.inputs_of_exit_handler(run_id))

    def run_ids(self) -> list[str]:
        return [name.rpartition("/")[2] for name in self.server.jobs]

    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None:
        theirs = {name: (_VERTEX_STATES.get(at, at), message) for name, (at, message) in (stages or {}).items()}
        self.server.set_run(run_id, _VERTEX_STATES.get(state, state), theirs)

    def fire(self) -> dict[str, str]:
        # later than the start that resuming sets; only the schedules look at this clock
        self.server.clock += datetime.timedelta(minutes=2)
        started = self.server.tick()
        self.server.clock -= datetime.timedelta(minutes=2)
        jobs = {name.rpartition("/")[2]: job for name, job in self.server.jobs.items()}
        return {run_id: self.server.schedules[jobs[run_id].schedule_name].display_name for run_id in started}

    def starts(self) -> list[tuple[str, bool]]:
        soon, schedules = self.server.clock + datetime.timedelta(hours=1), self.server.schedules.values()
        starts = [schedule.state.name == "ACTIVE" and schedule.start_time <= soon for schedule in schedules]
        return list(zip((schedule.display_name for schedule in schedules), starts, strict=True))

    def killed_runs(self) -> list[str]:
        return [name for name, job in self.server.jobs.items() if "CANCEL" in job.state.name]

    def requests(self) -> list[bool]:
        return [not method.startswith(("Get", "List")) for method in self.server.asked()[self.first :]]

    def state(self) -> list[dict[str, Any]]:
        return [self.server.schedules, self.server.jobs]

    def hang_up(self) -> None:
        raise vertex.Refused(grpc.StatusCode.UNAVAILABLE, "gone")


@contextlib.contextmanager
def world(target: str) -> Iterator[World]:
    """Serve as Kubeflow or as Vertex until the block ends."""
    if target == "kfp":
        with kubeflow.serving() as server:
            yield Kubeflow(server)
    else:
        with vertex.serving() as vertex_server:
            yield Vertex(vertex_server)
