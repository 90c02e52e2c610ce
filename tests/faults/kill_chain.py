"""How Kubeflow ends a Pod: SIGTERM to all, of whom the launcher dies at once, and SIGKILL half a second later.

The emissary is process 1 of a namespace of its own. It hands SIGTERM on to the group of its child, Kubeflow's launcher,
which knows no signals and dies; the emissary sees that at its next look and ends, and with it the kernel kills all that
is left: the stage. Components of Kubeflow are modelled by forks of this process, the stage is real.
"""

import ctypes
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.counts import Counts
from tests.faults.kills import Stage, content, differences

_NEW_USER, _NEW_PROCESSES = 0x10000000, 0x20000000  # CLONE_NEWUSER, CLONE_NEWPID
_SECONDS_LEFT = 0.5
_NO_NAMESPACE, _ENDED_SO = 3, 4  # how the emissary's parent ends
_PATIENCE_SECONDS = 120


def end_trainings(training: Stage, trials: int, chance: random.Random, folder: Path) -> Counts | None:
    """Ends trainings as Kubeflow does, at any time of their life; each is then run again until it is done.

    Args:
        training: With the setting `OUTPUT` for where it goes.
        trials: How many.
        chance: Says when.
        folder: An empty folder to work in.

    Returns:
        Those that had ended before are tried and not fired; None where no process namespace can be made.
    """
    counts, log = Counts(), folder / "log"
    seconds = training.into(folder / "reference").run(log)
    wanted = content(folder / "reference")
    while counts.fired < trials:
        assert counts.tried < 20 * trials, "trainings end before they are told to"
        place = folder / str(counts.tried)
        began, after = time.monotonic(), chance.uniform(0, seconds)
        code = _in_a_pod(training.into(place), log, lambda: time.monotonic() - began > after)  # noqa: B023
        if code == _NO_NAMESPACE:
            return None
        training.into(place).run(log)
        wrong = differences(content(place), wanted)
        counts.add(code == _ENDED_SO, f"training {counts.tried}: other bytes in {wrong}" if wrong else "")
    return counts


def _in_a_pod(stage: Stage, log: Path, due: Callable[[], bool]) -> int:
    """Runs a stage as a Pod's and ends the Pod when it is due; tells how it ended."""
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None)
        if libc.unshare(_NEW_PROCESSES) and libc.unshare(_NEW_USER | _NEW_PROCESSES):
            os._exit(_NO_NAMESPACE)
        emissary = os.fork()
        if emissary == 0:
            os._exit(_emissary(stage, log))
        while not due():
            if os.waitpid(emissary, os.WNOHANG)[0]:
                os._exit(0)
            time.sleep(0.001)
        os.kill(emissary, signal.SIGTERM)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(emissary, 0)[1]))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _emissary(stage: Stage, log: Path) -> int:
    launcher = os.fork()
    if launcher == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(stage.start(log), 0)[1]))
    told = []

    def hand_on(number: int, frame: object) -> None:
        told.append(number)
        os.killpg(launcher, number)

    signal.signal(signal.SIGTERM, hand_on)
    while not os.waitpid(launcher, os.WNOHANG)[0]:
        time.sleep(0.01)
    if told:
        time.sleep(_SECONDS_LEFT)  # and then all that is left is killed, as process 1 is gone
    return _ENDED_SO if told else 0
