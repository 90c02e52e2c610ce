"""The train stage as it is, and how long each block of steps waited for its batches, as JSON in the file named first.

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
    """Run the stage with the flags after the file's name."""
    location, arguments = Path(sys.argv[1]), sys.argv[2:]
    waited: list[float] = []  # seconds per step, of each block
    choose = Batches.block

    def timed(batches: Batches, first_step: int, steps: int, rollbacks: int = 0) -> Any:
        started = time.perf_counter()
        block = choose(batches, first_step, steps, rollbacks)
        waited.append((time.perf_counter() - started) / steps)
        return block

    # In its place, as the stage offers no hook for a clock and needs none.
    Batches.block = timed  # type: ignore[method-assign, assignment]
    code = cli.main("train", arguments)
    location.write_text(json.dumps(waited), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
