"""The same training twice and in two halves: `exact` and a resumed training must give the same bits.

python -m tests.proofs.gpu.bits gpu|cpu DATASET STEPS
"""

import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from components.core.artifacts import checkpoints
from tests.proofs.stages import stage


def digests(device: str, dataset: str, steps: int, mode: str, folder: Path) -> dict[str, str]:
    """Return the digest of the last step's state: of two trainings, and of one that was interrupted halfway."""
    straight, again, resumed = (folder / f"{mode}-{name}" for name in ("straight", "again", "resumed"))
    settings = {"dataset": dataset, "reproducibility": mode, "accelerator": device, "replicas": 1, "log_every": 10}
    for training, last in ((straight, steps), (again, steps), (resumed, steps // 2), (resumed, steps)):
        # Rates are constant, so that a training can be lengthened.
        stage("train", checkpoints=training, steps=last, learning_rate_decay="none", **settings)
    return {
        training.name: checkpoints.Description.of(checkpoints.step_folder(training, steps)).state_sha256
        for training in (straight, again, resumed)
    }


def main() -> int:
    """Print the digests as JSON; 1 if those of `exact` differ, else 0: standard training on a GPU promises no bits."""
    device, dataset, steps = sys.argv[1:]
    workers = 2 if (os.cpu_count() or 1) > 2 else 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        exact, standard = pool.map(
            lambda mode: digests(device, dataset, int(steps), mode, Path(folder)), ("exact", "standard")
        )
    same = {"exact": len(set(exact.values())) == 1, "standard": len(set(standard.values())) == 1}
    print(json.dumps({"same_bits": same, "digests": exact | standard}))
    return int(not same["exact"])


if __name__ == "__main__":
    sys.exit(main())
