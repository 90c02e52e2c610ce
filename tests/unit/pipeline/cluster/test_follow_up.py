"""The commands that `wgan` prints about a run work as printed, wherever they are pasted."""

import functools
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
from pipeline.cluster import waiting
from pipeline.cluster.vertex import runs as vertex_runs
from tests.fakes.kubeflow.server import serving
from tests.unit.pipeline.cluster import conftest, worlds
from tests.unit.pipeline.cluster.conftest import on
from tests.unit.pipeline.cluster.worlds import CHANGES_A_RUN, READS_A_RUN, World
from tests.unit.pipeline.conftest import Ended
from tests.unit.pipeline.conftest import ended as wgan

pytestmark = pytest.mark.usefixtures("bare_desk")
Submit = Callable[..., Ended]


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
def submit(guarded: World, packages: Path) -> Submit:
    return functools.partial(conftest.submit, guarded, packages / f"{guarded.target}.yaml")


def run_printed(ended: Ended) -> Ended:
    """Run the one command that the log shows."""
    (command,) = re.findall("`wgan ([^`]+)`", "\n".join(ended.log))
    return wgan(*shlex.split(command))


def test_after_an_interrupt_it_cancels(guarded: World, submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: signal.raise_signal(signal.SIGINT))
        waited = submit("--wait")
    assert waited.code == errors.INTERRUPTED
    assert '"state": "PENDING' in on(guarded, "status", *guarded.run_ids(), "--json").out
    assert run_printed(waited).code == errors.OK
    assert '"state": "CANCELING' in on(guarded, "status", *guarded.run_ids(), "--json").out


@pytest.mark.parametrize("verb", ["submit", "cancel", "retry"])
@pytest.mark.parametrize("acted", [False, True])
def test_after_a_lost_answer_it_shows_what_happened(
    guarded: World, submit: Submit, verb: str, acted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From that request on the server is away; `acted` says whether it executed it."""
    monkeypatch.setattr(vertex_runs, "_WAITS", (0.0,))
    if verb != "submit":
        submit()
        guarded.set_run(guarded.run_ids()[0], "FAILED" if verb == "retry" else "RUNNING")
    guarded.lose(CHANGES_A_RUN, acted)
    ended = submit("--run-name", "mine") if verb == "submit" else on(guarded, verb, guarded.run_ids()[0])
    assert ended.code == errors.TRANSIENT
    guarded.server.before = guarded.server.after = None
    code, shown, *_ = run_printed(ended)
    if guarded.target == "vertex" and verb != "cancel":  # by the id of the new run
        assert (code, "\n" in shown) == ((errors.OK, True) if acted else (errors.BAD_CONFIGURATION, False))
    elif verb == "submit":
        assert (code, "mine" in shown) == (errors.OK, acted)
    else:
        states = {"cancel": ("running", "canceling"), "retry": ("failed", "running")}[verb]
        assert (code, shown.split("  ")[1]) == (errors.OK, states[acted])


def test_after_an_interrupted_submission_it_shows_the_run(guarded: World, submit: Submit) -> None:
    def interrupt(*request: Any) -> None:
        if worlds.matches(CHANGES_A_RUN, *request):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            guarded.hang_up()

    guarded.server.after = interrupt
    ended = submit("--run-name", "mine")
    assert ended.code == errors.INTERRUPTED
    guarded.server.after = None
    assert "mine" in run_printed(ended).out


@pytest.mark.parametrize("away", [False, True])
def test_after_giving_up_it_waits_again(
    guarded: World, submit: Submit, away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "PATIENCE_SECONDS", 0.0)
        if away:
            guarded.lose(READS_A_RUN)
        ended = submit("--wait", "--timeout", "0.05")
    assert ended.code == (errors.TRANSIENT if away else waiting.TIMED_OUT)
    guarded.play(("SUCCEEDED", {}))
    assert run_printed(ended).code == errors.OK
