"""The commands that `wgan` prints about a run work as printed, wherever they are pasted."""

import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core import errors
from pipeline.__main__ import main
from pipeline.cluster import waiting
from pipeline.cluster.vertex import runs as vertex_runs
from tests.fakes.kubeflow.server import serving
from tests.unit.pipeline.cluster import worlds
from tests.unit.pipeline.cluster.worlds import CHANGES_A_RUN, READS_A_RUN, World

pytestmark = pytest.mark.usefixtures("bare_desk", "logged")


@pytest.fixture(params=["kfp", "vertex"])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A server of each target that answers nothing unless it gets every flag; files have a space in their names."""
    if request.param == "vertex":
        with worlds.world("vertex") as vertex:
            yield vertex
        return
    with serving(token="my-token", cookie="who=me", multi_user=True) as server:  # noqa: S106
        kubeflow = worlds.Kubeflow(server)
        for name, text in (("token", "my-token"), ("cookie", "who=me")):
            path = tmp_path / f"my {name}"
            path.write_text(text)
            kubeflow.flags += [f"--{name}_file", str(path)]
        kubeflow.flags += ["--namespace", "team-a"]
        yield kubeflow


@pytest.fixture
def submit(guarded: World, packages: Path) -> Callable[..., int]:
    def run(*more: str) -> int:
        words = ["--package", str(packages / f"{guarded.target}.yaml"), "--source", "gs://images"]
        return main(["submit", *words, "--root", "/data/runs", *guarded.pipeline_root, *guarded.flags, *more])

    return run


def printed(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the words after `wgan` of the one command that the log shows, and clear the log."""
    (command,) = re.findall("`wgan ([^`]+)`", caplog.text)
    caplog.clear()
    return shlex.split(command)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_after_an_interrupt_the_command_cancels(
    guarded: World,
    submit: Callable[..., int],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupt)
        assert submit("--wait") == errors.INTERRUPTED
    status = ["status", *guarded.run_ids(), "--json", "--target", guarded.target, *guarded.flags]
    for command, state in ((status, "PENDING"), (printed(caplog), ""), (status, "CANCELING")):
        assert main(command) == errors.OK
        assert f'"state": "{state}' in capsys.readouterr().out or not state


@pytest.mark.parametrize("verb", ["submit", "cancel", "retry"])
@pytest.mark.parametrize("acted", [False, True])
def test_after_a_lost_answer_the_command_shows_what_happened(
    guarded: World,
    submit: Callable[..., int],
    verb: str,
    acted: bool,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From that request on the server is away; `acted` says whether it executed it."""
    monkeypatch.setattr(vertex_runs, "_WAITS", (0.0,))
    words = [] if verb == "submit" else [verb, "--target", guarded.target, *guarded.flags]
    if words:
        submit()
        (run_id,) = guarded.run_ids()
        guarded.set_run(run_id, "FAILED" if verb == "retry" else "RUNNING")
        words.insert(1, run_id)
    guarded.lose(CHANGES_A_RUN, acted)
    assert (main(words) if words else submit("--run_name", "mine")) == errors.TRANSIENT
    guarded.server.before = guarded.server.after = None
    capsys.readouterr()
    code = main(printed(caplog))
    shown = capsys.readouterr().out
    if guarded.target == "vertex" and verb != "cancel":  # by the id of the new run
        assert (code, "\n" in shown) == ((errors.OK, True) if acted else (errors.BAD_CONFIGURATION, False))
    elif verb == "submit":
        assert (code, "mine" in shown) == (errors.OK, acted)
    else:
        states = {"cancel": ("running", "canceling"), "retry": ("failed", "running")}[verb]
        assert (code, shown.split("  ")[1]) == (errors.OK, states[acted])


def test_an_interrupted_submission_names_the_command_that_shows_it(
    guarded: World, submit: Callable[..., int], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*request: Any) -> None:
        if worlds.matches(CHANGES_A_RUN, *request):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            guarded.hang_up()

    guarded.server.after = interrupt
    assert submit("--run_name", "mine") == errors.INTERRUPTED
    guarded.server.after = None
    assert main(printed(caplog)) == errors.OK
    assert "mine" in capsys.readouterr().out


@pytest.mark.parametrize("away", [False, True])
def test_after_giving_up_the_command_waits_again(
    guarded: World,
    submit: Callable[..., int],
    away: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "PATIENCE_SECONDS", 0.0)
        if away:
            guarded.lose(READS_A_RUN)
        assert submit("--wait", "--timeout", "0.05") == (errors.TRANSIENT if away else waiting.TIMED_OUT)
    guarded.play(("SUCCEEDED", {}))
    assert main(printed(caplog)) == errors.OK


def test_after_a_failure_the_command_says_where_the_log_is(
    guarded: World, submit: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    guarded.play(("FAILED", {"decide": ("SUCCEEDED", ""), "train": ("FAILED", "out of memory")}))
    assert submit("--wait") == waiting.FAILED
    if guarded.target == "kfp":  # without a context
        assert "`kubectl logs -n team-a " in caplog.text
    else:
        assert main(printed(caplog)) == errors.BAD_CONFIGURATION
        assert guarded.logs_remedy in caplog.messages[-1]
