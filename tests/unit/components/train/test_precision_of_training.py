"""The precision that all workers of a training share, and that a resumed training keeps."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.core.artifacts import datasets
from components.core.distributed.coordination import Agreement
from components.core.networks import precision
from components.core.storage.location import Location
from components.train import loop
from components.train.config import TrainConfig
from tests.inputs import artifacts

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")


class BesideFloat32(Agreement):
    """An agreement with another worker that chose float32."""

    def largest(self, value: int) -> int:
        return max(value, 1)


@pytest.fixture(autouse=True)
def processor_with_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this processor one that measures, and keep its speeds in a folder of the test's own."""
    monkeypatch.setattr(precision, "cpu_flags", lambda: ["avx512_bf16"])
    monkeypatch.setenv("WGAN_MIRRORS", str(tmp_path))


def chosen(
    tiny_dataset: Path, made_with: dict[str, Any] | None, workers: Agreement | None = None, **settings: Any
) -> precision.Precision:
    """Return the precision of a training, new or resumed from a checkpoint with this `made_with`."""
    small = {"batch_size": 8, "latent_size": 4, "base_filters": 2, **settings}
    config = TrainConfig(dataset="unused", checkpoints="unused", **small)
    manifest = datasets.Manifest.of(str(tiny_dataset), "")
    checkpoint = None if made_with is None else (Location.of("unused"), artifacts.checkpoint(5, made_with=made_with))
    return loop.common_precision(config, manifest, checkpoint, HERE, workers or Agreement(HERE, None))


@pytest.mark.parametrize("kept", ["float32", "bfloat16"])
def test_auto_keeps_what_the_checkpoint_was_made_with(kept: str, tiny_dataset: Path, tmp_path: Path) -> None:
    """Without a look at this machine's speed, which may have changed."""
    made_with = {"precision": kept, "precision_reason": "it was faster"}
    assert chosen(tiny_dataset, made_with, precision="auto") == precision.Precision(kept, "it was faster")
    assert not list(tmp_path.rglob("*.json"))


def test_a_new_training_and_one_from_before_precision_was_recorded_measure(tiny_dataset: Path, tmp_path: Path) -> None:
    new = chosen(tiny_dataset, None, precision="auto")
    assert len(list(tmp_path.rglob("*.json"))) == 1
    assert chosen(tiny_dataset, {}, precision="auto") == new


def test_a_precision_that_is_set_counts(tiny_dataset: Path) -> None:
    assert chosen(tiny_dataset, {"precision": "float32"}, precision="bfloat16").name == "bfloat16"


def test_exact_training_measures_nothing(tiny_dataset: Path, tmp_path: Path) -> None:
    assert chosen(tiny_dataset, None, precision="auto", reproducibility="exact").name == "float32"
    assert not list(tmp_path.rglob("*.json"))


def test_one_worker_with_float32_is_enough(tiny_dataset: Path) -> None:
    kept = {"precision": "bfloat16"}
    assert chosen(tiny_dataset, kept, BesideFloat32(HERE, None), precision="auto").name == "float32"
    assert chosen(tiny_dataset, kept, precision="auto").name == "bfloat16"
