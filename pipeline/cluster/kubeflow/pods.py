"""Pods of a Kubeflow run, which only Kubernetes shows: the logs of a stage, and why one has not started."""

import contextlib
import dataclasses
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from components.core.errors import ConfigError, TransientError
from pipeline.cluster import refusals
from pipeline.cluster.backend import ENDED, PENDING, StageStatus
from pipeline.cluster.kubeflow.connection import KubeflowConnection, load_kube_config

RUN_LABEL = "pipeline/runid"
_NODE_NAME = "workflows.argoproj.io/node-name"
_CONTAINER = "main"
_DRIVER = "-driver"
_ATTEMPT = re.compile(r"\(\d+\)")
_LONGEST_REASON = 300
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def with_reasons(connection: KubeflowConnection, run_id: str, stages: Iterable[StageStatus]) -> tuple[StageStatus, ...]:
    """Add why a stage is pending, which Kubeflow calls running, and what the pod of another said when it ended."""
    with _pods(connection, run_id, "read the pods of the run") as (api, pods):
        newest = {_stage_of(pod).removesuffix(_DRIVER): pod for pod in pods}
        explained = []
        for stage in stages:
            if (pod := newest.get(stage.name)) and _is_pending(pod) and stage.state not in ENDED:
                stage = dataclasses.replace(stage, state=PENDING, message=_reason(api, connection, pod))
            elif pod:
                stage = dataclasses.replace(stage, message=stage.message or _last_words(pod))
            explained.append(stage)
        return tuple(explained)


def logs(connection: KubeflowConnection, run_id: str, stage: str, follow: bool) -> Iterator[str]:
    """Yield the lines of a stage's newest pod; with `follow`, until the stage ends."""
    with _pods(connection, run_id, f"read the logs of {stage}") as (api, pods):
        if not (pods := [pod for pod in pods if _stage_of(pod) == stage]):
            where = f"{stage} of run {run_id} has no pod in namespace {connection.pod_namespace}"
            raise ConfigError(f"{where}: it has not begun, was not needed, or its pod was removed")
        pod = pods[-1]
        if _is_pending(pod):
            waits = f"its pod {pod.metadata.name} is pending: {_reason(api, connection, pod)}"
            raise TransientError(f"{stage} of run {run_id} has no logs yet: {waits}")
        answer = api.read_namespaced_pod_log(
            pod.metadata.name,
            connection.pod_namespace,
            container=_CONTAINER,
            follow=follow,
            _request_timeout=(connection.seconds[0], None) if follow else connection.seconds,  # it may be silent
            _preload_content=False,
        )
        with contextlib.closing(answer):
            for line in answer:
                yield line.decode(errors="replace").removesuffix("\n")


def kubectl_logs(connection: KubeflowConnection, run_id: str) -> str:
    return f"kubectl logs -n {connection.pod_namespace} -l {RUN_LABEL}={run_id} -c {_CONTAINER} --prefix --tail=-1"


@contextlib.contextmanager
def _pods(connection: KubeflowConnection, run_id: str, doing: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield Kubernetes' API and the pods of a run, oldest first; explain errors of the API within the block."""
    from kubernetes import client, config

    configuration = client.Configuration()
    configuration.retries = False
    if connection.kube_context:
        load_kube_config(configuration, connection.kube_context)
    else:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            other_way = f"give --kube-context NAME, or run `{kubectl_logs(connection, run_id)}`"
            raise ConfigError(f"logs are read from the pods of the run: {other_way}") from None
    if urllib.parse.urlsplit(configuration.host).hostname in _LOOPBACK:
        configuration.proxy = None
    host = f"context {connection.kube_context}" if connection.kube_context else "the cluster"
    with refusals.kubeflow(doing, host, connection.pod_namespace):
        api = client.CoreV1Api(client.ApiClient(configuration))
        selected = {"label_selector": f"{RUN_LABEL}={run_id}", "_request_timeout": connection.seconds}
        pods = api.list_namespaced_pod(connection.pod_namespace, **selected).items
        yield api, sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)


def _is_pending(pod: Any) -> bool:
    return pod.status is not None and pod.status.phase == "Pending"


def _reason(api: Any, connection: KubeflowConnection, pod: Any) -> str:
    """Return why a pod is pending: it fits no node, its image is missing, or else its newest warning."""
    reasons = [
        f"{condition.reason}: {condition.message}"
        for condition in pod.status.conditions or []
        if condition.type == "PodScheduled" and condition.status == "False"
    ]
    for container in (*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.message:
            reasons.append(f"{waiting.reason}: {waiting.message}")
    if not reasons:
        events = api.list_namespaced_event(
            connection.pod_namespace,
            field_selector=f"involvedObject.name={pod.metadata.name},type=Warning",
            _request_timeout=connection.seconds,
        )
        reasons = [f"{event.reason}: {event.message}" for event in events.items[-1:]]
    return refusals.one_line((reasons or ["its containers are being made"])[0])[:_LONGEST_REASON]


def _last_words(pod: Any) -> str:
    """Return the message that a stage left when it ended, else why Kubernetes ended it; empty if neither is known."""
    for container in (pod.status.container_statuses if pod.status else None) or []:
        ended = container.state.terminated if container.state else None
        if container.name == _CONTAINER and ended is not None:
            killed = ended.reason if ended.reason not in (None, "Completed", "Error") else ""
            return refusals.one_line(ended.message or killed)
    return ""


def _stage_of(pod: Any) -> str:
    """Return the stage of a pod, `STAGE-driver` for that of its driver, and empty for other pods of a run."""
    node = _ATTEMPT.sub("", (pod.metadata.annotations or {}).get(_NODE_NAME, ""))
    if node.endswith(_DRIVER):
        return node.rpartition(".")[2]
    return node.removesuffix(".executor").rpartition(".")[2] if node.endswith(".executor") else ""
