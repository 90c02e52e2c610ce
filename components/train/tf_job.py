"""Training by several pods: the stage starts a TFJob of Kubeflow's Training Operator 1.9 and waits for its end.

Its workers run this stage, each with the `TF_CONFIG` that the operator sets. The pod of the stage trains nothing: it
shows the chief's log, and deletes the job if it is canceled. It owns the job, so Kubernetes removes both together.
"""

import contextlib
import hashlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.errors import ConfigError, DataError, StageError, Superseded, Terminated, TransientError
from components.train.config import TrainConfig

log = logging.getLogger(__name__)

VARIABLE = "WGAN_TF_JOB"  # the job as JSON, but for its name, its owner and the arguments of its workers
WORKER, CONTAINER = "Worker", "tensorflow"  # names that the operator prescribes
_MAIN = "main"  # the container of a stage, as Kubeflow names it
_JOB_LABEL, _INDEX_LABEL = "training.kubeflow.org/job-name", "training.kubeflow.org/replica-index"
_JOBS = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"
_PODS = "/api/v1/namespaces/{}/pods"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where Kubernetes mounts the pod's account
_LOOK_SECONDS, _LOG_SECONDS = 2.0, 60.0
_SECONDS = 5.0, 30.0  # to connect, and to answer
_ERRORS = {kind.exit_code: kind for kind in (ConfigError, DataError, Superseded, TransientError, StageError)}


def requested() -> dict[str, Any] | None:
    """Return the job that is to train, as the package gives it; None where this process trains."""
    text = os.environ.get(VARIABLE, "")
    return dict(json.loads(text)) if text and errors.in_pod() else None


def train(job: dict[str, Any], config: TrainConfig, uri: str) -> None:
    """Train in a folder by a job, and return when it has succeeded; one that trains there already is waited for.

    Raises a `ConfigError` if the cluster has no TFJob or the pod no right to it; a `TransientError` if the API does not
    answer or the job was deleted; and the error of the exit code of a worker that failed.
    """
    if config.accelerator != "multi-worker":
        raise ConfigError(
            f"accelerator must be multi-worker for the workers of this package, got {config.accelerator}; to train in "
            "one pod, compile with a profile without workers"
        )
    api = _Kubernetes()
    pod = api.request("GET", f"{_PODS}/{os.environ['KFP_POD_NAME']}").json()
    job = completed(job, uri, pod, config)
    name = job["metadata"]["name"]
    try:
        _start(api, job)
        _follow(api, name)
    except (KeyboardInterrupt, Terminated):
        log.info("train: deleting job %s", name)
        api.delete_job(name)
        raise


def completed(job: dict[str, Any], uri: str, stage: dict[str, Any], config: TrainConfig) -> dict[str, Any]:
    """Return the job with a name for each folder, its owner, and what its pods share with the owner."""
    name = f"wgan-train-{hashlib.sha256(uri.encode()).hexdigest()[:12]}"
    metadata = stage["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    pod = job["spec"]["tfReplicaSpecs"][WORKER]["template"]["spec"]
    for field in ("serviceAccountName", "imagePullSecrets", "securityContext"):
        if field in stage["spec"]:
            pod[field] = stage["spec"][field]
    worker = pod["containers"][0]
    main = next(container for container in stage["spec"]["containers"] if container["name"] == _MAIN)
    worker["securityContext"] = {**main.get("securityContext", {}), "readOnlyRootFilesystem": True}
    worker["args"] = [f"--{name}={value}" for name, value in vars(config).items()]
    return {**job, "metadata": {"name": name, "ownerReferences": [owner]}}


def _start(api: "_Kubernetes", job: dict[str, Any]) -> None:
    """Create the job; replace one of its name that has ended, and keep one that trains."""
    name, is_waiting = job["metadata"]["name"], False
    while True:
        if (existing := api.job(name)) is None:
            if api.request("POST", _JOBS, expected=409, json=job).ok:  # else there is one of its name
                workers = job["spec"]["tfReplicaSpecs"][WORKER]["replicas"]
                log.info("train: job %s trains with %d workers", name, workers)
                return
        elif "deletionTimestamp" not in existing["metadata"]:
            if not _state(existing):
                log.info("train: job %s trains here already", name)
                return
            api.delete_job(name)
        elif not is_waiting:
            log.info("train: waiting until the earlier job %s is gone", name)
            is_waiting = True
        time.sleep(_LOOK_SECONDS)


def _follow(api: "_Kubernetes", name: str) -> None:
    """Show the chief's log until the job has ended; raise if it failed."""
    shown, logged = "", time.monotonic()
    while True:
        current = api.job(name)
        if current is None or "deletionTimestamp" in current["metadata"]:
            raise TransientError(f"job {name} was deleted while it trained; what it saved is kept")
        pods = api.request("GET", _PODS, params={"labelSelector": f"{_JOB_LABEL}={name}"}).json()["items"]
        pods.sort(key=lambda pod: int(pod["metadata"]["labels"][_INDEX_LABEL]))
        if pods and pods[0]["status"].get("phase") not in (None, "Pending"):
            shown = api.show_log(pods[0]["metadata"]["name"], shown)
        state = _state(current)
        if state == "Failed":
            raise _failure(name, pods)
        if state:
            return
        if time.monotonic() - logged >= _LOG_SECONDS and (pending := [*map(_pending, pods)]) and any(pending):
            logged = time.monotonic()
            log.info("train: waiting for workers: %s", "; ".join(filter(None, pending)))
        time.sleep(_LOOK_SECONDS)


def _state(job: dict[str, Any]) -> str:
    """Return `Succeeded` or `Failed` if the job has ended; else empty."""
    conditions = job.get("status", {}).get("conditions", [])
    types = {condition["type"] for condition in conditions if condition["status"] == "True"}
    return next((state for state in ("Failed", "Succeeded") if state in types), "")


def _failure(name: str, pods: list[dict[str, Any]]) -> StageError:
    """Return the error of the worker that failed first: one that only lost another exits with 75 or is deleted."""
    failures = []
    for pod in (pod for pod in pods if "deletionTimestamp" not in pod["metadata"]):
        for container in pod["status"].get("containerStatuses", []):
            ended = container["state"].get("terminated")
            if ended and ended["exitCode"]:
                reason = " ".join(ended.get("message", "").split()) or ended.get("reason", "")
                index = pod["metadata"]["labels"][_INDEX_LABEL]
                failures.append((ended["exitCode"], f"worker {index} exited with {ended['exitCode']}: {reason}"))
    failures.sort(key=lambda failure: failure[0] == errors.TRANSIENT)
    code, message = failures[0] if failures else (errors.TRANSIENT, f"job {name} failed, and its pods are gone")
    return _ERRORS.get(code, TransientError)(message)


def _pending(pod: dict[str, Any]) -> str:
    """Return why a pod has not started; empty if it has, or no reason is known."""
    status = pod["status"]
    if status.get("phase") != "Pending":
        return ""
    reasons = [condition for condition in status.get("conditions", []) if condition["type"] == "PodScheduled"]
    reasons += [container["state"].get("waiting", {}) for container in status.get("containerStatuses", [])]
    texts = [f"{reason.get('reason')}: {reason['message']}" for reason in reasons if reason.get("message")]
    return f"{pod['metadata']['name']}: {texts[0]}" if texts else ""


class _Kubernetes:
    """The requests of this stage to the API of its cluster, as the account of its pod."""

    def __init__(self) -> None:
        # only this stage's pod needs them, and only then
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        self._url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._namespace = (_ACCOUNT / "namespace").read_text().strip()
        self._requests = requests.Session()
        self._requests.trust_env = False  # the API is inside the cluster: no proxies
        self._requests.verify = str(_ACCOUNT / "ca.crt")
        outages = Retry(6, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)
        outages.raise_on_status = False
        self._requests.mount("https://", HTTPAdapter(max_retries=outages))

    def show_log(self, pod: str, after: str) -> str:
        """Print a pod's lines after a time, as they come, until it ends or is silent for long; return the last time."""
        parameters = {"container": CONTAINER, "follow": "true", "timestamps": "true", "sinceTime": after or None}
        shown = after
        with contextlib.suppress(TransientError, OSError):  # the caller asks again
            answer = self.request("GET", f"{_PODS}/{pod}/log", params=parameters, stream=True)
            for line in answer.iter_lines():
                timestamp, _, text = line.decode(errors="replace").partition(" ")
                if timestamp > after:
                    print(text, file=sys.stderr, flush=True)
                    shown = timestamp
        return shown

    def job(self, name: str) -> dict[str, Any] | None:
        answer = self.request("GET", f"{_JOBS}/{name}", expected=404)
        return None if answer.status_code == 404 else dict(answer.json())

    def delete_job(self, name: str) -> None:
        """Delete a job with its pods, which get SIGTERM; its name is free when they have ended."""
        self.request("DELETE", f"{_JOBS}/{name}", expected=404, json={"propagationPolicy": "Foreground"})

    def request(self, method: str, path: str, expected: int = 0, **options: Any) -> Any:
        """Return an answer; raise for one that failed, unless its status is the expected one."""
        token = (_ACCOUNT / "token").read_text().strip()  # Kubernetes renews it every hour
        path, headers = path.format(self._namespace), {"Authorization": f"Bearer {token}"}
        try:
            answer = self._requests.request(method, self._url + path, headers=headers, timeout=_SECONDS, **options)
        except OSError as error:  # as is every error of `requests`
            raise TransientError(f"the Kubernetes API at {self._url} does not answer: {error}") from None
        if answer.ok or answer.status_code == expected:
            return answer
        try:
            reason = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            reason = str(answer.reason)
        problem = f"{answer.status_code}: {reason}"
        if answer.status_code in (401, 403):
            raise ConfigError(
                f"Kubernetes refused to {method} {path} ({problem}); let the account of the "
                "pods get, create and delete tfjobs of kubeflow.org, get and list pods, and get pods/log "
                "(docs/kubeflow.md)"
            )
        if method == "POST" and answer.status_code == 404:
            raise ConfigError(
                f"the cluster has no TFJob ({problem}); install Kubeflow's Training Operator 1.9, or compile with a "
                "profile without workers"
            )
        if method == "POST" and answer.status_code in (400, 422):
            raise ConfigError(f"Kubernetes refused the job of the workers ({problem}); correct train in the profile")
        raise TransientError(f"the Kubernetes API at {self._url} failed ({problem})")
