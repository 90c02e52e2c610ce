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
    small = {"batch_size": 8, "latent_size": 4, "base_filters": 2, **settings}
    config = TrainConfig(dataset="unused", checkpoints="unused", **small)
    manifest = datasets.Manifest.of(str(tiny_dataset), "")
    checkpoint = None if made_with is None else (Location.of("unused"), artifacts.checkpoint(5, made_with=made_with))
    return loop.common_precision(config, manifest, checkpoint, workers or Agreement(HERE, None))


@pytest.mark.parametrize(
    ("made_with", "settings", "expected"),
    [
        ({"precision": "float32"}, {"precision": "auto"}, "float32"),
        ({"precision": "bfloat16"}, {"precision": "auto"}, "bfloat16"),
        ({"precision": "float32"}, {"precision": "bfloat16"}, "bfloat16"),  # which is set
        (None, {"precision": "auto", "reproducibility": "exact"}, "float32"),
    ],
)
def test_a_resumed_a_set_and_an_exact_training_measure_nothing(
    tiny_dataset: Path, tmp_path: Path, made_with: dict[str, Any] | None, settings: dict[str, Any], expected: str
) -> None:
    """A machine's speed may have changed."""
    assert chosen(tiny_dataset, made_with, **settings).name == expected
    assert not list(tmp_path.rglob("*.json"))


def test_a_new_training_and_one_from_before_precision_was_recorded_measure(tiny_dataset: Path, tmp_path: Path) -> None:
    new = chosen(tiny_dataset, None, precision="auto")
    assert len(list(tmp_path.rglob("*.json"))) == 1
    assert chosen(tiny_dataset, {}, precision="auto") == new


def test_one_worker_with_float32_is_enough(tiny_dataset: Path) -> None:
    kept = {"precision": "bfloat16"}
    assert chosen(tiny_dataset, kept, BesideFloat32(HERE, None), precision="auto").name == "float32"
