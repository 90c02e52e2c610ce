"""The backends, by target; a new one is a folder and an entry here."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.cluster.backend import Server
from pipeline.cluster.kubeflow import connection as kubeflow
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from pipeline.cluster.vertex import connection as vertex
from pipeline.cluster.vertex.schedules import VertexBackend
from pipeline.profiles.targets import KFP, VERTEX


class Backend(NamedTuple):
    title: str  # of its flags in the help
    flags: dict[str, tuple[str, str]]  # for address and credentials: by name, metavar and help
    from_flags: Callable[[argparse.Namespace], Any]  # makes the connection from flags; sends nothing
    server: Callable[[Any, list[str]], Server]  # of a connection, and the flags of further commands


_VERTEX_TITLE = "Vertex AI, with application default credentials (gcloud auth application-default login)"
BACKENDS = {
    KFP: Backend("the Kubeflow server", kubeflow.FLAGS, kubeflow.from_flags, KubeflowBackend),
    VERTEX: Backend(_VERTEX_TITLE, vertex.FLAGS, vertex.from_flags, VertexBackend),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    for backend in BACKENDS.values():
        group = parser.add_argument_group(backend.title)
        for name, (metavar, help_text) in backend.flags.items():
            group.add_argument(_flag(name), default="", metavar=metavar, help=help_text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def server(target: str, parsed: argparse.Namespace) -> Server:
    """Return the server that flags and environment name, which further commands repeat; nothing is sent yet."""
    backend = BACKENDS[target]
    words = [] if target == KFP else ["--target", target]
    words += [word for name in backend.flags if (value := getattr(parsed, name)) for word in (_flag(name), value)]
    return backend.server(backend.from_flags(parsed), words)
