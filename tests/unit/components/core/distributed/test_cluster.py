"""Tests for cluster.py: TF_CONFIG is parsed or refused with a message, and workers wait for each other."""

import json
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.distributed import cluster
from components.core.distributed.cluster import Cluster
from components.core.errors import ConfigError, TransientError
from tests.properties import JSON

HOSTS = st.builds("host-{}.train".format, st.integers(0, 99)) | st.just("[::1]")
ADDRESS = st.builds("{}:{}".format, HOSTS, st.integers(1, 65535))
JOBS = st.dictionaries(st.sampled_from(["chief", "worker", "ps", ""]), JSON | st.lists(ADDRESS | JSON))


def text(cluster_of: Any, task: Any) -> str:
    return json.dumps({"cluster": cluster_of, "task": task})


@given(workers=st.lists(ADDRESS, min_size=1, max_size=5, unique=True), with_chief=st.booleans(), pick=st.integers(0, 4))
def test_a_right_one_is_understood(workers: list[str], with_chief: bool, pick: int) -> None:
    jobs = {"worker": workers, "chief": ["chief:1"]} if with_chief else {"worker": workers}
    parsed = cluster.parse(text(jobs, {"type": "worker", "index": str(pick % len(workers))}))
    assert parsed.addresses == (("chief:1",) if with_chief else ()) + tuple(workers)
    assert parsed.addresses[parsed.number] == workers[pick % len(workers)]
    assert parsed.is_chief == (not with_chief and pick % len(workers) == 0)
    everyone = [cluster.parse(text(jobs, {"type": job, "index": i})) for job in jobs for i in range(len(jobs[job]))]
    assert sorted(one.number for one in everyone) == list(range(parsed.size))
    assert sum(one.is_chief for one in everyone) == 1


@given(st.text() | JSON.map(json.dumps) | st.builds(text, JOBS, st.builds(dict, type=st.just("worker"), index=JSON)))
def test_anything_else_is_refused_or_understood(anything: str) -> None:
    try:
        parsed = cluster.parse(anything)
    except ConfigError:
        return
    assert 0 <= parsed.number < parsed.size


TWO = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    "value",
    [
        "{'cluster'}",
        "[" * 100_000,
        "7",
        json.dumps({"task": {"type": "worker", "index": 0}}),
        json.dumps({"cluster": TWO}),
        text(TWO, {"index": 0}),
        text(TWO, {"type": "evaluator", "index": 0}),
        text(TWO, {"type": "worker"}),
        *(text(TWO, {"type": "worker", "index": index}) for index in (2, -1, True, 0.5, 1.0, "one")),
        text({"ps": ["a:1"], **TWO}, {"type": "worker", "index": 0}),
        text({"chief": ["a:1", "b:1"]}, {"type": "chief", "index": 0}),
        *(
            text({"worker": workers}, {"type": "worker", "index": 0})
            for workers in ("a:1", [], ["a:1", "b"], ["a:65536"], ["a:0"], ["grpc://a:1"], ["a:1", "a:1"], [["a:1"]])
        ),
    ],
)
def test_each_mistake_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^TF_CONFIG ") as refused:
        cluster.parse(value)
    assert str(refused.value).isprintable()


@pytest.fixture
def ports() -> list[int]:
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    numbers = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return numbers


def members(ports: list[int]) -> list[Cluster]:
    addresses = tuple(f"127.0.0.1:{port}" for port in ports)
    return [Cluster(addresses, index) for index in range(2)]


@pytest.mark.parametrize(
    ("accelerator", "size", "expected"),
    [("auto", 2, 2), ("auto", 1, None), ("multi-worker", 1, 1), ("multi-worker", 2, 2), ("cpu", 2, None)],
)
def test_who_trains_together(
    monkeypatch: pytest.MonkeyPatch, ports: list[int], accelerator: str, size: int, expected: int | None
) -> None:
    workers = [f"127.0.0.1:{port}" for port in ports[:size]]
    monkeypatch.setenv("TF_CONFIG", text({"worker": workers}, {"type": "worker", "index": 0}))
    chosen = cluster.cluster_for(accelerator)
    assert (chosen.size if chosen else None) == expected


def test_a_missing_or_malformed_one_is_no_matter_to_who_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cluster.cluster_for("auto") is None
    with pytest.raises(ConfigError, match="TF_CONFIG is not set"):
        cluster.cluster_for("multi-worker")
    monkeypatch.setenv("TF_CONFIG", "{")
    assert cluster.cluster_for("cpu") is None
    with pytest.raises(ConfigError, match=r"^TF_CONFIG "):
        cluster.cluster_for("auto")


def test_a_port_that_is_taken_is_reported_first(monkeypatch: pytest.MonkeyPatch, ports: list[int]) -> None:
    workers = [f"127.0.0.1:{port}" for port in ports]
    monkeypatch.setenv("TF_CONFIG", text({"worker": workers}, {"type": "worker", "index": 1}))
    with socket.create_server(("127.0.0.1", ports[1])):
        with pytest.raises(ConfigError, match=f"127.0.0.1:{ports[1]}, given in TF_CONFIG: "):
            cluster.cluster_for("multi-worker")
        with pytest.raises(ConfigError, match=f"127.0.0.1:{ports[1]}, "):
            cluster.meet(members(ports)[1])


def test_workers_meet_in_any_order(ports: list[int]) -> None:
    """And leave their ports free, for TensorFlow to open."""
    first, second = members(ports)
    waiting = threading.Thread(target=cluster.meet, args=(first,))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()

    def meet_and_open() -> None:
        cluster.meet(second)
        servers.append(socket.create_server(("", ports[1])))

    servers: list[socket.socket] = []
    other = threading.Thread(target=meet_and_open)
    other.start()
    for thread in (waiting, other):
        thread.join(30)
        assert not thread.is_alive()
    (server,) = servers
    server.close()
    socket.create_server(("", ports[0])).close()


def test_waiting_ends(ports: list[int]) -> None:
    with pytest.raises(TransientError) as gone:
        cluster.meet(members(ports)[0], patience=0.3)
    assert f"for 1 of 2 workers: 127.0.0.1:{ports[1]} (connection refused)" in str(gone.value)
