"""The whole pipeline on this machine with everything in a bucket: the same artefacts as in a folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components import places
from tests.gcs_server.server import Server
from tests.limits import NO_LIMITS

pytestmark = pytest.mark.slow

SMALL = {
    "source": "digits",
    "height": 12,
    "width": 12,
    "batch_size": 32,
    "base_filters": 8,
    "latent_size": 16,
    "steps": 300,
    "checkpoint_every": 100,
    "sample_every": 100,
    "log_every": 100,
    "classifier_epochs": 6,
    "sample_count": 300,
    **NO_LIMITS,  # so few steps draw nothing good; what is tested is the way
}
DIGESTS = ("dataset_digest", "embedding_digest", "checkpoint_digest", "evaluation_digest", "model_digest")


def run(root: str | Path) -> str:
    flags = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "pipeline", "run", "--root", str(root), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stderr


def outputs(record: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in json.loads(record)["stages"].values():
        found |= stage["outputs"]
    return {name: found[name] for name in (*DIGESTS, "verdict", "version")}


def test_a_root_in_a_bucket_and_one_in_a_folder(gcs: Server, tmp_path: Path) -> None:
    gcs.create_bucket("b")
    run(tmp_path / "runs")
    run("gs://b/runs")
    held = gcs.objects["b"]
    expected = outputs((tmp_path / "runs/records/wgan-gp-0001/record.json").read_bytes())
    assert outputs(held["runs/records/wgan-gp-0001/record.json"].content) == expected
    champion = json.loads((tmp_path / "runs/registry/champion.json").read_text())
    assert json.loads(held["runs/registry/champion.json"].content)["model_digest"] == champion["model_digest"]
    assert "runs/registry/versions/1/saved_model.pb" in held
    before = dict(held)
    shutil.rmtree(places.local("gs://b").parent.parent)  # as on another machine
    assert "nothing is new since version 1" in run("gs://b/runs")
    changed = {name for name in held if before.get(name) != held[name]}
    assert changed
    assert {name.split("/")[1] for name in changed} <= {"records", "history"}  # what tells of the run, and nothing else
    assert before.keys() <= held.keys()
