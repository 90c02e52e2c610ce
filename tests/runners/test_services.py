"""What Beam's options name and is not there, or is something else, is told before anything is sent."""

import contextlib
import http.server
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.errors import ConfigError, TransientError
from components.preprocess import run as preprocess
from components.preprocess import runners
from components.preprocess.config import PreprocessConfig

# Beam itself would try for minutes.
pytestmark = pytest.mark.timeout(60)


def run(tmp_path: Path, beam_options: str) -> None:
    preprocess.run(PreprocessConfig(source="digits", dataset=str(tmp_path / "dataset"), beam_options=beam_options))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextlib.contextmanager
def http_server() -> Iterator[int]:
    """The port of a server of HTTP that has nothing."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ADDRESSES = {
    "--job_endpoint=localhost:{port}": "--runner=PortableRunner",
    "--job_endpoint=127.0.0.1:{port}": "--runner=FlinkRunner",
    "--flink_master=http://localhost:{port}": "--runner=FlinkRunner",
    "--flink_master=localhost:{port}": "--runner=FlinkRunner --flink_submit_uber_jar",
    "--spark_master_url=spark://localhost:{port}": "--runner=SparkRunner",
    "--spark_rest_url=http://localhost:{port}": "--runner=SparkRunner --spark_submit_uber_jar",
    "--environment_config=localhost:{port}": "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL",
    "--environment_options=external_service_address=localhost:{port}": (
        "--runner=PortableRunner --job_endpoint=embed --environment_type=external"
    ),
}


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is called java, which nothing here gets as far as to start."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_is_there(tmp_path: Path, address: str) -> None:
    option = address.format(port=free_port())
    expected = rf"beam_options: {re.escape(option)}: nothing answers there \(Connection refused\); start the .+"
    with pytest.raises(TransientError, match=expected):
        run(tmp_path, f"{ADDRESSES[address]} {option}")
    assert not [path for path in tmp_path.iterdir() if path.name != "bin"]


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("address", [address for address in ADDRESSES if "spark" not in address])
def test_something_else_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(runners, "_SECONDS_TO_ANSWER", 0.2)
    with http_server() as port:
        option = address.format(port=port)
        with pytest.raises(ConfigError, match=re.escape(f"{option}: what answers there is no ")):
            run(tmp_path, f"{ADDRESSES[address]} {option}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--runner=PortableRunner", "PortableRunner needs --job_endpoint=HOST:PORT of a job server of Beam"),
        (
            "--runner=PortableRunner --job_endpoint=here",
            "--job_endpoint must be HOST:PORT of a job server of Beam, got",
        ),
        ("--runner=PortableRunner --job_endpoint=here:70000", "got here:70000: Port out of range 0-65535"),
        (
            "--runner=FlinkRunner --job_server_java_launcher=nojava",
            "with `nojava`, which is not here; install Java, or",
        ),
        ("--runner=SparkRunner --job_server_java_launcher=nojava", "or --spark_submit_uber_jar"),
        ("--runner=SparkRunner --spark_submit_uber_jar", "Option spark_rest_url must be set"),
        ("--runner=PrismRunner --prism_location=/nowhere", 'Unable to parse binary URL "/nowhere"'),
        ("--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL", "external_service_address"),
        (
            "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL --environment_config={",
            "--environment_config must be HOST:PORT of a worker pool of Beam",
        ),
        ("--runner=DataflowRunner", "Missing required option: project"),
        ("--runner=apache_beam.runners.nowhere.NoRunner", "No module named 'apache_beam.runners.nowhere'"),
    ],
)
def test_options_that_cannot_work(tmp_path: Path, words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, words)
    assert not list(tmp_path.iterdir())


def test_a_worker_pool_in_json(tmp_path: Path) -> None:
    port = free_port()
    options = "--runner=PortableRunner --job_endpoint=embed --environment_type=EXTERNAL --environment_config="
    with pytest.raises(TransientError, match=f"--environment_config=localhost:{port}: nothing answers there"):
        run(tmp_path, f"""{options}'{{"url": "localhost:{port}"}}'""")


def test_workers_in_this_process_are_for_a_runner_on_this_machine() -> None:
    assert runners.is_here("127.0.0.1", "127.0.0.1")
    assert runners.is_here("192.0.2.1", "192.0.2.1")
    assert runners.is_here("127.0.0.1", "127.0.0.2")
    assert runners.is_here("::1", "::1")
    assert not runners.is_here("192.0.2.1", "192.0.2.2")


FLINK = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "sdk_worker.py", line 311, in _execute
    response = task()
ValueError: the cause

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
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
    ("text", "line"),
    [
        (FLINK, "ModuleNotFoundError: No module named 'components' [while running 'Read']"),
        (JAVA, "Caused by: java.net.ConnectException: Connection refused: localhost/127.0.0.1:50000"),
        ("Pipeline job failed in state FAILED: no slot\n", "Pipeline job failed in state FAILED: no slot"),
        ("x" * 600, "x" * 500 + "..."),
        ("", ""),
    ],
)
def test_a_runner_says_it_in_a_line(text: str, line: str) -> None:
    assert runners.one_line(text) == line
