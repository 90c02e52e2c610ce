"""The precision that all workers of a training share, and that a resumed training keeps."""

from typing import Any

import pytest
import tensorflow as tf

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
def processor_with_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_flags", lambda: ["amx_bf16"])


def chosen(made_with: dict[str, Any] | None, workers: Agreement | None = None, **settings: Any) -> precision.Precision:
    """Return the precision of a training, new or resumed from a checkpoint with this `made_with`."""
    small = {"batch_size": 8, "latent_size": 4, "base_filters": 2, **settings}
    config = TrainConfig(dataset="unused", checkpoints="unused", **small)
    checkpoint = None if made_with is None else (Location.of("unused"), artifacts.checkpoint(5, made_with=made_with))
    return loop.common_precision(config, checkpoint, workers or Agreement(HERE, None))


@pytest.mark.parametrize(
    ("made_with", "settings", "expected"),
    [
        ({"precision": "float32"}, {"precision": "auto"}, "float32"),
        ({"precision": "bfloat16"}, {"precision": "auto"}, "bfloat16"),
        ({"precision": "float32"}, {"precision": "bfloat16"}, "bfloat16"),  # which is set
        ({}, {"precision": "auto"}, "bfloat16"),  # from before precision was recorded
        (None, {"precision": "auto"}, "bfloat16"),
        (None, {"precision": "auto", "reproducibility": "exact"}, "float32"),
    ],
)
def test_a_resumed_training_keeps_its_precision_and_exact_is_float32(
    made_with: dict[str, Any] | None, settings: dict[str, Any], expected: str
) -> None:
    assert chosen(made_with, **settings).name == expected


@pytest.mark.parametrize("flag", ["avx512f", "avx512_bf16"])
def test_auto_is_float32_on_a_processor_without_amx(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_flags", lambda: [flag])
    assert chosen(None, precision="auto").name == "float32"


def test_one_worker_with_float32_is_enough() -> None:
    kept = {"precision": "bfloat16"}
    assert chosen(kept, BesideFloat32(HERE, None), precision="auto").name == "float32"
