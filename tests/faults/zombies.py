"""Two processes of one stage at once: the first is stopped, its retry runs beside it, and then it wakes.

The end is that of a single run, and nothing moves back.
"""

import logging
import os
import random
import shutil
import signal
import time
from pathlib import Path

from components.core.registry import registry
from tests.faults.counts import Counts
from tests.faults.kills import Stage, content, differences, ended
from tests.faults.writers import make_evaluation, make_model, prepare_first_version, publish_config

_PATIENCE_SECONDS = 120


def wake_late(stages: list[Stage], trials: int, chance: random.Random, folder: Path) -> dict[str, Counts]:
    """Stops a first process at any time of its life, and wakes it when its retry has ended, or waits for it.

    Args:
        stages: Each with the setting `OUTPUT` for where its result goes.
        trials: For each.
        chance: Says when.
        folder: An empty folder to work in.

    Returns:
        By stage; a first process that had ended before it was to be stopped is tried and not fired.
    """
    counts = {stage.name: Counts() for stage in stages}
    for stage in stages:
        reference, count = folder / stage.name / "reference", counts[stage.name]
        seconds = stage.into(reference).run(folder / "log")
        wanted = content(reference)
        while count.fired < trials:
            assert count.tried < 20 * trials, f"{stage.name} ends before it is stopped"
            place = folder / stage.name / str(count.tried)
            zombie, fired = _stopped(stage.into(place), folder / "first", chance.uniform(0, seconds))
            retry = stage.into(place).start(folder / "second")
            codes = [_wait(retry, folder / "second")]
            if fired:
                os.kill(zombie, signal.SIGCONT)
                codes.append(_wait(zombie))
            codes[0] = _wait(retry) if codes[0] is None else codes[0]
            wrong = differences(content(place), wanted)
            problem = f"other bytes in {wrong}" if wrong else ""
            if any(codes):
                problem = f"ended with {codes}: {(folder / 'first').read_text()}{(folder / 'second').read_text()}"
            count.add(fired, f"{stage.name} {count.tried}: {problem}" if problem else "")
    return counts


def publish_late(publish: Stage, trials: int, chance: random.Random, folder: Path) -> Counts:
    """A publication is stopped, its retry and then the next version are published, and it wakes: nothing moves back.

    Args:
        publish: The stage, without settings.
        trials: How often.
        chance: Says when it is stopped.
        folder: An empty folder to work in.
    """
    counts = Counts()
    prepare_first_version(folder)
    make_model(folder / "2", 2)
    first, second = (_publication(publish, folder, number) for number in (1, 2))
    seconds = first.run(folder / "log")
    champion = registry.read_champion(folder / "registry")
    assert champion
    make_evaluation(folder / "2" / "evaluation", folder / "2" / "model", (champion.model_digest, 1))
    while counts.fired < trials:
        assert counts.tried < 50 * trials, "it ends before it is stopped"
        shutil.rmtree(folder / "registry")
        zombie, alive = _stopped(first, folder / "first", chance.uniform(0, seconds))
        retry = first.start(folder / "second")
        # Where the one that is stopped holds the registry, its retry waits, and nothing can be published meanwhile.
        done = _wait(retry, folder / "second")
        fired = alive and done == 0
        problem = ""
        if fired:
            second.run(folder / "log")
        if alive:
            os.kill(zombie, signal.SIGCONT)
            _wait(zombie)
        if done is None:
            _wait(retry)
        if fired:
            logging.disable(logging.CRITICAL)
            found = registry.read_champion(folder / "registry")
            logging.disable(logging.NOTSET)
            if found is None or found.version != 2 or registry.versions(folder / "registry") != [1, 2]:
                problem = f"publication {counts.tried}: the champion is {found}"
        counts.add(fired, problem)
    return counts


def _publication(publish: Stage, folder: Path, number: int) -> Stage:
    given = publish_config(folder, number)
    settings = {name: getattr(given, name) for name in ("model", "evaluation", "registry")}
    return Stage(publish.name, publish.config, settings)


def _stopped(stage: Stage, log: Path, seconds: float) -> tuple[int, bool]:
    """A process that is stopped after some time, and whether it was still there."""
    pid = stage.start(log)
    time.sleep(seconds)
    if ended(pid) is not None:
        return pid, False
    os.kill(pid, signal.SIGSTOP)
    return pid, True


def _wait(pid: int, log: Path | None = None) -> int | None:
    """How a process ended; None if it says in its log that it waits for another."""
    began = time.monotonic()
    while (code := ended(pid)) is None:
        if log is not None and "waiting for it" in log.read_text():
            return None
        assert time.monotonic() - began < _PATIENCE_SECONDS, f"process {pid} hangs"
        time.sleep(0.005)
    return code
