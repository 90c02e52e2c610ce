"""Tests for strategies.py: missing devices are reported at once."""

import json
import os
import signal
import socket
import sys

import pytest

from components.core.distributed import strategies
from components.core.errors import ConfigError
from tests import programs

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("grpc://127.0.0.1:{closed}", "nothing answers there: connection refused"),
        ("grpc://127.0.0.1:{open},grpc://127.0.0.1:{closed}", "nothing answers there: connection refused"),
        ("grpc://no-such-host.invalid", "nothing answers there: "),
        ("grpc://127.0.0.1:99999", "nothing answers there: "),
        ("grpc://127.0.0.1:many", "'grpc://127.0.0.1:many' is not grpc://HOST:PORT"),
        ("https://127.0.0.1", "'https://127.0.0.1' is not grpc://HOST:PORT"),
    ],
)
def test_a_tpu_that_does_not_answer_is_reported_at_once(address: str, reason: str) -> None:
    """TensorFlow itself retries such an address for more than a quarter of an hour, and ignores signals."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = {"open": silent.getsockname()[1]}
        with socket.create_server(("127.0.0.1", 0)) as other:
            ports["closed"] = other.getsockname()[1]
        full = address.format(**ports)
        with pytest.raises(ConfigError) as refused:
            strategies.choose_strategy("tpu", 0, 8, tpu=full)
    assert repr(full) in str(refused.value)
    assert reason in str(refused.value)


def test_tpu_name_is_what_an_empty_setting_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "grpc://localhost:x")
    for chosen in ("tpu", "auto"):
        with pytest.raises(ConfigError, match="'grpc://localhost:x'"):
            strategies.choose_strategy(chosen, 0, 8)
    with pytest.raises(ConfigError, match="'grpc://localhost:y'"):
        strategies.choose_strategy("tpu", 0, 8, tpu="grpc://localhost:y")


def test_a_worker_that_answers_and_never_joins_is_not_waited_for_for_ever() -> None:
    """Something else uses its port: TensorFlow would wait forever, so the process is ended."""
    program = (
        "from components.core.distributed import strategies, cluster; from components.core.stage import logs; "
        "logs.log_to_stderr(); strategies._PATIENCE_SECONDS = 2; "
        "strategies.choose_strategy('auto', 0, 8, cluster=cluster.cluster_for('auto'))"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:
        workers = [f"127.0.0.1:{door.getsockname()[1]}" for door in (other, silent)]
        other.close()
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}}
        done = programs.run([sys.executable, "-c", program], {**os.environ, "TF_CONFIG": json.dumps(config)})
    assert done.returncode == -signal.SIGALRM, done.stderr


_THREADS = """
import json, os, sys
import tensorflow as tf
from components.core.distributed import strategies
for before, exact, environment in json.loads(sys.argv[1]):
    if not os.fork():
        os.environ.update(environment)
        exec(before)
        strategies.set_threads(exact)
        print(strategies.threads(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_standard_training_gives_an_operation_half_of_the_cores_and_exact_one_thread() -> None:
    """Each case in a fork of one process, which has imported TensorFlow and not used it."""
    cases: list[tuple[tuple[str, bool, dict[str, str]], int]] = [
        (("", False, {}), max(1, CORES // 2)),
        (("os.sched_getaffinity = lambda _: range(12)", False, {}), 6),
        (("", False, {"TF_NUM_INTRAOP_THREADS": "3"}), 3),
        (("", False, {"TF_NUM_INTRAOP_THREADS": "many"}), CORES),  # as TensorFlow reads it
        (("tf.zeros([])", False, {}), CORES),  # too late
        (("del os.sched_getaffinity", False, {}), max(1, (os.cpu_count() or 1) // 2)),  # as on macOS
        (("", True, {"TF_NUM_INTRAOP_THREADS": "3"}), 1),
    ]
    plain = {name: value for name, value in os.environ.items() if name != "TF_NUM_INTRAOP_THREADS"}
    done = programs.run([sys.executable, "-c", _THREADS, json.dumps([case for case, _ in cases])], plain)
    assert [*map(int, done.stdout.split())] == [expected for _, expected in cases], done.stderr
