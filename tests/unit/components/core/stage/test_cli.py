"""A stage as a program: flags and executor input in, exit codes and messages out."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from components.core.errors import ConfigError
from components.core.stage import cli, hardware, logs
from components.train.config import TrainConfig
from tests.programs import ignoring
from tests.unit.components.core.stage import stand_in


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*stand_in.COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_kubeflow_hands_in_known_values_and_all_of_them() -> None:
    message = {"inputs": {"parameterValues": {"source": "", "color": "red"}}, "outputs": {"outputFile": "unused"}}
    done = program("--executor-input", json.dumps(message))
    assert done.returncode == 64
    assert "unknown setting color" in done.stderr
    both = program("--executor-input", "{}", "--source", "new")
    assert (both.returncode, "stands alone" in both.stderr) == (64, True)


def test_every_mistake_is_reported_at_once_before_anything_heavy() -> None:
    """Whose import would be a defect here, with another exit code."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(['tensorflow', 'apache_beam', 'numpy']); "
        "from components import __main__; sys.exit(__main__.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", "--steps=many", "--batch_size=0", "--nonsense=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 64
    for reported in ("dataset is required", "steps must be a ", "batch_size must be at ", "unknown setting nonsense"):
        assert reported in done.stderr


@pytest.mark.parametrize(("value", "tpu", "expected"), [("", False, "1"), ("", True, None), ("0", False, "0")])
def test_without_a_tpu_libtpu_does_not_ask_the_metadata_server(
    monkeypatch: pytest.MonkeyPatch, value: str, tpu: bool, expected: str | None
) -> None:
    """Away from Google Cloud it would retry for minutes, as soon as TensorFlow for TPUs is imported."""
    monkeypatch.setattr(logs, "log_to_stderr", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(hardware, "has_tpu", lambda: tpu)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", value)  # so that it is restored
    if not value:
        monkeypatch.delenv("TPU_SKIP_MDS_QUERY")
    assert cli.main("train", []) == errors.BAD_CONFIGURATION
    assert os.environ.get("TPU_SKIP_MDS_QUERY") == expected


def test_flags_take_dashes_or_underscores_and_no_abbreviation() -> None:
    for word in ("--batch_size", "--batch-size"):
        values, executor = cli._read_arguments("train", TrainConfig, [word, "8"])
        assert (values, executor) == ({"batch_size": "8"}, None)
    values, _ = cli._read_arguments("train", TrainConfig, ["--batch", "8"])
    with pytest.raises(ConfigError, match="unknown setting batch"):
        cli.build(TrainConfig, values)
    with pytest.raises(ConfigError, match="unexpected arguments: loose"):
        cli._read_arguments("train", TrainConfig, ["loose"])
    with pytest.raises(ConfigError, match="expected one argument"):
        cli._read_arguments("train", TrainConfig, ["--batch_size"])


@pytest.mark.parametrize(
    ("registry", "code", "words"), [("registry", 0, "runs: nothing has"), ("http://host/x", 64, "http://host/x is")]
)
def test_a_pod_leaves_its_last_words(
    registry: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes makes the file in each container, and shows it beside the exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(cli, "_LAST_WORDS", tmp_path / "last-words")
    command = ["--source=digits", f"--registry={registry}"]
    assert cli.main("decide", command) == code
    assert not (tmp_path / "last-words").exists()
    (tmp_path / "last-words").write_text("words of an earlier program" * 100)
    assert cli.main("decide", command) == code
    text = (tmp_path / "last-words").read_text()
    assert text.startswith(words)
    assert "earlier" not in text


@pytest.mark.parametrize(
    ("inherited", "chosen", "mode"),
    [(0, "", 0o750), (0o022, "", 0o750), (0o077, "", 0o700), (0o077, "002", 0o775), (0o022, "0", 0o777)],
)
def test_other_users_cannot_read_results_unless_the_user_chooses_another_umask(
    inherited: int, chosen: str, mode: int, tmp_path: Path
) -> None:
    """Kubeflow starts stages with a umask of 0, and Docker with 022."""
    words = [sys.executable, "-m", "components", "decide", "--source=digits", f"--registry={tmp_path}/runs/registry"]
    variables = {**os.environ, cli.UMASK: chosen}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=variables, umask=inherited)
    assert done.returncode == errors.OK, done.stderr
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == mode


@pytest.mark.parametrize("chosen", ["750", "8", "-22", "u=rwx"])
def test_what_is_no_umask_is_refused(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cli.UMASK, chosen)
    with pytest.raises(ConfigError, match=f"^{cli.UMASK} must be .*{chosen}"):
        cli.set_umask()


@pytest.mark.parametrize(
    ("raised", "code", "reported"),
    [
        ("errors.ConfigError('one', 'two')", 64, "E stage: two"),
        ("errors.DataError('no images')", 65, "E stage: no images"),
        ("errors.TransientError('try again')", 75, "E stage: try again"),
        ("OSError(28, 'No space', 'file')", 75, "E stage: No space left on device: file"),
        ("OSError(30, 'Read-only', 'file')", 64, "E stage: Read-only file system: file"),
        ("OSError(13, 'Denied', 'file')", 64, f"Permission denied: file (for user {os.getuid()}:{os.getgid()}; run as"),
        ("KeyboardInterrupt()", 130, " stage: interrupted"),
        ("ZeroDivisionError('oh')", 70, "oh"),
    ],
)
def test_each_error_has_its_exit_code_and_a_defect_alone_a_traceback(raised: str, code: int, reported: str) -> None:
    done = program("--source", raised)
    assert done.returncode == code
    assert reported in done.stderr
    assert ("Traceback" in done.stderr) == (code == errors.DEFECT)
    assert done.stdout == ""


@pytest.mark.parametrize(("source", "printed"), [("wait", ""), ("defer", f"stopped by {signal.SIGTERM.value}\n")])
def test_a_stage_started_with_sigint_ignored_stops_on_sigterm_alone(source: str, printed: str) -> None:
    with ignoring(signal.SIGINT):
        process = stand_in.started("--source", source)
    with process:
        process.send_signal(signal.SIGINT)  # arrives first: Python handles pending signals by their numbers
        process.send_signal(signal.SIGTERM)
        output, log = process.communicate()
    assert (process.returncode, output) == (143, printed), log
    assert "terminated; run the command again to resume" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("device", "expected"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("null", False)]
)
def test_a_tpu_is_known_by_its_device(tmp_path: Path, device: str, expected: bool) -> None:
    (tmp_path / device).parent.mkdir(exist_ok=True)
    (tmp_path / device).touch()
    assert hardware.has_tpu(tmp_path) == expected
