"""Runs the train stage, and writes how long each block of steps waited for its batches as JSON.

python -m benchmarks.training.observed_train waits.json --dataset ... --checkpoints ...
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from components.core.stage import cli
from components.train.batches import Batches


def main() -> int:
    """Run the stage with the flags that follow the name of the JSON file."""
    location, arguments = Path(sys.argv[1]), sys.argv[2:]
    waited: list[float] = []  # seconds per step, of each block
    choose = Batches.block

    def timed(batches: Batches, first_step: int, steps: int, rollbacks: int = 0) -> Any:
        started = time.perf_counter()
        block = choose(batches, first_step, steps, rollbacks)
        waited.append((time.perf_counter() - started) / steps)
        return block

    # Replaced from outside, as the stage needs no hook for a clock.
    Batches.block = timed  # type: ignore[method-assign, assignment]
    code = cli.main("train", arguments)
    location.write_text(json.dumps(waited), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
