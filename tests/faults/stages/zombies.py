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

    It wakes earlier if one of them waits for it. A trial did not fire if the process had ended before, or woke before
    the last of the later stages had ended.
    """
    counts, reference = Counts(), Reference(folder, stage, *later)
    log = folder / "first"
    # A process that wakes after a later version became champion may say so.
    allowed = {errors.OK, errors.SUPERSEDED} if later else {errors.OK}
    while counts.fired < trials:
        location = reference.location()
        zombie = stage.into(location).start(log)
        code = forks.wait_until(zombie, forks.passed(chance.uniform(0, reference.seconds)))
        asleep = stopped = code is None
        if stopped:
            os.kill(zombie, signal.SIGSTOP)
        logs, codes = "", [] if code is None else [code]
        for beside in (stage, *later):
            process = beside.into(location).start(reference.log)
            code = forks.wait_until(process, lambda: "waiting for it" in reference.log.read_text())
            if code is None:
                asleep = False
                codes.append(_woken(zombie))
                code = forks.wait(process)
            codes.append(code)
            logs += reference.log.read_text()
        if asleep:
            codes.append(_woken(zombie))
        wrong = "" if {*codes} <= allowed else f"{location}: ended with {codes}: {log.read_text()}{logs}"
        counts.add(asleep or (stopped and not later), wrong or reference.problem(location))
    return counts


def _woken(zombie: int) -> int:
    os.kill(zombie, signal.SIGCONT)
    return forks.wait(zombie)
