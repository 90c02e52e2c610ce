"""The backends, by target; a new one is a folder and an entry here."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from components.core.stage import cli
from pipeline.cluster.backend import Runs, Schedules
from pipeline.cluster.kubeflow import connection as kubeflow
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.kubeflow.schedules import KubeflowSchedules
from pipeline.cluster.vertex import connection as vertex
from pipeline.cluster.vertex.runs import VertexRuns
from pipeline.cluster.vertex.schedules import VertexSchedules
from pipeline.profiles.profiles import KFP, VERTEX


@dataclasses.dataclass(frozen=True)
class Backend:
    """What a folder offers."""

    title: str  # what messages call the server
    add_flags: Callable[[argparse.ArgumentParser], None]  # that say where it is and whom we are there
    from_flags: Callable[[argparse.Namespace], Any]  # the connection that they name; sends nothing
    runs: Callable[[Any], Runs]  # of a connection
    schedules: Callable[[Any], Schedules]


BACKENDS = {
    KFP: Backend("the Kubeflow server", kubeflow.add_flags, kubeflow.from_flags, KubeflowRuns, KubeflowSchedules),
    VERTEX: Backend("Vertex AI", vertex.add_flags, vertex.from_flags, VertexRuns, VertexSchedules),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every backend."""
    for backend in BACKENDS.values():
        backend.add_flags(parser)


def runs(target: str, parsed: argparse.Namespace) -> Runs:
    """Return the runs of the place that flags and environment name; nothing is sent yet."""
    backend = BACKENDS[target]
    return backend.runs(backend.from_flags(parsed))


def schedules(target: str, parsed: argparse.Namespace) -> Schedules:
    """Return the schedules of that place; nothing is sent yet."""
    backend = BACKENDS[target]
    return backend.schedules(backend.from_flags(parsed))


def misplaced_flags(parsed: argparse.Namespace, target: str) -> list[str]:
    """Return a sentence for each flag that was given and belongs to another target."""
    found = []
    for other, backend in BACKENDS.items():
        parser = cli.Parser(add_help=False)
        backend.add_flags(parser)
        defaults = vars(parser.parse_args([])).items() if other != target else ()
        found += [
            f"{name} is for {backend.title}, and this is for {target}"
            for name, default in defaults
            if getattr(parsed, name) != default
        ]
    return found
