"""Runs on the contract server of Kubeflow."""

import pytest

from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.cluster.kubeflow.runs import KubeflowRuns
from tests.fakes.kubeflow.server import Server


@pytest.fixture
def runs(server: Server) -> KubeflowRuns:
    return KubeflowRuns(KubeflowConnection(host=server.url))
