"""What a step of each candidate of `quality.py` costs, relative to the default's.

The blocks of all candidates take turns, so that other load on the machine falls on all alike. Ratios of processor time
are told beside those of time passed: the former hardly feel the other load.

    python -m benchmarks.candidate_costs --results R.jsonl --rounds 5 --candidate "base_filters=32"
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.quality import Candidate, ScoredStep, use_threads
from components.core.artifacts.datasets import ImageShape

_STEPS = 5
_IMAGE = ImageShape(28, 28, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--candidate", action="append", default=[])
    parser.add_argument("--threads", type=int, default=0, help="Threads of an operation; 0 for those of training.")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    # name, generator updates of a block, the block
    blocks = [(c.name, _STEPS, _block(c)) for c in (Candidate(line, 0, 1000) for line in ["", *arguments.candidate])]
    for _, _, block in blocks:
        block()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in blocks}
    for _ in range(arguments.rounds):
        for name, steps, block in blocks:
            passed, used = time.perf_counter(), time.process_time()
            block()
            times[name].append(((time.perf_counter() - passed) / steps, (time.process_time() - used) / steps))
    with arguments.results.open("a", encoding="utf-8") as file:
        for name, pairs in times.items():
            row = {"candidate": name, "threads": threads, "rounds": arguments.rounds}
            for index, what in enumerate(("passed", "processor")):
                ratios = [pair[index] / base[index] for pair, base in zip(pairs, times["default"], strict=True)]
                row[f"{what}_ms"] = round(1000 * statistics.median(pair[index] for pair in pairs), 1)
                row[f"{what}_ratio"] = round(statistics.median(ratios), 3)
            file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def _block(candidate: Candidate) -> Callable[[], object]:
    """A block of steps on images that stand for any, with the one average that training keeps."""
    config = candidate.config
    wgan = ScoredStep(candidate, _IMAGE)
    wgan.averages = {config.ema_decay: wgan.averages[config.ema_decay]}
    pixels = np.random.default_rng(0).integers(0, 256, (_STEPS, config.critic_steps, config.batch_size, 28, 28, 1))
    images = pixels.astype(np.uint8)
    return lambda: wgan.run_block(images)["critic_loss"].numpy()


if __name__ == "__main__":
    main()
