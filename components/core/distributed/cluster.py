"""Several processes that train together: who they are, as `TF_CONFIG` says, and waiting until all are there.

Standard library only, so that a mistake is reported before TensorFlow is imported.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
import socket
import time

from components.core.errors import ConfigError, TransientError

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
        """Address of every worker, the chief's first."""
        return tuple(address for job in _JOBS for address in self.jobs.get(job, ()))

    @property
    def size(self) -> int:
        return len(self.addresses)

    @property
    def number(self) -> int:
        """Index of this process among all workers."""
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
    _open_port(cluster).close()
    return cluster


def parse(text: str) -> Cluster:
    """Reads the value of `TF_CONFIG`.

    Raises:
        ConfigError: It is malformed; no other exception, for any text.
    """
    try:
        value = json.loads(text)
        jobs, task = value["cluster"], value["task"]
        # By way of text, which refuses fractions and truth values.
        cluster = Cluster(
            {job: tuple(jobs[job]) for job in _JOBS if job in jobs}, task["type"], int(str(task["index"]))
        )
        for wrong, reason in (
            (jobs.keys() - {*_JOBS}, f"has other jobs than {' and '.join(_JOBS)}"),
            (len(cluster.jobs.get("chief", ())) > 1, "has more than one chief"),
            (not all(map(_is_address, cluster.addresses)), "has an address that is not HOST:PORT"),
            (len({*cluster.addresses}) < cluster.size, "gives one address to two workers"),
            (not 0 <= cluster.index < len(jobs.get(cluster.job, ())), "has a task that its cluster lacks"),
        ):
            if wrong:
                raise ValueError(reason)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{VARIABLE} is malformed ({type(error).__name__}: {error}), got {text[:200]!r}; it should look like "
            f"{_EXAMPLE}"
        ) from None
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
    with _open_port(cluster, listening=True) as door:
        while missing := [f"{address} ({reason})" for address in others if (reason := absence(address))]:
            with contextlib.suppress(BlockingIOError):
                while True:  # or the queue of those who ask would fill up
                    door.accept()[0].close()
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


def _is_address(address: object) -> bool:
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    return found is not None and 0 < int(found[2]) <= _LARGEST_PORT


def absence(address: str) -> str:
    """Why nobody answers at HOST:PORT; empty if somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_SECONDS).close()
    except TimeoutError:
        return "no answer"
    except (OSError, OverflowError, UnicodeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""


def _open_port(cluster: Cluster, listening: bool = False) -> socket.socket:
    """This process's port, on every interface, as TensorFlow will open it."""
    address = cluster.addresses[cluster.number]
    door = socket.socket()
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("", int(address.rpartition(":")[2])))
        if listening:
            door.listen()
            door.setblocking(False)
    except OSError as error:
        door.close()
        raise ConfigError(
            f"this process cannot open the port of its address {address}, given in {VARIABLE}: "
            f"{os.strerror(error.errno or 0).lower()}; end the process that has it, or give another port to every "
            "worker's cluster"
        ) from None
    return door
