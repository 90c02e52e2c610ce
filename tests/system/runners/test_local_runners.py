"""Runners that need no cluster make the bytes of the direct runner: Prism, alone and behind PortableRunner."""

import hashlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from components.core import errors
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests import servers
from tests.fakes.gcs.server import Server
from tests.programs import ignoring, until
from tests.system.runners.conftest import Stage, content, write_idx


@pytest.fixture(scope="session")
def prism() -> Path:
    return servers.written_in_go("prism", "BEAM_VERSION", "github.com/apache/beam/sdks/v2\tv")


class Prism(NamedTuple):
    """A running Prism, by Beam's options for it as an existing job server."""

    options: str
    process: subprocess.Popen[bytes]
    log: Path


@pytest.fixture
def running_prism(prism: Path, tmp_path: Path) -> Iterator[Prism]:
    port, log = servers.free_port(), tmp_path / "log"
    flags = [f"-job_port={port}", "-serve_http=false", "-log_level=debug"]
    with servers.running([prism, *flags], port, log) as process:
        options = f"--runner=PortableRunner --job_endpoint=127.0.0.1:{port} --environment_type=LOOPBACK"
        yield Prism(options, process, log)


def test_prism_that_was_there(
    running_prism: Prism, settings: dict[str, Any], direct_runner_files: dict[str, str], tmp_path: Path
) -> None:
    dataset = str(tmp_path / "dataset")
    preprocess.run(PreprocessConfig(dataset=dataset, beam_options=running_prism.options, **settings))
    assert running_prism.process.poll() is None
    assert "job-001" in running_prism.log.read_text()  # proof of who ran it
    assert content(tmp_path / "dataset") == direct_runner_files


def test_prism_into_a_bucket(
    running_prism: Prism, settings: dict[str, Any], direct_runner_files: dict[str, str], tmp_path: Path, bucket: Server
) -> None:
    """Workers write rows and shards as objects; the stage's machine keeps none of them."""
    preprocess.run(PreprocessConfig(dataset="gs://b/d", beam_options=running_prism.options, **settings))
    files = {name.rpartition("/")[2]: stored.content for name, stored in bucket.objects["b"].items()}
    assert files.pop("committed.json")
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == direct_runner_files
    written = [request for request in bucket.requests if request.method == "POST"]
    assert any(".rows" in f"{request.query} {request.body!r}" for request in written)
    left = {path.name for path in (tmp_path / "scratch").rglob("*") if path.is_file()}
    assert left - {"submission_environment_dependencies.txt"} == {"dataset.json"}  # the other is Beam's


@pytest.mark.slow
def test_prism_that_beam_starts_outlives_a_sigint_that_is_ignored(
    prism: Path, stage: Callable[[dict[str, Any], str], Stage], tmp_path: Path
) -> None:
    """As in cron and behind a script's `&`; Beam would install a handler that stops the job server."""
    source = write_idx(tmp_path / "idx", 10_000)
    with ignoring(signal.SIGINT):
        started = stage({"source": source}, f"--runner=PrismRunner --prism_location={prism}")
    until(lambda: started.process.poll() is not None or list(started.datasets.rglob("*.rows")))
    assert started.process.poll() is None, started.stderr
    status = Path(f"/proc/{started.process.pid}/status").read_text()
    started.process.send_signal(signal.SIGINT)
    ignored = re.search(r"^SigIgn:\s*(\w+)$", status, re.MULTILINE)
    assert ignored is not None
    assert int(ignored[1], 16) & 1 << signal.SIGINT - 1, status
    assert started.wait() == errors.OK, started.stderr
    assert started.processes() == {}


@pytest.mark.slow
def test_a_runner_that_ends_in_the_middle_is_reported(
    running_prism: Prism, stage: Callable[[dict[str, Any], str], Stage], tmp_path: Path
) -> None:
    started = stage({"source": write_idx(tmp_path / "idx", 10_000)}, running_prism.options)
    until(lambda: started.process.poll() is not None or "job-001" in running_prism.log.read_text())
    assert started.process.poll() is None, started.stderr
    running_prism.process.send_signal(signal.SIGKILL)
    assert started.wait() == errors.TRANSIENT, started.stderr
    failure = r" E preprocess: PortableRunner failed: .*; see its log .*workers$"
    assert re.search(failure, started.stderr, re.MULTILINE)
    assert started.processes() == {}
    assert not list(started.datasets.glob("*"))  # neither whole nor in part
