"""The precision that all workers of a training share, and that a resumed training keeps."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.core.distributed.coordination import Agreement
from components.core.networks import precision
from components.train import loop
from components.train.config import TrainConfig
from tests.inputs import artifacts

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")


class BesideFloat32(Agreement):
    """An agreement with another worker that chose float32."""

    def largest(self, value: int) -> int:
        return max(value, 1)


def chosen(made_with: dict[str, Any] | None, workers: Agreement | None = None, **settings: Any) -> precision.Precision:
    """Return the precision of a training, new or resumed from a checkpoint with this `made_with`."""
    config = TrainConfig(dataset="unused", checkpoints="unused", **settings)
    checkpoint = None if made_with is None else (Path("unused"), artifacts.checkpoint(5, made_with=made_with))
    return loop.common_precision(config, checkpoint, workers or Agreement(HERE, None))


AUTO = {"precision": "auto"}


@pytest.mark.parametrize(
    ("flag", "made_with", "settings", "expected"),
    [
        ("amx_bf16", {"precision": "float32"}, AUTO, "float32"),
        ("avx512f", {"precision": "bfloat16"}, AUTO, "bfloat16"),
        ("amx_bf16", {"precision": "float32"}, {"precision": "bfloat16"}, "bfloat16"),  # which is set
        ("amx_bf16", {}, AUTO, "bfloat16"),  # from before precision was recorded
        ("amx_bf16", None, AUTO, "bfloat16"),
        ("avx512f", None, AUTO, "float32"),
        ("avx512_bf16", None, AUTO, "float32"),
        ("amx_bf16", None, {**AUTO, "reproducibility": "exact"}, "float32"),
    ],
)
def test_auto_is_bfloat16_with_amx_but_a_resumed_training_keeps_its_precision_and_exact_is_float32(
    flag: str,
    made_with: dict[str, Any] | None,
    settings: dict[str, Any],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "cpu_flags", lambda: [flag])
    assert chosen(made_with, **settings).name == expected


def test_one_worker_with_float32_is_enough() -> None:
    assert chosen({"precision": "bfloat16"}, BesideFloat32(HERE, None), **AUTO).name == "float32"
