"""What the training input delivers, against what the default networks consume: images per second.

    python -m benchmarks.reading --rounds 5

All in one process, in turns, on the real Fashion-MNIST of `benchmarks.fashion_mnist`. "From TFRecords" is whole: every
shard is compared with its sha256, then decoded into memory. The other two are blocks as training takes them, shuffled
over the whole split, from memory or from the shards where they lie. To go on at step 1,000,000 nothing is read again:
that is measured by itself, from a new order to its first block.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import fashion_mnist, our_step, tables
from components import datasets, records
from components.mapped_images import Images, MappedImages
from components.train.config import TrainConfig
from components.train.training import _Batches

_BLOCKS = 20
_LATE = 1_000_000  # steps


def rate(work: Callable[[], int]) -> float:
    """Images per second of work that returns how many it was."""
    started = time.perf_counter()
    images = work()
    return images / (time.perf_counter() - started)


def blocks(images: Images, config: TrainConfig, first: int, count: int) -> int:
    """Makes blocks as training does, from a step on; returns the number of their images."""
    batches = _Batches(images, np.empty(0, np.int32), config)
    length = our_step.BLOCK_STEPS
    return sum(batches.block(first + index * length, length)[0][..., 0, 0, 0].size for index in range(count))


def main() -> None:
    """Measures all, and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--critic_steps", type=int, default=5)
    given = parser.parse_args()
    fashion_mnist.prepare()
    place = str(fashion_mnist.DATASET)
    manifest = records.Manifest.of(place)
    config, wgan = our_step.make(given.critic_steps, TrainConfig.batch_size)
    held, labels = datasets.load_split(place, manifest, "train")
    mapped = MappedImages(Path(place), manifest.splits["train"].shards, manifest.image)
    ready = our_step.make_blocks(config)

    def consumed() -> int:
        for block in ready[:3]:
            wgan.run_block(block)["healthy"].numpy()
        return sum(block[..., 0, 0, 0].size for block in ready[:3])

    consumed()  # compiles
    work = {
        "consumed by the default networks": consumed,
        "from TFRecords into memory": lambda: len(datasets.load_split(place, manifest, "train")[0]),
        "from memory, shuffled": lambda: blocks(held, config, 0, _BLOCKS),
        "from the shards where they lie, shuffled": lambda: blocks(mapped, config, 0, _BLOCKS),
        f"first block from step {_LATE:,}, from memory": lambda: blocks(held, config, _LATE, 1),
    }
    turns: dict[str, list[float]] = {}
    for number in range(given.rounds):
        for name, each in [*work.items()] if number % 2 == 0 else reversed([*work.items()]):
            turns.setdefault(name, []).append(rate(each))
    consumption = turns["consumed by the default networks"]
    rows = []
    for name, rates in turns.items():
        ratio = statistics.median(one / other for one, other in zip(rates, consumption, strict=True))
        rows.append([name, f"{statistics.median(rates):,.0f}", f"{ratio:,.1f}"])
    title = f"{len(labels):,} images of {manifest.image}, {given.critic_steps} critic steps, batch {config.batch_size}"
    tables.show(title, ["", "images/s", "x consumed"], rows)
    tables.keep("reading", {"turns": turns})


if __name__ == "__main__":
    main()
