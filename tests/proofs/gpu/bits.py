"""The same training twice and in two halves: `exact` and a resumed training must give the same bits.

python -m tests.proofs.gpu.bits gpu|cpu DATASET STEPS
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from components.core.artifacts import checkpoints


def train(device: str, dataset: str, folder: Path, mode: str, steps: int) -> None:
    """Train up to a step in a process; rates are constant, so that a training can be lengthened."""
    settings = {
        "dataset": dataset, "checkpoints": folder, "reproducibility": mode, "steps": steps, "accelerator": device,
        "replicas": 1, "learning_rate_decay": "none", "log_every": 10,
    }  # fmt: skip
    flags = [f"--{name}={value}" for name, value in settings.items()]
    done = subprocess.run([sys.executable, "-m", "components.train", *flags], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def digests(device: str, dataset: str, steps: int, mode: str, folder: Path) -> dict[str, str]:
    """Return the digest of the last step's state: of two trainings, and of one that was interrupted halfway."""
    straight, again, resumed = (folder / f"{mode}-{name}" for name in ("straight", "again", "resumed"))
    train(device, dataset, straight, mode, steps)
    train(device, dataset, again, mode, steps)
    train(device, dataset, resumed, mode, steps // 2)
    train(device, dataset, resumed, mode, steps)
    return {
        training.name: checkpoints.Description.of(checkpoints.step_folder(training, steps)).state_sha256
        for training in (straight, again, resumed)
    }


def main() -> int:
    """Print the digests as JSON; 1 if those of `exact` differ, else 0: standard training on a GPU promises no bits."""
    device, dataset, steps = sys.argv[1:]
    folder = Path(tempfile.mkdtemp())
    try:
        with ThreadPoolExecutor(2 if (os.cpu_count() or 1) > 2 else 1) as pool:
            modes = ("exact", "standard")
            exact, standard = pool.map(lambda mode: digests(device, dataset, int(steps), mode, folder), modes)
    finally:
        shutil.rmtree(folder)
    same = {"exact": len(set(exact.values())) == 1, "standard": len(set(standard.values())) == 1}
    print(json.dumps({"same_bits": same, "digests": exact | standard}))
    return int(not same["exact"])


if __name__ == "__main__":
    sys.exit(main())
