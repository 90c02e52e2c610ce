"""What became of the images of a source, gathered from all workers: sums, and no more of each kind than is told."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from components.preprocess.examples import Damaged, Rejected, TakenOver
from components.preprocess.failures import Failure
from components.preprocess.leaks import Leak, first_of_each
from components.preprocess.shards import MOST_SET_ASIDE, ShardFacts

_FAILURES_KEPT = 10
Fact = ShardFacts | Rejected | TakenOver | Damaged | Failure | Leak


@dataclasses.dataclass
class Totals:
    """The facts so far.

    Attributes:
        shards: Of each shard that is written.
        rejected: The first by name, one more than may be at most.
        rejected_count: How many there are.
        taken_over: Images taken over, by earlier shard.
        damaged: Images that could not be, by earlier shard.
        failures: The first, in the order of their values.
        leaks: One for each image that leaks.
    """

    shards: list[ShardFacts] = dataclasses.field(default_factory=list)
    rejected: list[Rejected] = dataclasses.field(default_factory=list)
    rejected_count: int = 0
    taken_over: dict[str, int] = dataclasses.field(default_factory=dict)
    damaged: dict[str, int] = dataclasses.field(default_factory=dict)
    failures: list[Failure] = dataclasses.field(default_factory=list)
    leaks: list[Leak] = dataclasses.field(default_factory=list)

    def add(self, fact: Fact) -> None:
        """Adds one."""
        match fact:
            case ShardFacts():
                self.shards.append(fact)
            case Rejected():
                self.rejected.append(fact)
                self.rejected_count += 1
            case TakenOver():
                self.taken_over[fact.shard] = self.taken_over.get(fact.shard, 0) + fact.images
            case Damaged():
                self.damaged[fact.shard] = self.damaged.get(fact.shard, 0) + fact.images
            case Failure():
                self.failures.append(fact)
            case Leak():
                self.leaks.append(fact)
        self._keep_first(slack=2)

    def merge(self, other: "Totals") -> None:
        """Adds those of another worker."""
        self.shards += other.shards
        self.rejected += other.rejected
        self.rejected_count += other.rejected_count
        for own, theirs in ((self.taken_over, other.taken_over), (self.damaged, other.damaged)):
            for shard, images in theirs.items():
                own[shard] = own.get(shard, 0) + images
        self.failures += other.failures
        self.leaks = first_of_each(self.leaks + other.leaks)
        self._keep_first()

    def _keep_first(self, slack: int = 1) -> None:
        """Drops what is too much, once it is `slack` times as many, so that not every addition sorts."""
        if len(self.rejected) > slack * (MOST_SET_ASIDE + 1):
            self.rejected = sorted(self.rejected)[: MOST_SET_ASIDE + 1]
        if len(self.failures) > slack * _FAILURES_KEPT:
            self.failures = sorted(self.failures)[:_FAILURES_KEPT]

    def to_json(self) -> dict[str, Any]:
        """Everything in an order that does not depend on the runner."""
        self._keep_first()
        shards = sorted(self.shards, key=lambda fact: fact.shard.file)
        return {
            "shards": [vars(fact) | {"shard": vars(fact.shard)} for fact in shards],
            "rejected": sorted(self.rejected),
            "rejected_count": self.rejected_count,
            "taken_over": self.taken_over,
            "damaged": self.damaged,
            "failures": sorted(self.failures),
            "leaks": first_of_each(self.leaks),
        }


class Gather(beam.CombineFn):
    """Sums facts where they arise, so that what one worker gathers is bounded by the number of shards."""

    def create_accumulator(self) -> Totals:
        """None so far."""
        return Totals()

    def add_input(self, totals: Totals, fact: Fact) -> Totals:
        """Adds one fact."""
        totals.add(fact)
        return totals

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        """The facts of several workers."""
        merged = Totals()
        for each in accumulators:
            merged.merge(each)
        return merged

    def extract_output(self, totals: Totals) -> dict[str, Any]:
        """As JSON."""
        return totals.to_json()
