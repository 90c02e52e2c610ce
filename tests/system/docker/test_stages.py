"""Every stage does its real work in its image: read-only, without network and privileges, as a user without a name."""

import json
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.inputs.limits import NO_LIMITS
from tests.system.docker.conftest import Run

pytestmark = pytest.mark.docker

TRAINING = ("--steps", 400, "--batch_size", 16, "--base_filters", 8, "--latent_size", 16, "--seed", 3)
# So few steps draw nothing good, so limits are ignored; the test is about running.
LIMITS = tuple(word for name, value in NO_LIMITS.items() for word in (f"--{name}", value))


def outputs(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_from_digits_to_a_champion(run: Run, preprocess_image: str, train_image: str, shared_folder: Path) -> None:
    mount = ("--volume", f"{shared_folder}:/data")

    def stage(name: str, *words: object) -> dict[str, str]:
        image = preprocess_image if name in ("decide", "preprocess", "record") else train_image
        own = name in ("preprocess", "train")  # the entry points of the images
        return outputs(run(image, *words, program="" if own else name, options=mount))

    source = ("--source", "digits")
    decided = stage("decide", *source, "--registry", "/data/registry")
    assert decided["decision"] == "RUN"
    dataset = stage("preprocess", *source, "--height", 16, "--width", 16, "--dataset", "/data/datasets")
    data = ("--dataset", dataset["dataset_uri"])
    checkpoint = stage("train", *data, *TRAINING, "--checkpoints", "/data/checkpoints")
    embedding = stage("embed", *data, "--embedding", "/data/embeddings", "--classifier_epochs", 2)
    judged = ("--checkpoint", checkpoint["checkpoint_uri"], "--embedding", embedding["embedding_uri"], *data)
    exported = stage("export", "--checkpoint", checkpoint["checkpoint_uri"], "--model", "/data/models")
    against = ("--registry", "/data/registry", "--sample_count", 200, *LIMITS)
    evaluation = stage("evaluate", *judged, *against, "--evaluation", "/data/evaluations")
    written = shared_folder / Path(evaluation["evaluation_uri"]).relative_to("/data")
    assert (written / "report.html").stat().st_size > 10_000

    verdict = json.loads((written / "verdict.json").read_text())
    assert verdict["verdict"] == "PROMOTE", verdict
    inputs = ("--model", exported["model_uri"], "--evaluation", evaluation["evaluation_uri"])
    published = stage("publish", *inputs, "--registry", "/data/registry", "--recipe", decided["recipe"])
    assert published["version"] == "1"
    again = stage("decide", *source, "--registry", "/data/registry")
    assert again["decision"] == "SKIP"
    assert stage("record", "--records", "/data/records", "--run", "1")["record_uri"] == "/data/records/1/record.json"
    stage("sample", "--registry", "/data/registry", "--count", 9, "--out", "/data/grid.png")
    with Image.open(shared_folder / "grid.png") as grid:
        assert grid.width == grid.height
