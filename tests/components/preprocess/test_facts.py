"""Facts summed by any number of workers, in any order, against all of them at once."""

import random

from hypothesis import given
from hypothesis import strategies as st

from components import records
from components.preprocess import facts
from components.preprocess.examples import Damaged, Rejected, TakenOver
from components.preprocess.facts import Fact, Gather, Totals
from components.preprocess.failures import Failure
from components.preprocess.leaks import Leak
from components.preprocess.shards import MOST_SET_ASIDE, ShardFacts

NUMBERS = st.integers(0, 4)


def written(number: int) -> ShardFacts:
    shard = records.Shard(f"train-{number:05d}", number, 9, "a" * 64)
    return ShardFacts("train", shard, [number], number, number, 0, 0, [])


FACTS = st.one_of(
    NUMBERS.map(written),
    NUMBERS.map(lambda number: Rejected(f"{number}.png", "b" * 64, "is empty")),
    NUMBERS.map(lambda number: TakenOver(f"shard {number}", number)),
    NUMBERS.map(lambda number: Damaged(f"shard {number}", 1)),
    NUMBERS.map(lambda number: Failure("DataError", f"{number}")),
    st.builds(Leak, st.booleans(), st.just("test"), st.just("s"), NUMBERS, st.sampled_from("tu"), NUMBERS),
)


@given(st.lists(FACTS, max_size=30), st.integers(1, 5), st.randoms(use_true_random=False))
def test_no_order_and_no_workers_matter(found: list[Fact], workers: int, chance: random.Random) -> None:
    gather = Gather()
    expected = Totals()
    for fact in found:
        expected.add(fact)
    chance.shuffle(found)
    totals = [gather.create_accumulator() for _ in range(workers)]
    for fact in found:
        gather.add_input(chance.choice(totals), fact)
    assert gather.extract_output(gather.merge_accumulators(totals)) == expected.to_json()


def test_no_more_is_kept_than_is_told() -> None:
    names = [f"{number:07d}.png" for number in range(3 * MOST_SET_ASIDE)]
    random.Random(0).shuffle(names)
    parts = [Totals() for _ in range(3)]
    for number, name in enumerate(names):
        parts[number % 3].add(Rejected(name, "", ""))
        parts[number % 3].add(Failure("OSError", name))
    merged = Gather().merge_accumulators(parts)
    assert merged.rejected_count == len(names)
    told = merged.to_json()
    assert [each.name for each in told["rejected"]] == sorted(names)[: MOST_SET_ASIDE + 1]
    assert [each.message for each in told["failures"]] == sorted(names)[: facts._FAILURES_KEPT]
    assert max(len(part.rejected) for part in (*parts, merged)) <= 2 * (MOST_SET_ASIDE + 1)
