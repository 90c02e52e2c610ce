"""What the soak is made of: for each part a function that returns counts by kind. Another part is another line here."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.faults import clocks
from tests.faults.bad_images import decode_everything
from tests.faults.corruption import ARTEFACTS, damage_everywhere
from tests.faults.counts import Counts
from tests.faults.crash_points import kill_everywhere
from tests.faults.failing_calls import fail_everywhere
from tests.faults.mutants import CATCHES, MUTANTS, mutated
from tests.faults.power_loss import lose_power_everywhere
from tests.faults.soak import publication, publication_mutants, transfers
from tests.faults.writers import BY_NAME, WRITERS

ROOT = Path(__file__).parents[3]
_SEEDS = 12  # of each broken protocol
_LIGHT, _HEAVY = 3, 3  # stages of each kind in tests/faults/kills.py


@dataclasses.dataclass(frozen=True)
class Amount:
    """How much is done of what could go on for ever.

    Attributes:
        kills: Of stages, over all of them.
        seed: Decides every instant.
    """

    kills: int
    seed: int


def crash_points(amount: Amount, folder: Path) -> dict[str, Counts]:
    """SIGKILL at every system call of every writer."""
    return {writer.name: kill_everywhere(writer, folder / writer.name) for writer in WRITERS}


def power_loss(amount: Amount, folder: Path) -> dict[str, Counts]:
    """What disks may hold without power after every system call of every writer."""
    return {writer.name: lose_power_everywhere(writer, folder / writer.name) for writer in WRITERS}


def failing_calls(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Every error at every system call of every writer."""
    return {writer.name: fail_everywhere(writer, folder / writer.name) for writer in WRITERS}


def corruption(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Every byte of every kind of artefact that is guarded."""
    return {kind: damage_everywhere(kind, folder / kind) for kind in ARTEFACTS}


def bad_images(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Image files of every kind, whole and damaged, and decoders that crash."""
    return decode_everything(folder)


def kills(amount: Amount, folder: Path) -> dict[str, Counts]:
    """SIGKILL at seeded instants of real stages; two of five kills are of trainings."""
    trainings = amount.kills * 2 // 5
    heavy = (amount.kills - trainings) // 4 // _HEAVY
    light = -(-(amount.kills - trainings - heavy * _HEAVY) // _LIGHT)
    return _stages("kills", amount, trainings=trainings, light=light, heavy=heavy)


def zombies(amount: Amount, folder: Path) -> dict[str, Counts]:
    """A process that wakes late beside its retry."""
    return _stages("zombies", amount, zombies=max(1, amount.kills // 20))


def pods(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Trainings ended as Kubeflow ends a Pod."""
    return _stages("pods", amount, pods=max(1, amount.kills // 20))


def transfers_disturbed(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Every network fault at every request of artefacts and checkpoints on their way to a bucket."""
    return transfers.exhaust(folder)


def publications_disturbed(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Every network fault, and death, at every request of a publication to a bucket."""
    return publication.exhaust(folder)


def publications_beside_each_other(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Retries, zombies and races of publications, at seeded instants, each looked at after every write."""
    return publication.soak(folder, max(1, amount.kills // 2), amount.seed)


def wrong_clocks(amount: Amount, folder: Path) -> dict[str, Counts]:
    """Stages under clocks that are wrong by a day, or jump; nothing where libfaketime is not installed."""
    faketime = clocks.library()
    return {"stages": clocks.run_under_wrong_clocks(faketime)} if faketime else {}


PARTS: dict[str, Callable[[Amount, Path], dict[str, Counts]]] = {
    "killed at every system call": crash_points,
    "power lost after every system call": power_loss,
    "every system call failing": failing_calls,
    "every byte damaged": corruption,
    "bad images": bad_images,
    "stages killed": kills,
    "processes that wake late": zombies,
    "Pods ended by Kubeflow": pods,
    "network faults of transfers": transfers_disturbed,
    "network faults of publications": publications_disturbed,
    "publications beside each other": publications_beside_each_other,
    "wrong clocks": wrong_clocks,
}


def mutants(folder: Path) -> dict[str, Counts]:
    """Broken variants under the same faults; here each violation is a catch."""
    found = {}
    for mutant in MUTANTS:
        cases = [
            suite(mutated(BY_NAME[name], mutant), folder / mutant / str(number))
            for number, (suite, name) in enumerate(CATCHES[mutant])
        ]
        found[mutant] = _added(cases)
    with publication.bench(folder / "publications") as bench:
        for name in publication_mutants.MUTANTS:
            caught = publication_mutants.caught(bench, name, range(_SEEDS))
            found[f"publication: {name}"] = Counts(_SEEDS, _SEEDS, [f"{name}: noticed"] * caught)
    return found


def _added(counts: Iterable[Counts]) -> Counts:
    total = Counts()
    for each in counts:
        total.tried += each.tried
        total.fired += each.fired
        total.violations += each.violations
    return total


def _stages(part: str, amount: Amount, **often: int) -> dict[str, Counts]:
    """What a process of `tests.faults` counts."""
    words = [f"--{name}={count}" for name, count in often.items()]
    command = [sys.executable, "-m", "tests.faults", f"--seed={amount.seed}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return {kind: Counts(**found) for kind, found in json.loads(done.stdout.splitlines()[-1])[part].items()}
