"""Contenders take turns: each is a process that trains so many steps on request, and reports how long that took.

A process each, because two thread pools in one would wait for each other's threads; turns of about a second, because
the speed of a shared machine drifts. Standard library only: PyTorch's contender runs in an environment of its own.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

# Before each line of the protocol, so that other output of libraries is skipped.
_MARK = "bench: "


@dataclass(frozen=True)
class Turn:
    """What one turn took: seconds on the clock, and of processor time over all threads, both per step."""

    seconds: float
    cpu_seconds: float


class Contender:
    """A contender's process, as the benchmark sees it; its command does what `serve` does, stderr goes to the log."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self._log = name, log
        self.turns: list[Turn] = []  # what it took, round by round
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._input, self._output = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        self.facts = self._read()  # what it said of itself when it was ready
        self._steps = 1

    def settle(self, seconds: float) -> None:
        """Choose how many steps make a turn of so many seconds."""
        self._train(2)
        self._steps = max(1, round(seconds / self._train(2).seconds))

    def take_turn(self) -> None:
        """Train for a turn and keep what it took."""
        self.turns.append(self._train(self._steps))

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait(timeout=60)

    def _train(self, steps: int) -> Turn:
        self._input.write(f"{steps}\n")
        self._input.flush()
        took = self._read()
        return Turn(took["seconds"] / steps, took["cpu_seconds"] / steps)

    def _read(self) -> dict[str, Any]:
        for line in self._output:
            if line.startswith(_MARK):
                found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
                return found
        raise RuntimeError(f"{self.name} ended with exit code {self._process.wait()}; see {self._log}")


def run_rounds(contenders: list[Contender], rounds: int, seconds: float) -> None:
    """Give each contender a turn in each round, every other round in reverse."""
    for contender in contenders:
        contender.settle(seconds)
    for index in range(rounds):
        for contender in contenders if index % 2 == 0 else reversed(contenders):
            contender.take_turn()


def median_seconds(contender: Contender) -> float:
    """Seconds a step, the median over the rounds."""
    return statistics.median(turn.seconds for turn in contender.turns)


def median_ratio(contender: Contender, other: Contender) -> float:
    """How many times the speed of another contender, in steps: the median over the rounds of each round's ratio."""
    pairs = zip(contender.turns, other.turns, strict=True)
    return statistics.median(theirs.seconds / own.seconds for own, theirs in pairs)


def wait_for_turns() -> Iterator[int]:
    """In a contender's process: yields the steps of each turn; times from then until it is asked for the next."""
    for line in sys.stdin:
        started, cpu_started = time.perf_counter(), time.process_time()
        yield int(line)
        say({"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu_started})


def serve(train: Callable[[int], None], facts: dict[str, Any]) -> None:
    """In a contender's process: say that it is ready, then train for so many generator updates until its input ends."""
    say(facts)
    for steps in wait_for_turns():
        train(steps)


def say(message: dict[str, Any]) -> None:
    """In a contender's process: a line to the benchmark."""
    print(_MARK + json.dumps(message), flush=True)
