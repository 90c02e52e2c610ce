"""The entry point of the preprocess image: the stage, or a worker of Beam."""

import dataclasses
import subprocess
import sys
from pathlib import Path

from components.core import errors
from components.preprocess.beam import worker
from components.preprocess.config import PreprocessConfig


def start(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "components.preprocess.beam.worker", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_stage_is_run_with_the_stages_flags() -> None:
    done = start("--source", "digits", "--heigth", "16")
    assert done.returncode == errors.BAD_CONFIGURATION
    assert "heigth" in done.stderr
    assert "usage: python -m components preprocess" in start("--help").stdout


def test_beams_flags_mean_a_worker_and_no_setting_of_the_stage_is_taken_for_one() -> None:
    for words in ("--id=1-1 --provision_endpoint=x:1", "-id 1 -logging_endpoint x:1", "--worker_pool", "--setup_only"):
        assert worker.is_worker(words.split()), words
    names = [field.name for field in dataclasses.fields(PreprocessConfig)]
    assert not worker.is_worker([f"--{name}=x" for name in names] + ["--executor-input", '{"id": 1}', "id"])


def become(changes: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = f"import pathlib, sys; from components.preprocess.beam import worker; {changes}; "
    command = [sys.executable, "-c", program + f"worker.become_worker({[*words]!r})"]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_boot_is_given_every_word_and_the_bases_pip(tmp_path: Path) -> None:
    boot = tmp_path / "boot"
    boot.write_text('#!/bin/sh\necho "$@" "$PYTHONPATH"\n')
    boot.chmod(0o755)
    done = become(f"worker.BOOT = pathlib.Path({str(boot)!r})", "--id=1", "a b")
    assert done.stdout == f"--id=1 a b {worker.PIP}\n"


def test_a_second_worker_pool_is_refused() -> None:
    pool = "from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer as pool; "
    pool += "address, server = pool.start(use_process=True); print(address, flush=True); server.wait_for_termination()"
    with subprocess.Popen([sys.executable, "-c", pool], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        port = int(first.stdout.readline().rpartition(":")[2])
        done = become(f"worker.BOOT, worker.POOL_PORT = pathlib.Path(sys.executable), {port}", "--worker_pool")
        first.kill()
    assert f"port {port}" in done.stderr
