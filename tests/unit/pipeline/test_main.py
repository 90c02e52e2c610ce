"""The `wgan` command: mistakes, all at once and at once; help; what a run shows at its end."""
# mypy: disable-error-code="valid-type"

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import Desk, Parts, messages, wgan


def test_every_mistake_is_told_before_anything_runs(tmp_path: Path) -> None:
    found = wgan(
        "run",
        "--root",
        str(tmp_path / "runs"),
        *("--steps", "0", "--batch-size", "many", "--critic_learning_rate", "2", "--beta_1", "nan"),
        *("--clasifier_epochs", "3", "--height", "5", "--resize", "squash", "--replicas", "3", "--jobs", "0"),
        *("--classifier_batch_size", "2"),
    )
    assert found.returncode == 64
    assert messages(found) == [
        "jobs must be at least 1, got 0",
        "unknown parameter clasifier_epochs; did you mean classifier_epochs?",
        "batch_size must be a whole number, got 'many'",
        "beta_1 must be finite, got nan",
        "critic_learning_rate must be at most 1.0, got 2.0",
        "resize must be one of fill, fit, pad, stretch, got 'squash'",
        "source is required: give --source",
        "steps must be at least 1, got 0",
        "height and width must be given together, got 5 and 0",
        "classifier_batch_size must be at least replicas, got 2 for 3",
    ]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--source"], "expected one argument"),
        (
            ["run", "--source", "digits", "--root", "gs://b/runs", "--runner", "docker"],
            "root must be a folder of this machine",
        ),
        (["run", "--source", "digits", "more"], "unexpected arguments: more"),
        (["run", "--source", "", "--steps", "5"], "source must not be empty"),
        (["run", "--source", "digits", "--root", __file__], f"root must be a folder, got {__file__}, which is a file"),
        (["walk"], "invalid choice: 'walk'"),
        ([], "required: VERB"),
        (["compile", "--target", "moon"], "invalid choice: 'moon'"),
    ],
)
def test_mistakes_of_the_command_line(tmp_path: Path, words: list[str], message: str) -> None:
    found = wgan(*words, cwd=tmp_path)
    assert found.returncode == 64
    assert message in found.stderr
    assert "Traceback" not in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_imports_no_kfp() -> None:
    program = (
        "import sys; from pipeline import __main__ as wgan; "
        "print(wgan.main(['run', '--source', 'digits', '--stps', '3']), "
        "{name.partition('.')[0] for name in sys.modules} & {'kfp', 'pydantic', 'tensorflow', 'apache_beam', 'numpy'})"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "64 set()\n"
    assert "unknown parameter stps; did you mean steps?" in found.stderr


def test_help_tells_of_every_parameter() -> None:
    found = wgan("run", "--help")
    assert found.returncode == 0
    assert re.search("--batch_size( INT)?, --batch-size INT", found.stdout)  # Python 3.13 names the type once
    assert "One of auto, tpu, gpu, cpu, multi-worker." in " ".join(found.stdout.split())
    assert wgan("--help").returncode == 0


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (["sample", "--count", "0"], ["registry is required", "count must be at least 1, got 0"]),
        (["evaluate"], ["checkpoint is required"]),
        (["evaluate", "--all-checkpoints", "--seed", "-1"], ["seed must be at least 0"]),
        (["report", "show", "one", "other"], ["action must be one of compare, got 'show'"]),
    ],
)
def test_a_program_of_its_own_is_started_with_its_flags(words: list[str], problems: list[str]) -> None:
    found = wgan(*words)
    assert found.returncode == 64
    assert all(problem in found.stderr for problem in problems)


def test_evaluate_has_other_flags_for_all_checkpoints() -> None:
    helped = wgan("evaluate", "--all-checkpoints", "--help")
    assert helped.stdout.startswith("usage: python -m components.evaluate --all-checkpoints")


def test_version() -> None:
    assert wgan("--version").stdout.startswith("wgan ")


def test_parameters_of_any_package_are_typed(desk: Desk, parts: Parts) -> None:
    def typed(count: int, share: float) -> None:
        parts.shell(script='printf "%s" "$1" > "$2"', text=f"{count} {share}")

    wrong = desk.run(desk.compile(typed), "--count", "3.5", "--share", "half")
    assert wrong.returncode == 64
    assert messages(wrong) == ["count must be a whole number, got '3.5'", "share must be a number, got 'half'"]


def test_a_run_ends_with_a_table_and_where_results_lie(desk: Desk) -> None:
    from kfp import dsl

    @dsl.container_component
    def evaluate(root: str, evaluation_uri: dsl.OutputPath(str), summary: dsl.OutputPath(str)) -> dsl.ContainerSpec:
        script = """
            mkdir -p "$1/evaluation" "$1/registry"; touch "$1/evaluation/samples.png" "$1/registry/champion.json"
            printf "$1/evaluation" > "$2"; printf "PROMOTE [FCD 3.1]" > "$3"
        """
        return dsl.ContainerSpec(image="none", command=["sh", "-ec", script, "e", root, evaluation_uri, summary])

    def pipeline(root: str) -> None:
        evaluate(root=root)

    found = desk.run(desk.compile(pipeline))
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["stage", "state", "seconds", "what", "it", "made"]
    assert lines[1].split()[:2] == ["evaluate", "done"]
    assert lines[1].endswith("PROMOTE [FCD 3.1]")
    assert dict(line.split() for line in lines[3:]) == {
        "evaluation": f"{desk.root}/evaluation",
        "samples": f"{desk.root}/evaluation/samples.png",
        "champion": f"{desk.root}/registry/champion.json",
    }
