"""Runs the train stage, and writes how long each block of steps waited for its batches as JSON.

python -m benchmarks.training.observed_train waits.json --dataset ... --checkpoints ...
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from components.core.stage import cli
from components.train.batches import Place, ReadAhead


def main() -> int:
    """Run the stage with the flags that follow the name of the JSON file."""
    waits_file, arguments = Path(sys.argv[1]), sys.argv[2:]
    waited: list[float] = []  # seconds per step, of each block
    read = ReadAhead.block

    def timed(ahead: ReadAhead, place: Place, following: Place) -> Any:
        started = time.perf_counter()
        block = read(ahead, place, following)
        waited.append((time.perf_counter() - started) / place.steps)
        return block

    # Replaced from outside, as the stage needs no hook for a clock.
    ReadAhead.block = timed  # type: ignore[method-assign, assignment]
    code = cli.main("train", arguments)
    waits_file.write_text(json.dumps(waited), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
