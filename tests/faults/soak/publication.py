"""Publications to a registry in a bucket that die, wake late and race; the guarantees are watched throughout.

`soak` and `exhaust` count deaths and races, and the violations, which must be none. test_buckets.py exposes every kind
of request to every fault.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from components.core.artifacts import models
from components.core.errors import DataError, Superseded, TransientError
from components.core.registry import registry
from pipeline.registry import upkeep
from tests.fakes.gcs.server import FAULTS, Request, Server, Stored
from tests.faults.candidates import Candidate, Outcome, candidate
from tests.faults.counts import Counts
from tests.faults.soak.served import die_at_every_request, dies, hooked, quick_server

NAME = "runs/registry"
KINDS = ("kill", "abandon", "zombie", "race", "interference")
_TIMES = {"REQUEST_SECONDS": 60.0, "RETRY_SECONDS": 2.0, "FIRST_DELAY_SECONDS": 0.002}


class Observer:
    """Checks a registry in a bucket after every request, on the server itself, and records violations."""

    def __init__(self, server: Server, location: str) -> None:
        self.violations: list[str] = []
        self.going_back = False  # whether a version may follow a higher one, because a user rolls back
        self.tampered = False  # whether objects are deleted meanwhile; then only the champion must be whole
        self._server, self._location = server, location
        self._lock = threading.Lock()
        self._last: dict[str, Any] = {"version": 0, "revision": 0}
        self._written: dict[str, bytes] = {}

    def __call__(self, request: Request) -> None:
        if request.method != "GET":
            with self._lock:
                self.violations += self._seen()

    def _seen(self) -> list[str]:
        objects = contents(self._server, self._location)
        problems: list[str] = []
        pointer = objects.get(registry.CHAMPION)
        for name, content in objects.items():
            if name != registry.CHAMPION and self._written.setdefault(name, content) != content:
                problems.append(f"{name} was written twice")
        for number in {name.split("/")[1] for name in objects if name.startswith("versions/") and not self.tampered}:
            problems += _half(objects, f"versions/{number}")
        if pointer is None:
            return problems
        champion = json.loads(pointer)
        if champion != self._last:
            if champion["revision"] != self._last["revision"] + 1:
                problems.append(f"revision {champion['revision']} after {self._last['revision']}")
            if champion["version"] < self._last["version"] and not self.going_back:
                problems.append(f"champion {champion['version']} after {self._last['version']}")
            self._last = champion
            problems += _incomplete(objects, champion["version"])
        return problems


def contents(server: Server, location: str) -> dict[str, bytes]:
    """Return the contents of a registry in a bucket, by name."""
    objects = server.contents(location.split("/")[2])
    return {name.removeprefix(f"{NAME}/"): objects[name] for name in objects if name.startswith(f"{NAME}/")}


def _half(objects: dict[str, bytes], version: str) -> list[str]:
    """Return a version with a manifest, or the file that TensorFlow Serving looks for, without the rest."""
    needed = ["fingerprint.pb", "variables/variables.index", "variables/variables.data", "assets/a"]
    problems = []
    if f"{version}/saved_model.pb" in objects:
        problems += [f"{version} is servable without {name}" for name in needed if f"{version}/{name}" not in objects]
    if f"{version}/{models.MANIFEST}" in objects:
        needed += ["saved_model.pb", models.CARD, "evaluation/verdict.json", "evaluation/metrics.json"]
        problems += [f"{version} is committed without {name}" for name in needed if f"{version}/{name}" not in objects]
    return problems


def _incomplete(objects: dict[str, bytes], version: int) -> list[str]:
    manifest = objects.get(f"versions/{version}/{models.MANIFEST}")
    if manifest is None:
        return [f"the champion, version {version}, has no manifest"]
    return [
        f"the champion, version {version}, lacks {name}"
        for name, entry in json.loads(manifest)["files"].items()
        if hashlib.sha256(objects.get(f"versions/{version}/{name}", b"")).hexdigest() != entry["sha256"]
    ]


class _Meeting:
    """A barrier for several threads that some may leave."""

    def __init__(self, parties: int) -> None:
        self._missing, self._changed = parties, threading.Condition()

    def arrive(self) -> None:
        """Wait for the others; a thread that comes again does not wait."""
        self.leave()
        with self._changed:
            assert self._changed.wait_for(lambda: self._missing <= 0, _TIMES["REQUEST_SECONDS"] / 2), "nobody comes"

    def leave(self) -> None:
        with self._changed:
            self._missing -= 1
            self._changed.notify_all()


@dataclasses.dataclass(frozen=True)
class Tried:
    fired: bool
    violations: list[str]


class Bench:
    """A server, three candidates, and trials of faults in their publication, each in its own bucket.

    The first is published as version 1; the second and the third were compared with it. Timeouts are short, mirrors are
    in the folder. One bench at a time in a process.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._numbers = itertools.count()
        self._pool = ThreadPoolExecutor(4)
        self.first = candidate(folder / "first", 100)
        self.second = candidate(folder / "second", 200, rival=(self.first.digest, 1))
        self.third = candidate(folder / "third", 300, rival=(self.first.digest, 1))
        self.successor = candidate(folder / "successor", 400, rival=(self.second.digest, 2))
        location = self.fresh()
        self.first.publish(location)
        self._first = dict(server.objects[location.split("/")[2]])
        location = self.started()
        before = len(server.requests)
        self.second.publish(location)
        # Of a publication without faults, and the numbers of those that upload.
        self.requests = len(server.requests) - before
        self.writes = [request.number - before for request in server.writes(before)]
        self.published_second = self.contents(location)
        self._files = {self.second.digest: _files(self.published_second, 2)}
        location = self.started()
        self.third.publish(location)
        self._files[self.third.digest] = _files(self.contents(location), 2)

    def contents(self, location: str) -> dict[str, bytes]:
        return contents(self.server, location)

    def fresh(self) -> str:
        """Return an empty registry; drop faults that an earlier trial did not reach."""
        self.server.disarm()
        bucket = f"bucket-{next(self._numbers)}"
        self.server.create_bucket(bucket)
        return f"gs://{bucket}/{NAME}"

    def started(self) -> str:
        """Return a registry in which the first is version 1."""
        location = self.fresh()
        self.server.objects[location.split("/")[2]].update(self._first)
        return location

    @contextlib.contextmanager
    def _watched(self, location: str) -> Iterator[Observer]:
        self.server.after = observer = Observer(self.server, location)
        try:
            yield observer
        finally:
            self.server.before = self.server.after = None

    def kill(self, at: int, acted: bool) -> Tried:
        """Let a publication die at a request, before or after it is executed; a retry must finish."""
        location = self.started()
        with self._watched(location) as observer:
            killed = dies(self.server, at, acted, self.second.publish, location)
            return Tried(killed, [*self._not_published(location, self.second.outcome(location)), *observer.violations])

    def abandon(self, at: int, acted: bool) -> Tried:
        """Let a publication die at a request, and another publish before its retry; they must end as if by one."""
        location = self.started()
        with self._watched(location) as observer:
            killed = dies(self.server, at, acted, self.second.publish, location)
            was_champion = registry.read_pointer(location).champion
            other = self.third.outcome(location)
            again = self.second.outcome(location)
            problems = []
            if was_champion.version == 2:  # it was killed when everything was done
                if not _lost(other) or again != 2:
                    problems.append(f"after the champion, another ended with {other!r}, the same with {again!r}")
            else:
                problems += self._not_as_by_one(location, [self.third, self.second], [other, again])
                if not isinstance(other, int):
                    problems.append(f"what died stops another publication: {other!r}")
            return Tried(killed, [*observer.violations, *problems])

    def zombie(self, at: int, acted: bool, then: str) -> Tried:
        """Pause an attempt at a request, and wake it after its retry and then a "successor" or a "rollback"."""
        location, count = self.started(), itertools.count()
        asleep, awake = threading.Event(), threading.Event()

        def pause(request: Request) -> None:
            if next(count) == at:
                asleep.set()
                awake.wait(_TIMES["REQUEST_SECONDS"] / 2)

        with self._watched(location) as observer, hooked(self.server, acted, pause):
            observer.going_back = then == "rollback"
            zombie = self._pool.submit(self.second.outcome, location)
            while not asleep.wait(0.01) and not zombie.done():
                pass
            problems = self._not_published(location, self.second.outcome(location))
            if then == "successor":
                self.successor.publish(location)
            elif then == "rollback":
                upkeep.rollback(location)
            settled = self.contents(location)
            awake.set()
            outcome = zombie.result()
            if self.contents(location) != settled:
                problems.append(f"the zombie changed something and ended with {outcome!r}")
            if outcome != 2 and not isinstance(outcome, Superseded):
                problems.append(f"the zombie ended with {outcome!r}")
            return Tried(asleep.is_set(), [*observer.violations, *problems])

    def race(self, seed: int) -> Tried:
        """Run two attempts at one publication and one at another at once, with faults and delays."""
        chance = random.Random(seed)
        location, fired = self.started(), len(self.server.fired)
        delays = [chance.choice((0.0, 0.0, 0.002, 0.01)) for _ in range(1000)]

        publishers = [self.second, self.second, self.third]
        meeting = _Meeting(len(publishers))

        def delay(request: Request) -> None:
            time.sleep(delays[request.number % len(delays)])
            if b"/claims/" in request.body:
                meeting.arrive()

        with self._watched(location) as observer:
            self.server.before = delay
            for _ in range(5):
                kind = chance.choice([kind for kind in FAULTS if kind != "stall"])
                self.server.inject(kind, at=chance.randrange(3 * self.requests))
            barrier = threading.Barrier(len(publishers))

            def run(publisher: Candidate) -> Outcome:
                barrier.wait()
                try:
                    outcome = publisher.outcome(location)
                    return publisher.outcome(location) if isinstance(outcome, TransientError) else outcome
                finally:
                    meeting.leave()

            outcomes = list(self._pool.map(run, publishers))
            problems = self._not_as_by_one(location, publishers, outcomes)
            return Tried(len(self.server.fired) > fired, [*observer.violations, *problems])

    def interference(self, at: int, name: str) -> Tried:
        """Delete an object of the version at one request: the version must never become champion."""
        location, count = self.started(), itertools.count()
        done: list[Stored] = []
        bucket = self.server.objects[location.split("/")[2]]

        def meddle(request: Request) -> None:
            uncommitted = f"{NAME}/versions/2/{name}" in bucket and f"{NAME}/versions/2/{models.MANIFEST}" not in bucket
            if next(count) >= at and not done and uncommitted:
                done.append(bucket.pop(f"{NAME}/versions/2/{name}"))

        with self._watched(location) as observer:
            observer.tampered, self.server.before = True, meddle
            outcome = self.second.outcome(location)
            self.server.before = None
            problems = [] if not isinstance(outcome, int) or not done else self._not_published(location, outcome)
            if isinstance(outcome, TransientError):
                problems += self._not_published(location, self.second.outcome(location))
            return Tried(bool(done), [*observer.violations, *problems])

    def _not_published(self, location: str, outcome: Outcome) -> list[str]:
        """Return the differences from an undisturbed publication of the second candidate."""
        if outcome != 2:
            return [f"the publication ended with {outcome!r}"]
        if self.contents(location) != self.published_second:
            return [f"what is there is not what a publication alone leaves: {sorted(self.contents(location))}"]
        return []

    def _not_as_by_one(self, location: str, publishers: list[Candidate], outcomes: list[Outcome]) -> list[str]:
        """Return the differences from a publication by the winner alone."""
        objects = self.contents(location)
        champion = json.loads(objects[registry.CHAMPION])
        problems = []
        for publisher, outcome in zip(publishers, outcomes, strict=True):
            won = publisher.digest == champion["model_digest"]
            if won and outcome != champion["version"]:
                problems.append(f"the winner ended with {outcome!r}")
            if not won and not _lost(outcome):
                problems.append(f"the loser ended with {outcome!r}")
        if champion["revision"] != 2 or champion["model_digest"] not in self._files:
            problems.append(f"the champion is {champion}")
        elif _files(objects, champion["version"]) != self._files[champion["model_digest"]]:
            problems.append("the champion is not what a publication alone leaves")
        claims = [content for name, content in objects.items() if name.startswith("claims/")]
        if len(claims) != len(set(claims)) or len(claims) > 3:
            problems.append("a version was claimed twice")
        return problems

    def trial(self, kind: str, chance: random.Random) -> Tried:
        at, acted = chance.randrange(self.requests), chance.random() < 0.5
        name = chance.choice(("saved_model.pb", "variables/variables.index", models.CARD))
        trials: dict[str, Callable[[], Tried]] = {
            "kill": lambda: self.kill(at, acted),
            "abandon": lambda: self.abandon(at, acted),
            "zombie": lambda: self.zombie(at, acted, chance.choice(("retry", "successor", "rollback"))),
            "race": lambda: self.race(chance.randrange(1 << 32)),
            "interference": lambda: self.interference(at, name),
        }
        return trials[kind]()


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    with quick_server(folder, **_TIMES) as server:
        yield Bench(server, folder)


def soak(folder: Path, times: int, seed: int) -> dict[str, Counts]:
    """Run so many seeded trials of each of KINDS, and count them by kind."""
    chance = random.Random(seed)
    with bench(folder) as workbench:
        return {kind: _counted(workbench.trial(kind, chance) for _ in range(times)) for kind in KINDS}


def _lost(outcome: Outcome) -> bool:
    """Return whether a failure says that another became champion, at the end or at the beginning."""
    return isinstance(outcome, Superseded) or (isinstance(outcome, DataError) and "evaluate it again" in str(outcome))


def exhaust(folder: Path) -> dict[str, Counts]:
    tried: list[Tried] = []

    def trial(at: int, acted: bool) -> bool:
        tried.append(workbench.kill(at, acted))
        return tried[-1].fired

    with bench(folder) as workbench:
        die_at_every_request(trial)
    return {"kill": _counted(killed for killed in tried if killed.fired)}


def _counted(trials: Iterable[Tried]) -> Counts:
    counts = Counts()
    for trial in trials:
        counts.add(trial.fired, "; ".join(trial.violations))
    return counts


def _files(objects: dict[str, bytes], version: int) -> dict[str, bytes]:
    prefix = f"versions/{version}/"
    return {name.removeprefix(prefix): content for name, content in objects.items() if name.startswith(prefix)}
