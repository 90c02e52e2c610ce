"""The parts of the soak: functions that return counts by kind. Another part is another line here."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults.counts import Counts
from tests.faults.damage.bad_images import decode_everything
from tests.faults.damage.corruption import ARTIFACTS, damage_everywhere
from tests.faults.disk.every_call import fail_everywhere, kill_everywhere
from tests.faults.disk.power_loss import lose_power_everywhere
from tests.faults.disk.writers import WRITERS, Writer
from tests.faults.soak import publication
from tests.faults.stages import clocks, roots

ROOT = Path(__file__).parents[3]


@dataclasses.dataclass(frozen=True)
class Amount:
    """The size of a soak: kills over all stages, and the seed of every instant."""

    kills: int
    seed: int


def _writers(fault: Callable[[Writer, Path], Counts]) -> Callable[[Amount, Path], dict[str, Counts]]:
    return lambda amount, folder: {writer.name: fault(writer, folder / writer.name) for writer in WRITERS}


def _kills(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Kill real stages at seeded instants; two of five kills are of trainings."""
    trainings, kinds = amount.kills * 2 // 5, 3  # of light and of heavy stages in tests/faults/stages/kills.py
    heavy = (amount.kills - trainings) // 4 // kinds
    light = -(-(amount.kills - trainings - heavy * kinds) // kinds)
    return _stages("kills", amount, trainings=trainings, light=light, heavy=heavy)


def _wrong_clocks(amount: Amount, folder: Path) -> dict[str, Counts]:
    faketime = clocks.library()
    if not faketime:
        return {}
    race = clocks.race_under_wrong_clocks(faketime, folder)
    return {"stages": clocks.run_under_wrong_clocks(faketime), "two machines": race}


PARTS: dict[str, Callable[[Amount, Path], dict[str, Counts]]] = {
    "killed at every system call": _writers(kill_everywhere),
    "power lost after every system call": _writers(lose_power_everywhere),
    "every system call failing": _writers(fail_everywhere),
    "every byte damaged": lambda amount, folder: {kind: damage_everywhere(kind, folder / kind) for kind in ARTIFACTS},
    "bad images": lambda amount, folder: decode_everything(folder),
    "stages killed": _kills,
    "processes that wake late": lambda amount, folder: _stages("zombies", amount, zombies=max(1, amount.kills // 20)),
    "Pods ended by Kubeflow": lambda amount, folder: _stages("pods", amount, pods=max(1, amount.kills // 20)),
    "publications that die at every request": lambda amount, folder: publication.exhaust(folder),
    # Retries, zombies and races, at seeded instants, checked after every write.
    "publications beside each other": lambda amount, folder: publication.soak(
        folder, max(1, amount.kills // 2), amount.seed
    ),
    "roots copied, moved, cleaned and damaged": lambda amount, folder: roots.disturb(
        folder, max(1, amount.kills // 40), amount.seed
    ),
    "wrong clocks": _wrong_clocks,
}


def _stages(part: str, amount: Amount, **often: int) -> dict[str, Counts]:
    words = [f"--{name}={count}" for name, count in often.items()]
    command = [sys.executable, "-m", "tests.faults", f"--seed={amount.seed}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return {kind: Counts(**counts) for kind, counts in json.loads(done.stdout.splitlines()[-1])[part].items()}
