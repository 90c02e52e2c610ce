"""Kubeflow and Vertex alike: a fake server of each, and what a test may do to it behind the client's back."""

import contextlib
import copy
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from pipeline.cluster.backend import Schedules
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.schedules import KubeflowSchedules
from pipeline.cluster.vertex.connection import VertexConnection
from pipeline.cluster.vertex.schedules import VertexSchedules
from tests.fakes.kubeflow import server as kubeflow
from tests.fakes.vertex import server as vertex

Stages = dict[str, tuple[str, str]]  # name: state and message


class World:
    """What tests ask of either server.

    Attributes:
        target: `kfp` or `vertex`.
        flags: Words of a command line that say where it is.
        pipeline_root: Likewise, for `wgan submit`.
        logs_remedy: What `wgan logs` of the stage train says.
    """

    target: str
    flags: list[str]
    pipeline_root: list[str]
    logs_remedy: str
    server: Any
    first = 0

    def connected(self) -> Schedules:
        """Its schedules, as a new process has them."""
        raise NotImplementedError

    def run_ids(self) -> list[str]:
        """Ids of all runs, oldest first."""
        raise NotImplementedError

    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None:
        """Report a run, in Kubeflow's words."""
        raise NotImplementedError

    def play(self, *states: tuple[str, Stages]) -> None:
        """Have the newest run be in these states, each the next time that somebody asks for it."""
        raise NotImplementedError

    def fire(self) -> dict[str, str]:
        """Let each schedule that may start a run now start one; their names by the ids of the runs."""
        raise NotImplementedError

    def schedules(self) -> list[tuple[str, bool]]:
        """Of each schedule its name, and whether it starts runs within the hour."""
        raise NotImplementedError

    def killed_runs(self) -> list[str]:
        """Runs that did not end by themselves."""
        raise NotImplementedError

    def requests(self) -> list[bool]:
        """Of each request since `stop` was called: whether it could change anything."""
        raise NotImplementedError

    def saved(self) -> Any:
        """All that the server holds."""
        raise NotImplementedError

    def restore(self, saved: Any) -> None:
        """Put it back."""
        raise NotImplementedError

    def start_run(self, name: str) -> None:
        """Let schedules start runs, of which only that of one name goes on."""
        for run_id, of in self.fire().items():
            if of != name:
                self.set_run(run_id, "SUCCEEDED")

    def end_runs(self) -> None:
        for run_id in self.run_ids():
            self.set_run(run_id, "SUCCEEDED")

    def starting(self) -> list[str]:
        """Names of the schedules that start runs."""
        return [name for name, starts in self.schedules() if starts]

    def stop(self, at: int | None, after: bool = False) -> None:
        """Let no request through from this one on, as if the program were gone; None for no such thing.

        Args:
            at: Number of the request, from 1.
            after: Whether that one still acts, and only its answer is lost.
        """
        self.first = len(self.server.requests)

        def gone(later: int) -> Callable[..., None]:
            def refuse(*_: Any) -> None:
                if at is not None and len(self.server.requests) >= self.first + at + later:
                    self.hang_up()

            return refuse

        self.server.before, self.server.after = gone(1 if after else 0), gone(0)

    def hang_up(self) -> None:
        """Raise what ends a connection."""
        raise NotImplementedError


class Kubeflow(World):
    target = "kfp"
    logs_remedy = "give --kube_context NAME"

    def __init__(self, server: kubeflow.Server) -> None:
        self.server = server
        self.flags, self.pipeline_root = ["--host", server.url], []

    def connected(self) -> Schedules:
        return KubeflowSchedules(KubeflowConnection(host=self.server.url))

    def run_ids(self) -> list[str]:
        return list(self.server.store.runs)

    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None:
        # The real server ends a canceled run as failed.
        self.server.set_run(run_id, "FAILED" if state == "CANCELED" else state, stages)

    def play(self, *states: tuple[str, Stages]) -> None:
        left = list(states)

        def report(request: kubeflow.Request) -> None:
            if left and request.method == "GET" and "/runs/" in request.path:
                self.set_run(self.run_ids()[-1], *left.pop(0))

        self.server.before = report

    def fire(self) -> dict[str, str]:
        store = self.server.store
        ids = {run_id: store.runs[run_id]["recurring_run_id"] for run_id in self.server.tick()}
        return {run_id: store.recurring_runs[of]["display_name"] for run_id, of in ids.items()}

    def schedules(self) -> list[tuple[str, bool]]:
        found = self.server.store.recurring_runs.values()
        return [(each["display_name"], each["mode"] == "ENABLE") for each in found]

    def killed_runs(self) -> list[str]:
        return list(self.server.killed_runs)

    def requests(self) -> list[bool]:
        return [each.method != "GET" for each in self.server.requests[self.first :]]

    def saved(self) -> Any:
        return copy.deepcopy(vars(self.server.store))

    def restore(self, saved: Any) -> None:
        vars(self.server.store).update(copy.deepcopy(saved))

    def hang_up(self) -> None:
        raise kubeflow.HangUp


class Vertex(World):
    target = "vertex"
    logs_remedy = "gcloud logging read 'resource.labels.job_id=(\"1003\")'"

    def __init__(self, server: vertex.VertexServer) -> None:
        self.server = server
        self.pipeline_root = ["--pipeline_root", "gs://bucket/vertex"]
        self.flags = ["--project", "my-project-1", "--location", "us-central1", "--api_endpoint", server.url]

    def connected(self) -> Schedules:
        connection = VertexConnection(project="my-project-1", location="us-central1", api_endpoint=self.server.url)
        return VertexSchedules(connection)

    def run_ids(self) -> list[str]:
        return [name.rpartition("/")[2] for name in self.server.jobs]

    def set_run(self, run_id: str, state: str, stages: Stages | None = None) -> None:
        self.server.set_run(run_id, "CANCELLED" if state == "CANCELED" else state, stages)

    def play(self, *states: tuple[str, Stages]) -> None:
        left = list(states)

        def report(method: str, _: Any) -> None:
            if left and method == "GetPipelineJob":
                self.set_run(self.run_ids()[-1], *left.pop(0))

        self.server.before = report

    def fire(self) -> dict[str, str]:
        # Later than the start that resuming sets; nothing but the schedules looks at this clock.
        self.server.clock += datetime.timedelta(minutes=2)
        started = self.server.tick()
        self.server.clock -= datetime.timedelta(minutes=2)
        found = {}
        for run_id in started:
            (job,) = (each for name, each in self.server.jobs.items() if name.endswith(f"/{run_id}"))
            found[run_id] = self.server.schedules[job.schedule_name].display_name
        return found

    def schedules(self) -> list[tuple[str, bool]]:
        soon = self.server.clock + datetime.timedelta(hours=1)
        found = self.server.schedules.values()
        return [(each.display_name, each.state.name == "ACTIVE" and each.start_time <= soon) for each in found]

    def killed_runs(self) -> list[str]:
        return [name for name, job in self.server.jobs.items() if "CANCEL" in job.state.name]

    def requests(self) -> list[bool]:
        return [not method.startswith(("Get", "List")) for method in self.server.asked()[self.first :]]

    def saved(self) -> Any:
        return [{name: type(each)(each) for name, each in held.items()} for held in self._held()]

    def restore(self, saved: Any) -> None:
        for held, kept in zip(self._held(), saved, strict=True):
            held.clear()
            held.update({name: type(each)(each) for name, each in kept.items()})

    def _held(self) -> list[dict[str, Any]]:
        return [self.server.schedules, self.server.jobs]

    def hang_up(self) -> None:
        raise vertex.Refused(grpc.StatusCode.UNAVAILABLE, "gone")


@contextlib.contextmanager
def world(target: str) -> Iterator[World]:
    """Serves as Kubeflow or as Vertex until the block ends."""
    if target == "kfp":
        with kubeflow.serving() as server:
            yield Kubeflow(server)
            assert server.hangs == []
    else:
        with vertex.serving() as vertex_server:
            yield Vertex(vertex_server)
