"""How Kubeflow ends a Pod: SIGTERM to all processes, at which the launcher dies, and SIGKILL half a second later.

The emissary is process 1 of its own namespace. It forwards SIGTERM to the group of its child, Kubeflow's launcher,
which handles no signals and dies; the emissary notices at its next check and ends, and with it the kernel kills
everything left: the stage. Components of Kubeflow are modeled by forks of this process, the stage is real.
"""

import ctypes
import os
import random
import signal
import time
from pathlib import Path

from tests.faults import forks
from tests.faults.counts import Counts
from tests.faults.stages.kills import Reference, Stage

_NEW_USER, _NEW_PROCESSES = 0x10000000, 0x20000000  # CLONE_NEWUSER, CLONE_NEWPID
_SECONDS_LEFT = 0.5
_NO_NAMESPACE, _ENDED_SO = 3, 4  # exit codes of the emissary's parent
_NOWHERE = Path(os.devnull)


def end_trainings(training: Stage, trials: int, chance: random.Random, folder: Path) -> Counts | None:
    """End trainings as Kubeflow does, and run each again to its end; None where no process namespace can be made."""
    counts, reference = Counts(), Reference(folder, training)
    while counts.fired < trials:
        location = reference.location()
        seconds = chance.uniform(0, reference.seconds)
        code = forks.wait(forks.start(lambda: _pod(training.into(location), reference.log, seconds), _NOWHERE))  # noqa: B023
        if code == _NO_NAMESPACE:
            return None
        training.into(location).run(reference.log)
        counts.add(code == _ENDED_SO, reference.problem(location))
    return counts


def _pod(stage: Stage, log: Path, seconds: float) -> int:
    """Run a stage as in a Pod and end the Pod after so many seconds; return how it ended."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_PROCESSES) and libc.unshare(_NEW_USER | _NEW_PROCESSES):
        return _NO_NAMESPACE
    return forks.strike(
        forks.start(lambda: _emissary(stage, log), _NOWHERE), forks.passed(seconds), number=signal.SIGTERM
    )


def _emissary(stage: Stage, log: Path) -> int:
    launcher = forks.start(lambda: _launcher(stage, log), _NOWHERE)
    logged = []

    def hand_on(number: int, frame: object) -> None:
        logged.append(number)
        os.killpg(launcher, number)

    signal.signal(signal.SIGTERM, hand_on)
    forks.wait(launcher)
    if logged:
        time.sleep(_SECONDS_LEFT)  # then everything left is killed, because process 1 is gone
    return _ENDED_SO if logged else 0


def _launcher(stage: Stage, log: Path) -> int:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return forks.wait(stage.start(log))
