"""The backends, by target; a new one is a folder and an entry here."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.cluster.backend import Runs, Schedules
from pipeline.cluster.kubeflow import connection as kubeflow
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from pipeline.cluster.kubeflow.schedules import KubeflowSchedules
from pipeline.cluster.vertex import connection as vertex
from pipeline.cluster.vertex.runs import VertexRuns
from pipeline.cluster.vertex.schedules import VertexSchedules
from pipeline.profiles.targets import KFP, VERTEX


class Backend(NamedTuple):
    """A backend: the classes of its folder."""

    title: str  # of its flags in the help
    flags: dict[str, tuple[str, str]]  # for address and credentials: by name, metavar and help
    from_flags: Callable[[argparse.Namespace], Any]  # makes the connection from flags; sends nothing
    runs: Callable[[Any], Runs]  # of a connection
    schedules: Callable[[Any], Schedules]


_VERTEX_TITLE = "Vertex AI, with application default credentials (gcloud auth application-default login)"
BACKENDS = {
    KFP: Backend("the Kubeflow server", kubeflow.FLAGS, kubeflow.from_flags, KubeflowRuns, KubeflowSchedules),
    VERTEX: Backend(_VERTEX_TITLE, vertex.FLAGS, vertex.from_flags, VertexRuns, VertexSchedules),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of all backends."""
    for backend in BACKENDS.values():
        group = parser.add_argument_group(backend.title)
        for name, (metavar, help_text) in backend.flags.items():
            group.add_argument(_flag(name), default="", metavar=metavar, help=help_text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def flags_of_others(target: str, parsed: argparse.Namespace) -> list[str]:
    """Return a problem for each flag that is for another target."""
    return [
        f"{name} is for {other}, and the package was compiled for {target}"
        for other, backend in BACKENDS.items()
        for name in backend.flags
        if name not in BACKENDS[target].flags and getattr(parsed, name)
    ]


def runs(target: str, parsed: argparse.Namespace) -> Runs:
    """Return the runs of the server that flags and environment name; nothing is sent yet."""
    return BACKENDS[target].runs(_connection(target, parsed))


def schedules(target: str, parsed: argparse.Namespace) -> Schedules:
    """Return the schedules of that server; nothing is sent yet."""
    return BACKENDS[target].schedules(_connection(target, parsed))


def _connection(target: str, parsed: argparse.Namespace) -> Any:
    """Return the connection, with the flags that were given, for further commands."""
    backend = BACKENDS[target]
    connection = backend.from_flags(parsed)
    words = [word for name in backend.flags if (value := getattr(parsed, name)) for word in (_flag(name), value)]
    return dataclasses.replace(connection, flags=(*connection.flags, *words))
