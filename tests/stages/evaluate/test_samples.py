"""Tests for images of another model in the evaluate stage: those of a checkpoint are judged as the checkpoint is."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, datasets, evaluations
from components.core.stage.executor import StageResult
from components.evaluate.scoring import candidates
from tests.inputs.stages import SHAPE, make_checkpoint
from tests.stages.evaluate.conftest import Run, folder_of, metrics, report

COUNT = 2000


def drawn(checkpoint: Path, file: Path) -> Path:
    """Write what a checkpoint draws, so that it is read in its order."""
    generator = candidates.averaged(checkpoint, checkpoints.Manifest.of(checkpoint))
    images = np.concatenate([batch for batch, _ in candidates.draw(generator, SHAPE, COUNT, 0)])
    places = np.argsort(np.random.default_rng(0).permutation(COUNT))
    arrays: dict[str, Any] = {"images": images[places, :, :, 0]}  # gray images need no channel
    if (labels := candidates.draw_labels(generator, COUNT, 0)) is not None:
        arrays["labels"] = labels.numpy()[places].astype(np.int64)
    np.savez(file, **arrays)
    return file


def pictures(result: StageResult) -> set[str]:
    return set(re.findall(r"data:image/png;base64,[^\"]+", report(result)))


def test_a_checkpoints_samples_are_judged_as_the_checkpoint(run: Run, dataset: str, tmp_path: Path) -> None:
    data = datasets.Manifest.of(dataset)
    counts = data.splits["train"].class_counts
    checkpoint = make_checkpoint(tmp_path, 3, dataset_digest=data.digest, class_counts=counts)
    file = drawn(checkpoint, tmp_path / "drawn.npz")
    expected, result = run(checkpoint, tmp_path / "e"), run("", tmp_path / "e", samples=file)
    assert metrics(result) == {**metrics(expected), "step": None}
    assert "class_accuracy" in metrics(result)["model"]
    manifest, of_checkpoint = (evaluations.Manifest.of(folder_of(one)) for one in (result, expected))
    assert (manifest.rules, manifest.verdict) == (of_checkpoint.rules, of_checkpoint.verdict)
    # All but rows of classes from the same latents. The pairs of copies and originals are among them.
    assert (len(pictures(expected) - pictures(result)), pictures(result) - pictures(expected)) == (1, set())
    assert (manifest.checkpoint_digest, len(manifest.samples_digest)) == ("", 64)
    assert "samples_digest" not in of_checkpoint.to_json()
    assert ["<th>training</th>" in report(one) for one in (expected, result)] == [True, False]
    # The content decides the key.
    assert run("", tmp_path / "e", samples=file.rename(tmp_path / "copy.npz")).reused


def test_samples_against_others_take_the_champions_part(run: Run, two_checkpoints: list[Path], tmp_path: Path) -> None:
    last, new = (drawn(checkpoint, tmp_path / f"{checkpoint.name}.npz") for checkpoint in two_checkpoints)
    with np.load(last) as arrays:
        np.savez(last, images=arrays["images"][:900])
    result = run("", tmp_path / "e", samples=new, against=last, sample_count=1000)
    alone = run("", tmp_path / "e", samples=last, sample_count=1000)
    assert result.parameters["verdict"] == evaluations.PROMOTE, result.parameters["summary"]
    assert metrics(result)["champion"] == metrics(alone)["model"]
    assert (metrics(result)["samples"], metrics(result)["compared"]) == (1000, 900)
    manifest = evaluations.Manifest.of(folder_of(result))
    assert manifest.champion_digest == evaluations.Manifest.of(folder_of(alone)).samples_digest
    assert "better than the images of --against" in manifest.reasons[0]
    assert "champion, version" not in (folder_of(result) / evaluations.MANIFEST).read_text() + report(result)
