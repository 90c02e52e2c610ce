"""Contenders take turns: each is a process that trains some steps on request and reports the time.

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
    """The cost of one turn per step: seconds by the clock, and processor seconds over all threads."""

    seconds: float
    cpu_seconds: float


class Contender:
    """A contender's process, seen from the benchmark; its command calls `serve`, and stderr goes to the log."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self._log = name, log
        self.turns: list[Turn] = []  # the cost of each round
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._input, self._output = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        self.facts = self._read()  # what it reported when it was ready
        self._steps = 1

    def settle(self, seconds: float) -> None:
        """Choose the number of steps for a turn of `seconds` seconds."""
        self._train(2)
        self._steps = max(1, round(seconds / self._train(2).seconds))

    def take_turn(self) -> None:
        """Train for a turn and record its cost."""
        self.turns.append(self._train(self._steps))

    def close(self) -> None:
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
                message: dict[str, Any] = json.loads(line.removeprefix(_MARK))
                return message
        raise RuntimeError(f"{self.name} ended with exit code {self._process.wait()}; see {self._log}")


def run_rounds(contenders: list[Contender], rounds: int, seconds: float) -> None:
    """Give each contender a turn in each round, every other round in reverse."""
    for contender in contenders:
        contender.settle(seconds)
    for index in range(rounds):
        for contender in contenders if index % 2 == 0 else reversed(contenders):
            contender.take_turn()


def median_seconds(contender: Contender) -> float:
    """Return the seconds per step, the median over the rounds."""
    return statistics.median(turn.seconds for turn in contender.turns)


def median_ratio(contender: Contender, other: Contender) -> float:
    """Return the speed in multiples of another contender's, in steps: the median of each round's ratio."""
    pairs = zip(contender.turns, other.turns, strict=True)
    return statistics.median(theirs.seconds / own.seconds for own, theirs in pairs)


def wait_for_turns() -> Iterator[int]:
    """In a contender's process: yield the steps of each turn, and time the caller until it asks for the next."""
    for line in sys.stdin:
        started, cpu_started = time.perf_counter(), time.process_time()
        yield int(line)
        say({"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu_started})


def serve(train: Callable[[int], None], facts: dict[str, Any]) -> None:
    """In a contender's process: report that it is ready, then train for each requested turn until its input ends."""
    say(facts)
    for steps in wait_for_turns():
        train(steps)


def say(message: dict[str, Any]) -> None:
    """In a contender's process: send a line to the benchmark."""
    print(_MARK + json.dumps(message), flush=True)
