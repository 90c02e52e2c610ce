"""The `wgan` command: all mistakes at once, without delay; help; the output at the end of a run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from pipeline import step_table
from pipeline.__main__ import command
from tests import programs
from tests.unit.pipeline.conftest import messages, wgan


def test_every_mistake_is_reported_before_anything_runs(tmp_path: Path) -> None:
    result = wgan(
        *("run", "--root", str(tmp_path / "runs")),
        *("--steps", "0", "--batch-size", "many", "--critic_learning_rate", "2", "--beta_1", "nan"),
        *("--clasifier_epochs", "3", "--height", "5", "--resize", "squash", "--replicas", "3", "--jobs", "0"),
        *("--classifier_batch_size", "2", "--docker-options", "--gpus all", "--dev"),
    )
    assert result.returncode == 64
    named = [
        "clasifier-epochs classifier-epochs?",
        "jobs 0",
        "docker_options",
        "dev",
        "batch_size 'many'",
        "beta_1 nan",
        "critic_learning_rate 1.0 2.0",
        "resize fill 'squash'",
        "source",
        "steps 1 0",
        "height width 5 0",
        "classifier_batch_size replicas 2 3",
    ]
    for message, names in zip(messages(result), named, strict=True):
        assert all(name in message for name in names.split()), message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["status", "--jsn"], "json?"),
        (["run", "--source", "digits", "--sorce", "digits"], "source?"),
        (["run", "--source", "digits", "--root", "gs://b/runs", "--runner", "docker"], "gs://b/runs"),
        (["run", "--source", "digits", "--runner", "docker", "--docker-options=-e 'a"], "docker_options"),
        (["run", "--source", "digits", "more"], "more"),
        (["run", "--source", "", "--steps", "5"], "source"),
        (["run", "--source", "digits", "--root", __file__], __file__),
        (["judge", "--source", "digits"], "samples"),
        (["judge", "--source", "digits", "--samples", "none.npz"], "none.npz"),
        (["judge", "--source", "digits", "--samples", __file__, "--steps", "5"], "steps"),
        (["submitt"], "submit?"),
        ([], "VERB"),
    ],
)
def test_mistakes_of_the_command_line(tmp_path: Path, words: list[str], named: str) -> None:
    result = wgan(*words, cwd=tmp_path)
    (message,) = messages(result)
    assert (result.returncode, named in message) == (64, True)
    assert not list(tmp_path.iterdir())


def test_help_mistakes_and_plans_import_little(tmp_path: Path) -> None:
    """They answer at once, which no test of times could prove on a busy machine."""
    lines = [
        "--help",
        *(f"{verb} --sorce x" for verb in sorted(command()[1].choices.keys() - {"registry", "report", "schedule"})),
    ]
    lines += ["registry list --sorce x", f"report compare a {tmp_path} --sorce x", "schedule list --sorce x"]
    lines += ["schedule apply --help"]
    lines += [f"plan --source digits --root {tmp_path}"]
    for line, result in zip(lines, programs.in_forks([line.split() for line in lines]), strict=True):
        assert result.code == (0 if result.out else errors.BAD_CONFIGURATION), (line, result.err)
        packages = {name.partition(".")[0] for name in result.imported} - sys.stdlib_module_names
        # Tried in vain: Jython's `org` by `copy`, Windows' `_wmi` by `platform`.
        assert packages <= {"components", "pipeline", "rich", "yaml", "org", "_wmi"}, line
        assert {"components", "pipeline"} <= packages
        assert len(result.imported) < 400, line


def test_help_shows_what_most_users_need_and_all_of_it_every_parameter() -> None:
    usual, everything = wgan("run", "--help"), wgan("run", "--help-all")
    flags, all_flags = (re.findall(r"^  --([a-z0-9_-]+)", shown.stdout, re.MULTILINE) for shown in (usual, everything))
    assert len(flags) < 25
    assert {"source", "steps", "batch-size", "accelerator"} <= {*flags} < {*all_flags}
    assert {name.replace("_", "-") for name in step_table.PARAMETERS} <= {*all_flags}
    assert "--accelerator {auto,tpu,gpu,cpu,multi-worker}" in usual.stdout
    assert wgan("--version").stdout.startswith("wgan ")


@pytest.mark.parametrize("words", [["run", "--help"], ["plan", "--source", "digits"]])
def test_a_closed_pipe_ends_a_command_without_a_word(words: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "pipeline", *words]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (errors.CLOSED_PIPE, b"")
