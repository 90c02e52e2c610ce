"""`wgan runs gc`: what a version, one of the newest runs or a training of theirs needs stays, and all else goes."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, models
from components.core.errors import TransientError
from components.core.registry import registry
from components.core.stage import run_notes
from components.core.stage.run_notes import DONE, FAILED, Note
from components.core.storage import buckets
from components.core.storage.location import Location
from pipeline.local import garbage, history
from pipeline.local.session import session
from tests.faults.candidates import Candidate
from tests.inputs import artifacts
from tests.programs import until

STEP = "step-0000000007"
# The manifest of each artifact of a run, by the artifact's folder within `{root}/KIND/NUMBER`.
MANIFESTS = {
    ("datasets", ""): datasets.MANIFEST,
    ("checkpoints", STEP): checkpoints.MANIFEST,
    ("embeddings", ""): embeddings.MANIFEST,
    ("evaluations", ""): evaluations.MANIFEST,
    ("models", ""): models.MANIFEST,
}
KINDS = [kind for kind, _ in MANIFESTS]


@pytest.fixture(params=["folder", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        return Location.of(tmp_path / "runs")
    request.getfixturevalue("bucket")
    return Location.of("gs://b/runs")


def run(root: Location, number: int, folder: Path, trained: bool = True) -> None:
    """Leave what a run makes, under its number, and its notes; if it failed in its training, one checkpoint."""
    images = {split: (np.full((2, 8, 8, 1), number, np.uint8), [0, 1]) for split in datasets.SPLITS}
    dataset = artifacts.write_dataset(folder / "datasets", images, artifacts.CLASSES)
    checkpoint = artifacts.checkpoint(7, dataset_digest=dataset.digest)
    checkpoint = checkpoints.save(folder / "checkpoints", checkpoint, {"weight": np.full(1, number, np.float32)})
    embedding = artifacts.embedding(dataset_digest=dataset.digest, files={})
    embedding.write(folder / "embeddings")
    origin = artifacts.origin(dataset, checkpoint.to_json(), **embedding.to_json())
    if trained:
        artifacts.write_evaluation(folder / "evaluations", origin)
        artifacts.write_model(folder / "models", origin, {"saved_model.pb": b"%d" % number})
    for (kind, within), manifest in MANIFESTS.items():
        made, location = folder / kind / within, root / kind / str(number)
        location = location / within if within else location
        if made.exists() and root.in_bucket:
            location.commit(made, manifest)
        elif made.exists():
            shutil.copytree(made, location.path)
    outputs = {
        f"{name}_uri": f"/elsewhere/{name}s/{number}" for name in ("dataset", "embedding", "evaluation", "model")
    }
    if trained:
        outputs["checkpoint_uri"] = f"/elsewhere/checkpoints/{number}/{STEP}"
    notes, started = root / f"records/wgan-gp-{number:04d}", f"2026-01-{number:02}"
    outputs["dataset_digest"] = dataset.digest
    run_notes.write(notes, Note(stage="train", state=DONE if trained else FAILED, started=started, outputs=outputs))
    (notes / run_notes.RECORD).write_file(b"{}")


def names(root: Location) -> set[str]:
    """Return the folders of results that hold files."""
    return {f"{kind}/{path.split('/')[0]}" for kind in KINDS for path in (root / kind).files()}


def test_it_goes_unless_a_version_or_a_newest_run_needs_it(root: Location, tmp_path: Path) -> None:
    for number in range(1, 5):
        run(root, number, tmp_path / f"{number}", trained=number < 4)
    run(root, 5, tmp_path / "5")
    (root / "records/wgan-gp-0005").remove()
    Candidate(tmp_path / "1/models", tmp_path / "1/evaluations").publish(root.uri + "/registry")
    (root / "models/half/saved_model.pb").write_file(b"of a stage that was killed")
    before = names(root)
    folders = garbage.unneeded(root, keep=2)
    unneeded = {name for name in before if name.endswith(("2", "5"))} | {"evaluations/1", "models/1", "models/half"}
    assert {folder.name for folder in folders} == unneeded
    shown = [folder[1:] for folder in folders if folder.name in ("evaluations/1", "models/half")]
    assert shown[0][::2] == ("evaluations/1", "wgan-gp-0001")
    assert shown[1] == ("models/half", 26, "none")
    garbage.remove(root, folders)
    if root.in_bucket:
        shutil.rmtree(root.path)
    assert names(root) == before - unneeded
    assert "checkpoints/4" in names(root)
    assert garbage.unneeded(root, keep=2) == []
    for number in (1, 3, 4):
        datasets.Manifest.fetch(root / "datasets" / f"{number}")
        checkpoints.Manifest.fetch(root / "checkpoints" / f"{number}" / STEP)
    registry.read_version(root / "registry", 1, registry.read_champion(root / "registry"))


@pytest.mark.usefixtures("bucket")
def test_nothing_goes_while_a_run_of_another_machine_may_need_it(tmp_path: Path) -> None:
    root = Location.of("gs://b/runs")
    run(root, 1, tmp_path / "1")
    buckets.delete((root / "records/wgan-gp-0001").files()["record.json"])
    with pytest.raises(TransientError, match=r"^run wgan-gp-0001 .* remove gs://b/runs/records/wgan-gp-0001$"):
        garbage.unneeded(root, 3)
    (root.own / history.FOLDER / "0001").mkdir(parents=True)  # it was killed here
    assert garbage.unneeded(root, 3) == []


def test_it_lists_unless_told_and_waits_for_a_run_of_this_machine(tmp_path: Path) -> None:
    root, log = tmp_path / "runs", tmp_path / "log"
    for number in (1, 2):
        run(Location.of(root), number, tmp_path / f"{number}")
    command = [sys.executable, "-m", "pipeline", "runs", "gc", f"--root={root}", "--keep=1"]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert printed[1].split() == ["datasets/1", "0.0", "MB", "wgan-gp-0001"]
    assert printed[-1] == "nothing was removed; --yes removes them: 5 folders, 0.0 MB"
    with log.open("w") as file, session(root, "docker"):
        process = subprocess.Popen([*command, "--yes"], stderr=file)
        until(lambda: "waiting for it" in log.read_text())
        assert len(names(Location.of(root))) == 10
    assert process.wait() == 0
    assert names(Location.of(root)) == {f"{kind}/2" for kind in KINDS}
