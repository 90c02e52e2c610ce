"""A service that Beam's options name and that does not answer is reported before anything is sent."""

import re
import shlex
import socket
from pathlib import Path

import apache_beam as beam
import pytest

from components.core.errors import ConfigError, TransientError
from components.preprocess import run as preprocess
from components.preprocess.beam import runners
from components.preprocess.config import PreprocessConfig
from tests import servers


def run(tmp_path: Path, beam_options: str) -> None:
    preprocess.run(PreprocessConfig(source="digits", dataset=str(tmp_path), beam_options=beam_options))


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("--runner=PortableRunner", "--job_endpoint=localhost:{port}"),
        ("--runner=FlinkRunner", "--flink_master=http://localhost:{port}"),
    ],
)
def test_nothing_is_there(tmp_path: Path, words: str, address: str) -> None:
    option = address.format(port=servers.free_port())
    expected = rf"beam_options: {re.escape(option)}: nothing answers there \(Connection refused\); start .+"
    with pytest.raises(TransientError, match=expected):
        run(tmp_path, f"{words} {option}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("--runner=FlinkRunner --flink_master=cluster", [("cluster", 8081)]),
        ("--runner=FlinkRunner --flink_master=https://[::1]:443/flink", [("::1", 443)]),
        ("--runner=FlinkRunner --job_endpoint=beside:8099 --flink_master=cluster", [("beside", 8099)]),
        ("--runner=FlinkRunner", []),
        ("--runner=FlinkRunner --flink_master=[local]", []),
        ("--runner=PortableRunner --job_endpoint=embed", []),
        ("--runner=DirectRunner --job_endpoint=unused:8099", []),
    ],
)
def test_only_the_service_that_the_stage_sends_to_is_asked(
    monkeypatch: pytest.MonkeyPatch, words: str, asked: list[tuple[str, int]]
) -> None:
    connected = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ZeroDivisionError), runners.pipeline(words):
        raise ZeroDivisionError  # before anything runs
    assert connected == asked


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--runner=PortableRunner", "PortableRunner: You must specify a --job_endpoint"),
        ("--runner=FlinkRunner --job_server_java_launcher=nojava --flink_job_server_jar={jar}", "directory: 'nojava'"),
        ("--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL", "external_service_address"),
        ("--runner=apache_beam.runners.nowhere.NoRunner", "No module named 'apache_beam.runners.nowhere'"),
        ("--direct_running_mode=multi_processing", "--direct_running_mode=multi_processing"),
        ("--nonsense=3", "--nonsense=3"),
        ("'open", "'open"),
    ],
)
def test_options_that_cannot_work(tmp_path: Path, words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, words.format(jar=shlex.quote(__file__)))
    assert not list(tmp_path.iterdir())


FLINK = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
ValueError: the cause

  File "sdk_worker.py", line 312, in _execute
    response = task()
ModuleNotFoundError: No module named 'components' [while running 'Read']

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.accept(FnApiControlClient.java:180)
"""
JAVA = """org.apache.flink.client.program.ProgramInvocationException: Job failed
\tat org.apache.flink.client.ClientUtils.submit(ClientUtils.java:1)
Caused by: org.apache.flink.runtime.JobException: Recovery is suppressed
\tat org.apache.flink.runtime.Something(Something.java:1)
Caused by: java.net.ConnectException: Connection refused: localhost/127.0.0.1:50000
\t... 12 more
"""


@pytest.mark.parametrize(
    ("text", "cause", "remedy"),
    [
        (FLINK, "ModuleNotFoundError: No module named 'components' [while running 'Read']", "--sdk_container_image"),
        (JAVA, "Caused by: java.net.ConnectException: Connection refused: localhost/127.0.0.1:50000", "--worker_pool"),
        ('java.io.IOException: Cannot run program "docker": error=2', "java.io.IOException: Cannot run", "EXTERNAL"),
        ("job failed in state FAILED: no slot\n\tat a.b(C.java:1)", "job failed in state FAILED: no slot;", "its log"),
        ("", "RuntimeError", "its log"),
    ],
)
def test_a_failure_of_a_runner_is_its_cause_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch, text: str, cause: str, remedy: str
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(beam.Pipeline, "run", fail)
    expected = f"^PortableRunner failed: {re.escape(cause)}.*{re.escape(remedy)}"
    words = "--runner=PortableRunner --job_endpoint=embed"
    with pytest.raises(TransientError, match=expected), runners.pipeline(words):
        pass
