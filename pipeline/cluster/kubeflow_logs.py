"""What a stage of a Kubeflow run has logged: from its pod, which only Kubernetes has.

Where there is no way to Kubernetes, Kubeflow is asked to look: it wants the pod's name, of which servers tell a part.
Argo makes that name from the workflow's and a hash of the way to the task within it.
"""

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

from components.errors import ConfigError, TransientError
from pipeline.cluster import kubeflow_answers
from pipeline.cluster.kubeflow_connection import KubeflowConnection, load_kube_config

_RUN_LABEL = "pipeline/runid"
_NODE_NAME = "workflows.argoproj.io/node-name"
_CONTAINER = "main"
_ATTEMPT = re.compile(r"\(\d+\)")
_MOST_ATTEMPTS = 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def from_pods(connection: KubeflowConnection, run_id: str, stage: str, follow: bool) -> Iterator[str]:
    """The lines of a stage's newest pod, from the Kubernetes API.

    Args:
        connection: A way to the server with a context, or from within its cluster.
        run_id: The run.
        stage: The stage's name in the package.
        follow: Whether to go on until the stage ends.

    Raises:
        ConfigError: There is no such pod (any more), or it may not be read.
        TransientError: It has not begun, or Kubernetes was not reached.
    """
    from kubernetes import client

    api = client.CoreV1Api(client.ApiClient(_configuration(connection)))
    seconds = (connection.connect_seconds, connection.read_seconds)
    where = f"context {connection.kube_context}" if connection.kube_context else "the cluster"
    with kubeflow_answers.explained(f"read the logs of {stage}", where, connection.pod_namespace):
        found = api.list_namespaced_pod(
            connection.pod_namespace, label_selector=f"{_RUN_LABEL}={run_id}", _request_timeout=seconds
        )
        pods = [pod for pod in found.items if _stage_of(pod) == stage]
        if not pods:
            raise ConfigError(
                f"{stage} of run {run_id} has no pod in namespace {connection.pod_namespace}: "
                "it has not begun, was not needed, or its pod was removed"
            )
        pod = max(pods, key=lambda pod: pod.metadata.creation_timestamp)
        if pod.status is not None and pod.status.phase == "Pending":
            raise TransientError(f"{stage} of run {run_id} has no logs yet: its pod {pod.metadata.name} is pending")
        answer = api.read_namespaced_pod_log(
            pod.metadata.name,
            connection.pod_namespace,
            container=_CONTAINER,
            follow=follow,
            # A stage may be silent for long.
            _request_timeout=(connection.connect_seconds, None) if follow else seconds,
            _preload_content=False,
        )
        yield from _lines(answer)


def from_server(connection: KubeflowConnection, run_id: str, stage: str, pods: list[list[str]]) -> Iterator[str]:
    """The lines of a stage's newest pod, as far as Kubeflow itself hands them out.

    Args:
        connection: A way to the server.
        run_id: The run.
        stage: The stage's name in the package.
        pods: Names that its pod may have: for each way to name them, the attempts in order.

    Raises:
        ConfigError: There is no such pod (any more), or it may not be read.
        TransientError: The server was not reached.
    """
    found = None
    with connection.explained(f"read the logs of {stage}"):
        for attempts in pods:
            for pod in attempts:
                text = _of_pod(connection, run_id, pod)
                if text is None:
                    break
                found = text
            if found is not None:
                return iter(found.splitlines())
    raise ConfigError(
        f"{connection.name} finds no logs for {stage} of run {run_id}: with --kube_context they are read from its pod"
    )


def _of_pod(connection: KubeflowConnection, run_id: str, pod: str) -> str | None:
    """What Kubeflow's API has of a pod, else the server of its pages; None if there is no such pod."""
    name = urllib.parse.quote(pod, safe="")
    found = connection.client.text(f"/apis/v1alpha1/runs/{run_id}/nodes/{name}/log")
    if found is None:
        place = {"podname": pod, "runid": run_id, "podnamespace": connection.pod_namespace}
        found = connection.client.text(f"/k8s/pod/logs?{urllib.parse.urlencode(place)}")
    return found


def pod_names(told: list[str], path: str) -> list[list[str]]:
    """Names that the pod of a stage may have.

    Args:
        told: Of what the stage started, the names of pods as the server tells them: some tell tasks' ids instead.
        path: The way to the stage within its package, dots between.

    Returns:
        For each way to name them, the names of the attempts in order.
    """
    found = []
    for each in told:
        found.append([each])
        workflow, _, number = each.rpartition("-")
        if not workflow or not number.isdigit():
            continue
        node = f"{workflow}.root.{path}.executor"
        if int(number) == fnv32a(node):
            # What may be tried again has a pod for each attempt.
            attempts = [fnv32a(f"{node}({attempt})") for attempt in range(_MOST_ATTEMPTS)]
            found.append([f"{workflow}-retry-system-container-impl-{attempt}" for attempt in attempts])
        found.append([f"{workflow}-system-container-impl-{number}"])
    return found


def fnv32a(text: str) -> int:
    """The hash (FNV-1a, 32 bits) that Argo makes a task's id with."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def _configuration(connection: KubeflowConnection) -> Any:
    from kubernetes import client, config

    found = client.Configuration()
    found.retries = False
    if connection.kube_context:
        load_kube_config(found, connection.kube_context)
    else:
        try:
            config.load_incluster_config(client_configuration=found)
        except config.ConfigException as error:
            raise ConfigError(f"in_cluster: this is no pod that may ask Kubernetes: {error}") from None
    if urllib.parse.urlsplit(found.host).hostname in _LOOPBACK:
        found.proxy = None
    return found


def _stage_of(pod: Any) -> str:
    """The stage that a pod runs; empty for drivers and what else belongs to a run."""
    node = _ATTEMPT.sub("", (pod.metadata.annotations or {}).get(_NODE_NAME, ""))
    names = node.split(".")
    return names[-2] if len(names) > 1 and names[-1] == "executor" else ""


def _lines(answer: Any) -> Iterator[str]:
    rest = b""
    try:
        for part in answer.stream():
            *lines, rest = (rest + part).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
        if rest:
            yield rest.decode(errors="replace")
    finally:
        answer.close()
