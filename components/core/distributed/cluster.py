"""The workers that train together, from `TF_CONFIG`, and a rendezvous before training; without TensorFlow."""

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
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
# Pods of one job may start minutes apart: images are pulled, nodes are created.
_PATIENCE_SECONDS = 600.0
_ASK_SECONDS, _ASK_AGAIN_SECONDS, _LOG_SECONDS = 2.0, 0.5, 15.0


@dataclasses.dataclass(frozen=True)
class Cluster:
    addresses: tuple[str, ...]  # HOST:PORT of every worker, the chief's first
    number: int  # index of this process among them

    @property
    def size(self) -> int:
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        return self.number == 0


def cluster_for(accelerator: str) -> Cluster | None:
    """Return the workers to train with; None if this process trains alone.

    `multi-worker` needs a cluster, `auto` uses one of several workers, other accelerators ignore it.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if accelerator not in ("auto", "multi-worker") or (accelerator == "auto" and not text):
        return None
    if not text:
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
    """Read a value of `TF_CONFIG`; a `ConfigError` if it is malformed."""
    try:
        value = json.loads(text)
        jobs = {job: tuple(addresses) for job, addresses in value["cluster"].items()}
        chiefs, workers, job = jobs.get("chief", ()), jobs.get("worker", ()), value["task"]["type"]
        index = int(str(value["task"]["index"]))  # through text, which refuses fractions and booleans
        cluster = Cluster((*chiefs, *workers), index + (len(chiefs) if job == "worker" else 0))
        ports = [int(_ADDRESS.fullmatch(address)[1]) for address in cluster.addresses]  # type: ignore[index]
        well_formed = (
            jobs.keys() <= {"chief", "worker"}
            and len(chiefs) <= 1
            and all(0 < port <= 65535 for port in ports)
            and len({*cluster.addresses}) == cluster.size
            and 0 <= index < len(jobs[job])
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        well_formed = False
    if not well_formed:
        raise ConfigError(
            f"{VARIABLE} is malformed, got {text[:200]!r}; give each worker the same cluster (different addresses "
            f"HOST:PORT, at most one chief) and its own task, like {_EXAMPLE}"
        )
    return cluster


def meet(cluster: Cluster, patience: float = _PATIENCE_SECONDS) -> None:
    """Wait until every worker is about to begin; TensorFlow itself would wait without limit and ignore signals."""
    started = logged = time.monotonic()
    others = [address for address in cluster.addresses if address != cluster.addresses[cluster.number]]
    with _open_port(cluster, listening=True) as listener:
        while missing := [f"{address} ({reason})" for address in others if (reason := absence(address))]:
            with contextlib.suppress(BlockingIOError):
                while True:  # otherwise the queue of connections would fill up
                    listener.accept()[0].close()
            now = time.monotonic()
            if now - started >= patience:
                raise TransientError(
                    f"waited {patience:.0f} s in vain for {len(missing)} of {cluster.size} workers: "
                    f"{', '.join(missing)}; start every worker, and check the addresses in {VARIABLE}"
                )
            if now - logged >= _LOG_SECONDS:
                logged = now
                log.info("waiting for %d of %d workers: %s", len(missing), cluster.size, ", ".join(missing))
            time.sleep(_ASK_AGAIN_SECONDS)


def absence(address: str) -> str:
    """Return why nothing answers at HOST:PORT; empty if a server does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_SECONDS).close()
    except TimeoutError:
        return "no answer"
    except (OSError, OverflowError, UnicodeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""


def _open_port(cluster: Cluster, listening: bool = False) -> socket.socket:
    """Open this process's port on every interface, as TensorFlow will."""
    address = cluster.addresses[cluster.number]
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", int(address.rpartition(":")[2])))
        if listening:
            listener.listen()
            listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"this process cannot open the port of its address {address}, given in {VARIABLE}: "
            f"{os.strerror(error.errno or 0).lower()}; end the process that has it, or give another port to every "
            "worker's cluster"
        ) from None
    return listener
