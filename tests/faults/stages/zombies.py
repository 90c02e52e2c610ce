"""Two processes of one stage at once: the first is stopped, its retry runs beside it, and then it wakes.

The end is that of a single run, and nothing moves back.
"""

import os
import random
import signal
from pathlib import Path

from components.core import errors
from tests.faults import forks
from tests.faults.counts import Counts
from tests.faults.stages.kills import Reference, Stage


def wake_late(trials: int, chance: random.Random, folder: Path, stage: Stage, *later: Stage) -> Counts:
    """Stop a process at any time of its life, and wake it when its retry and the later stages have ended.

    It wakes at once if its retry waits for it, and then no later stage has run. A process that had ended before it was
    to be stopped, or that later stages would have to wait for, is tried and not fired.
    """
    counts, reference = Counts(), Reference(folder, stage, *later)
    logs = folder / "first", folder / "second"
    # Who wakes after a later version became champion may say so.
    allowed = {errors.OK, errors.SUPERSEDED} if later else {errors.OK}
    while counts.fired < trials:
        place = reference.place()
        zombie = stage.into(place).start(logs[0])
        code = forks.wait_until(zombie, forks.passed(chance.uniform(0, reference.seconds)))
        if code is None:
            os.kill(zombie, signal.SIGSTOP)
        retry = stage.into(place).start(logs[1])
        ended = forks.wait_until(retry, lambda: "waiting for it" in logs[1].read_text())
        fired = code is None and (not later or ended is not None)
        if fired:
            _run(later, place, reference.log)
        codes = []
        if code is None:
            os.kill(zombie, signal.SIGCONT)
            codes.append(forks.wait(zombie))
        codes.append(forks.wait(retry) if ended is None else ended)
        if not fired:
            _run(later, place, reference.log)
        said = "".join(log.read_text() for log in logs)
        counts.add(fired, reference.problem(place) if {*codes} <= allowed else f"{place}: ended with {codes}: {said}")
    return counts


def _run(stages: tuple[Stage, ...], place: Path, log: Path) -> None:
    for stage in stages:
        stage.into(place).run(log)
