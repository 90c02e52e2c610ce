"""The `wgan` command: all mistakes at once, without delay; help; the output at the end of a run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import messages, wgan


def test_every_mistake_is_reported_before_anything_runs(tmp_path: Path) -> None:
    found = wgan(
        *("run", "--root", str(tmp_path / "runs")),
        *("--steps", "0", "--batch-size", "many", "--critic_learning_rate", "2", "--beta_1", "nan"),
        *("--clasifier_epochs", "3", "--height", "5", "--resize", "squash", "--replicas", "3", "--jobs", "0"),
        *("--classifier_batch_size", "2"),
    )
    assert found.returncode == 64
    named = [
        "jobs 0",
        "clasifier_epochs classifier_epochs?",
        "batch_size 'many'",
        "beta_1 nan",
        "critic_learning_rate 1.0 2.0",
        "resize fill 'squash'",
        "source",
        "steps 1 0",
        "height width 5 0",
        "classifier_batch_size replicas 2 3",
    ]
    for message, names in zip(messages(found), named, strict=True):
        assert all(name in message for name in names.split()), message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "--source"], "--source"),
        (["run", "--source", "digits", "--root", "gs://b/runs", "--runner", "docker"], "gs://b/runs"),
        (["run", "--source", "digits", "more"], "more"),
        (["run", "--source", "", "--steps", "5"], "source"),
        (["run", "--source", "digits", "--root", __file__], __file__),
        (["walk"], "'walk'"),
        (["submitt"], "submit?"),
        ([], "VERB"),
    ],
)
def test_mistakes_of_the_command_line(tmp_path: Path, words: list[str], named: str) -> None:
    found = wgan(*words, cwd=tmp_path)
    (message,) = messages(found)
    assert (found.returncode, named in message) == (64, True)
    assert not list(tmp_path.iterdir())


def test_a_run_imports_no_kfp() -> None:
    program = (
        "import sys; from pipeline import __main__ as wgan; "
        "print(wgan.main(['run', '--source', 'digits', '--stps', '3']), "
        "{name.partition('.')[0] for name in sys.modules} & {'kfp', 'pydantic', 'tensorflow', 'apache_beam', 'numpy'})"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "64 set()\n"
    assert "steps?" in found.stderr


def test_help_tells_of_every_parameter() -> None:
    found = wgan("run", "--help")
    assert found.returncode == 0
    assert re.search("--batch_size( INT)?, --batch-size INT", found.stdout)  # Python 3.13 names the type once
    assert "One of auto, tpu, gpu, cpu, multi-worker." in " ".join(found.stdout.split())
    assert wgan("--help").returncode == 0
    assert "--all-checkpoints" in wgan("evaluate", "--all-checkpoints", "--help").stdout
    assert wgan("--version").stdout.startswith("wgan ")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["sample", "--count", "0"], ["registry", "count"]),
        (["evaluate"], ["checkpoint"]),
        (["evaluate", "--all-checkpoints", "--seed", "-1"], ["seed"]),
        (["report", "show", "one", "other"], ["action", "'show'"]),
    ],
)
def test_a_program_of_its_own_is_started_with_its_flags(words: list[str], named: list[str]) -> None:
    found = wgan(*words)
    assert found.returncode == 64
    assert all(name in found.stderr for name in named)
