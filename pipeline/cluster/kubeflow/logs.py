"""Logs of a stage of a Kubeflow run, from its pod, which only Kubernetes has."""

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

from components.core.errors import ConfigError, TransientError
from pipeline.cluster import answers
from pipeline.cluster.kubeflow.connection import KubeflowConnection, load_kube_config

_RUN_LABEL = "pipeline/runid"
_NODE_NAME = "workflows.argoproj.io/node-name"
_CONTAINER = "main"
_ATTEMPT = re.compile(r"\(\d+\)")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def from_pods(connection: KubeflowConnection, run_id: str, stage: str, follow: bool) -> Iterator[str]:
    """Yield the lines of a stage's newest pod; with `follow`, until the stage ends."""
    from kubernetes import client

    api = client.CoreV1Api(client.ApiClient(_configuration(connection, run_id)))
    where = f"context {connection.kube_context}" if connection.kube_context else "the cluster"
    with answers.of_kubeflow(f"read the logs of {stage}", where, connection.pod_namespace):
        found = api.list_namespaced_pod(
            connection.pod_namespace, label_selector=f"{_RUN_LABEL}={run_id}", _request_timeout=connection.seconds
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
            _request_timeout=(connection.seconds[0], None) if follow else connection.seconds,
            _preload_content=False,
        )
        yield from _lines(answer)


def _configuration(connection: KubeflowConnection, run_id: str) -> Any:
    from kubernetes import client, config

    found = client.Configuration()
    found.retries = False
    if connection.kube_context:
        load_kube_config(found, connection.kube_context)
    else:
        try:
            config.load_incluster_config(client_configuration=found)
        except config.ConfigException:
            raise ConfigError(
                "logs are read from the pods of the run: give --kube_context NAME, or run "
                f"`kubectl logs -n {connection.pod_namespace} -l {_RUN_LABEL}={run_id} -c {_CONTAINER} "
                "--prefix --tail=-1`"
            ) from None
    if urllib.parse.urlsplit(found.host).hostname in _LOOPBACK:
        found.proxy = None
    return found


def _stage_of(pod: Any) -> str:
    """Return the stage of a pod; empty for drivers and other pods of a run."""
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
