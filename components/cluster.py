"""Several processes that train together: who they are, as `TF_CONFIG` says, and waiting until all are there.

Standard library only, so that a mistake is told before TensorFlow is imported.
"""

import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

from components.errors import ConfigError, TransientError

log = logging.getLogger(__name__)

VARIABLE = "TF_CONFIG"
_EXAMPLE = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
# TensorFlow numbers the workers in this order: a chief, where there is one, comes first.
_JOBS = ("chief", "worker")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_LARGEST_PORT = 65535
# Pods of one job may start minutes apart: images are pulled, nodes are made.
_PATIENCE_SECONDS = 600.0
_ASK_SECONDS, _ASK_AGAIN_SECONDS, _TELL_SECONDS = 2.0, 0.5, 15.0


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of one training, and which of them this process is.

    Attributes:
        jobs: Addresses (`host:port`) by job, `chief` and `worker`; as TensorFlow wants them.
        job, index: This process: its job, and its place among the addresses of that job.
    """

    jobs: dict[str, tuple[str, ...]]
    job: str
    index: int

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every worker's address, the chief's first."""
        return tuple(address for job in _JOBS for address in self.jobs.get(job, ()))

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.addresses)

    @property
    def number(self) -> int:
        """This process's place among all workers, from 0."""
        before = len(self.jobs.get("chief", ())) if self.job == "worker" else 0
        return before + self.index

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what the training leaves."""
        return self.number == 0

    def __str__(self) -> str:
        role = "the chief, which writes" if self.is_chief else "which computes and writes nothing"
        return f"worker {self.number} of {self.size}, {role}"


def cluster_for(accelerator: str) -> Cluster | None:
    """The workers to train with; None where this process trains alone.

    Args:
        accelerator: `multi-worker` needs a cluster, `auto` takes one of more than one worker, others ignore it.

    Raises:
        ConfigError: `TF_CONFIG` is malformed, or missing where it is needed, or the port of this process is taken.
    """
    if accelerator not in ("auto", "multi-worker"):
        return None
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        if accelerator == "auto":
            return None
        raise ConfigError(
            f"accelerator is multi-worker and {VARIABLE} is not set; give each worker the same cluster and its own "
            f"task: {VARIABLE}='{_EXAMPLE}'"
        )
    cluster = parse(text)
    if accelerator == "auto" and cluster.size == 1:
        return None
    with contextlib.closing(_bound_socket(cluster)):
        pass
    return cluster


def parse(text: str) -> Cluster:
    """Reads the value of `TF_CONFIG`.

    Raises:
        ConfigError: With what is wrong in it; no other exception, whatever the text.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise _malformed(f"must be a JSON object, got {_shown(value)}")
    jobs, task = value.get("cluster"), value.get("task")
    if not isinstance(jobs, dict) or not jobs:
        raise _malformed(f"needs a cluster: addresses by job, got {_shown(jobs)}")
    if not isinstance(task, dict):
        raise _malformed(f"needs a task: type and index of this process, got {_shown(task)}")
    problems = [problem for job, addresses in jobs.items() for problem in _job_problems(job, addresses)]
    if problems:
        raise _malformed(*problems)
    cluster = Cluster({job: tuple(jobs[job]) for job in _JOBS if job in jobs}, *_task_of(task, jobs))
    repeated = sorted({address for address in cluster.addresses if cluster.addresses.count(address) > 1})
    if repeated:
        raise _malformed(f"gives the address {repeated[0]} to more than one worker")
    return cluster


def meet(cluster: Cluster, patience: float = _PATIENCE_SECONDS) -> None:
    """Waits until every worker is about to begin; to be called right before TensorFlow opens this process's port.

    TensorFlow itself would wait without a word, deaf to signals, and for as long as it takes.

    Args:
        cluster: The workers.
        patience: Seconds to wait at most.

    Raises:
        ConfigError: The port of this process is taken.
        TransientError: Some worker did not come in time.
    """
    started = told = time.monotonic()
    others = [address for address in cluster.addresses if address != cluster.addresses[cluster.number]]
    with contextlib.closing(_bound_socket(cluster)) as door:
        _listen(door, cluster)
        while missing := [f"{address} ({reason})" for address in others if (reason := absence(address))]:
            _let_in(door)
            now = time.monotonic()
            if now - started >= patience:
                raise TransientError(
                    f"waited {patience:.0f} s in vain for {len(missing)} of {cluster.size} workers: "
                    f"{', '.join(missing)}; start every worker, and check the addresses in {VARIABLE}"
                )
            if now - told >= _TELL_SECONDS:
                told = now
                log.info("waiting for %d of %d workers: %s", len(missing), cluster.size, ", ".join(missing))
            time.sleep(_ASK_AGAIN_SECONDS)


def absence(address: str) -> str:
    """Why nobody answers at HOST:PORT; empty if somebody does."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_SECONDS):
            return ""
    except (OSError, OverflowError, UnicodeError) as error:
        if isinstance(error, TimeoutError):
            return "no answer"
        return (getattr(error, "strerror", None) or str(error)).lower()


def _job_problems(job: str, addresses: Any) -> Iterator[str]:
    if job not in _JOBS:
        yield f"names the job {_shown(job)} in its cluster; only {' and '.join(_JOBS)} train together here"
        return
    if not isinstance(addresses, list) or not addresses:
        yield f"needs a list of addresses for {job}, got {_shown(addresses)}"
        return
    if job == "chief" and len(addresses) > 1:
        yield f"names {len(addresses)} chiefs; there can be one"
    for address in addresses:
        found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if found is None or not 0 < int(found[2]) <= _LARGEST_PORT:
            yield f"has {_shown(address)} as the address of a {job}; it must be HOST:PORT, with a port up to 65535"


def _task_of(task: dict[str, Any], jobs: dict[str, Any]) -> tuple[str, int]:
    job, index = task.get("type"), task.get("index")
    if job not in jobs:
        raise _malformed(f"has {_shown(job)} as its task's type; it must be one of its cluster's jobs: {_names(jobs)}")
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < len(str(_LARGEST_PORT)):
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(jobs[job]):
        raise _malformed(f"has {_shown(index)} as its task's index; {job} has {len(jobs[job])} tasks, counted from 0")
    return job, index


def _malformed(*problems: str) -> ConfigError:
    return ConfigError(*(f"{VARIABLE} {problem}" for problem in problems), f"it should look like {_EXAMPLE}")


def _names(jobs: dict[str, Any]) -> str:
    return ", ".join(job for job in _JOBS if job in jobs)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _bound_socket(cluster: Cluster) -> socket.socket:
    """This process's port, on every interface, as TensorFlow will open it."""
    address = cluster.addresses[cluster.number]
    port = int(address.rpartition(":")[2])
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("", port))
    except OSError as error:
        bound.close()
        raise _unusable(address, error) from None
    return bound


def _listen(door: socket.socket, cluster: Cluster) -> None:
    try:
        door.listen()
    except OSError as error:
        raise _unusable(cluster.addresses[cluster.number], error) from None
    door.setblocking(False)


def _unusable(address: str, error: OSError) -> ConfigError:
    taken = error.errno == errno.EADDRINUSE
    reason = "another process of this machine has it" if taken else os.strerror(error.errno or 0).lower()
    return ConfigError(
        f"this process cannot open the port of its address {address}, given in {VARIABLE}: {reason}; "
        "end that process, or give another port to every worker's cluster"
    )


def _let_in(door: socket.socket) -> None:
    """Takes those who asked off the queue, which would fill up otherwise."""
    with contextlib.suppress(BlockingIOError):
        while True:
            door.accept()[0].close()
