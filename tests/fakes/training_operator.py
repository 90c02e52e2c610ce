"""A stand-in for Kubernetes with Kubeflow's Training Operator 1.9: the requests of `components.train.tf_job`, over TLS.

It does with TFJobs what the API and the operator (v1.9.3: tensorflow.go, tfjob_controller.go, common_types.go) do. The
test says how a worker starts.
"""

import datetime
import ipaddress
import itertools
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes import http

NAMESPACE, ACCOUNT_TOKEN = "kubeflow", "of-the-account"
OWN_POD: dict[str, Any] = {
    "metadata": {"name": "wf-train-1", "uid": "5b7e", "namespace": NAMESPACE},
    "spec": {
        "serviceAccountName": "pipeline-runner",
        "securityContext": {"fsGroup": 0},
        "containers": [{"name": "wait"}, {"name": "main", "securityContext": {"allowPrivilegeEscalation": False}}],
    },
}
_JOBS, _PODS = (f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs", f"/api/v1/namespaces/{NAMESPACE}/pods")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_DELETED, _FIRST_LINE = "2026-01-01T00:00:00Z", datetime.datetime(2026, 1, 1)


class Worker(Protocol):
    """The container of a pod."""

    @property
    def exit_code(self) -> int | None: ...  # None while it runs
    @property
    def log(self) -> Sequence[str]: ...  # the whole lines that it has written
    @property
    def message(self) -> str: ...  # its last words, left in /dev/termination-log
    def terminate(self) -> None: ...  # by SIGTERM, as Kubernetes does when the pod is deleted


# From the pod's name, its container as the job describes it, and the cluster's addresses with the worker's index.
Start = Callable[[str, dict[str, Any], dict[str, Any]], Worker]


class TrainingOperator(http.Server):
    def __init__(self, start: Start) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.workers: dict[str, list[Worker]] = {}  # by job
        self._deleted: list[Worker] = []
        self.refusals: dict[str, tuple[int, str]] = {}  # status and message, by method
        self.pending = ""  # why no pod starts
        self.cut_logs_after = 0  # so many lines, once
        self._start = start

    def answer(self, request: http.Request) -> http.Answer:
        if request.headers["Authorization"] != f"Bearer {ACCOUNT_TOKEN}":
            return _status(401, "Unauthorized")
        if request.method in self.refusals:
            return _status(*self.refusals[request.method])
        for name in list(self.jobs):
            self._reconcile(name)
        last = request.path.rpartition("/")[2]
        if request.path == _JOBS:
            assert request.method == "POST"
            return self._create(request.json())
        if request.path == f"{_JOBS}/{last}":
            if last not in self.jobs:
                return _status(404, f'tfjobs.kubeflow.org "{last}" not found')
            if request.method == "DELETE":
                assert request.json()["propagationPolicy"] == "Foreground"
                self.jobs[last]["metadata"]["deletionTimestamp"] = _DELETED
                self._end(last)
            return http.json_answer(200, self.jobs[last])
        if request.path == _PODS:
            job = request.query["labelSelector"].removeprefix("training.kubeflow.org/job-name=")
            return http.json_answer(
                200, {"items": [self._pod(job, index) for index in range(len(self.workers.get(job, [])))]}
            )
        if last == "log":
            assert (request.query["container"], request.query["timestamps"]) == ("tensorflow", "true")
            job, _, index = request.path.split("/")[-2].rpartition("-worker-")
            cut, self.cut_logs_after = self.cut_logs_after or None, 0
            lines = _lines(self.workers[job][int(index)], request.query.get("sinceTime", ""))
            return http.Answer(200, headers={"Content-Type": "text/plain"}, parts=itertools.islice(lines, cut))
        assert request.path == f"{_PODS}/{OWN_POD['metadata']['name']}"
        return http.json_answer(200, OWN_POD)

    def _create(self, job: dict[str, Any]) -> http.Answer:
        name = job["metadata"]["name"]
        if name in self.jobs:
            return _status(409, f'tfjobs.kubeflow.org "{name}" already exists')
        assert _NAME.fullmatch(name)
        self.jobs[name] = job
        spec = job["spec"]["tfReplicaSpecs"]["Worker"]
        (container,) = spec["template"]["spec"]["containers"]
        hosts = [f"{name}-worker-{index}.{NAMESPACE}.svc:2222" for index in range(spec["replicas"])]
        self.workers[name] = [
            self._start(
                f"{name}-worker-{index}",
                container,
                {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}, "environment": "cloud"},
            )
            for index in range(spec["replicas"])
        ]
        return http.json_answer(201, job)

    def _reconcile(self, name: str) -> None:
        """Derive the state of a job from its workers', and remove a deleted one whose workers have ended."""
        job, codes = self.jobs[name], [worker.exit_code for worker in self.workers[name]]
        if "deletionTimestamp" in job["metadata"]:
            if None not in codes:
                del self.jobs[name], self.workers[name]
            return
        state = "Failed" if any(codes) else "Succeeded" if None not in codes else "Running"
        job["status"] = {"conditions": [{"type": "Created", "status": "True"}, {"type": state, "status": "True"}]}
        if state == "Failed":
            self._end(name)

    def _end(self, name: str) -> None:
        for worker in self.workers[name]:
            if worker.exit_code is None:
                self._deleted.append(worker)
                worker.terminate()

    def _pod(self, job: str, index: int) -> dict[str, Any]:
        worker = self.workers[job][index]
        code = worker.exit_code
        end = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": worker.message}}
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        status: dict[str, Any] = {
            "phase": phase,
            "containerStatuses": [{"name": "tensorflow", "state": {"running": {}} if code is None else end}],
        }
        if self.pending:
            reason = {"reason": "Unschedulable", "message": self.pending}
            status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", **reason}]}
        labels = {"training.kubeflow.org/job-name": job, "training.kubeflow.org/replica-index": str(index)}
        metadata: dict[str, Any] = {"name": f"{job}-worker-{index}", "labels": labels}
        if worker in self._deleted:
            metadata["deletionTimestamp"] = _DELETED
        return {"metadata": metadata, "status": status}


def _lines(worker: Worker, since: str) -> Iterator[bytes]:
    """Yield the lines of a worker until it has ended, from a second on, as Kubernetes reads `sinceTime`."""
    sent = 0
    while True:
        ended = worker.exit_code is not None
        for number, line in list(enumerate(worker.log))[sent:]:
            sent = number + 1
            at = (_FIRST_LINE + datetime.timedelta(seconds=number // 3)).isoformat()
            stamp = f"{at}.{number:09}Z"
            if stamp[: len(at)] >= since[: len(at)]:
                yield f"{stamp} {line}\n".encode()
        if ended:
            return
        time.sleep(0.3)


def account(folder: Path) -> ssl.SSLContext:
    """Make the folder that Kubernetes mounts for a pod's account, and what the API needs for TLS on loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    (folder / "namespace").write_text(NAMESPACE)
    (folder / "token").write_text(ACCOUNT_TOKEN)
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.crt", folder / "tls.key")
    return context


def _status(code: int, message: str) -> http.Answer:
    return http.json_answer(code, {"kind": "Status", "apiVersion": "v1", "message": message, "code": code})
