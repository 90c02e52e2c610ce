"""Runs the code of README after `make demo`, in an empty folder, and fails at the first other exit code.

CI runs the commands of COVERED elsewhere, and the code of other pages in tests/system/test_end_to_end.py. Trainings are
cut short, the contract server stands for Kubeflow, and nothing waits for a run there. ~/pictures has 300 pictures, and
so have the files of images to judge.

    python .ci/check_readme.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from benchmarks.judging import color
from components.core.container_images import NAMES, VERSION
from components.core.errors import BAD_DATA
from components.core.storage import atomic_files
from tests import documents
from tests.fakes.kubeflow import server as kubeflow

ROOT = Path(__file__).parents[1]
HOST = "https://kubeflow.example.com"
COVERED = ("make demo", ". .venv/bin/activate", "make images && wgan run --runner docker --source digits")
ENDS_WITH = {"wgan registry rollback": BAD_DATA}  # such short runs have published nothing yet
SHORT = "--sample_count 100 --classifier_epochs 1 --classifier_batch_size 8"
SHORT_BY_VERB = {"wgan run ": f"{SHORT} --steps 20 --base_filters 8", "wgan judge ": SHORT}


def prepare(home: Path) -> None:
    """Make what a reader has by then: the demo, pictures, and the results of `make push` and docs/schedules.md."""
    for folder in ("build", "pictures", "runs"):
        (home / folder).mkdir()
    (home / "runs" / "demo").symlink_to(ROOT / "runs" / "demo")
    for index, pixels in enumerate(color.crops(300, seed=0)):
        Image.fromarray(pixels).save(home / "pictures" / f"{index:03d}.png")
    for seed, name in enumerate(("new", "last"), 1):
        np.savez(home / f"{name}.npz", images=color.crops(300, seed=seed))
    images = {name: f"registry.test:5000/wgan/{name}@sha256:{str(at) * 64}" for at, name in enumerate(NAMES)}
    atomic_files.write_json(home / "build" / "images.json", {"schema_version": 1, "version": VERSION, "images": images})
    parameters = {"source": "digits", "root": "gs://b/runs"}
    run = {"package": "pipeline.yaml", "target": "kfp", "experiment": "retraining", "parameters": parameters}
    (home / "schedules.yaml").write_text(yaml.safe_dump({"schedules": {"weekly": {"cron": "0 9 * * 1", **run}}}))


def adapted(command: str, host: str) -> str:
    """Return a command as this check runs it."""
    command = command.replace(HOST, host).replace(" --wait", "")
    return next((f"{command} {flags}" for verb, flags in SHORT_BY_VERB.items() if command.startswith(verb)), command)


def main() -> None:
    commands = [command for command in documents.commands(ROOT / "README.md") if command not in COVERED]
    with tempfile.TemporaryDirectory() as home, kubeflow.serving() as server:
        prepare(Path(home))
        environment = {**os.environ, "HOME": home, "PATH": f"{ROOT}/.venv/bin{os.pathsep}{os.environ['PATH']}"}
        for command in (adapted(each, server.url) for each in commands):
            print(f"$ {command}", flush=True)
            code = subprocess.run(["bash", "-c", command], cwd=home, env=environment).returncode
            expected = next((end for start, end in ENDS_WITH.items() if command.startswith(start)), 0)
            if code != expected:
                sys.exit(f"check_readme: exit code {code}, expected {expected}: {command}")


if __name__ == "__main__":
    main()
