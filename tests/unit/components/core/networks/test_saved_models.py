"""Networks in SavedModels and in checkpoints."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints
from components.core.errors import DataError
from components.core.networks import saved_models
from components.core.storage import atomic_files
from tests.inputs import artifacts
from tests.inputs.stages import make_checkpoint


@tf.custom_gradient
def _halved(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    return x / 2, lambda gradient: 7 * gradient


@tf.custom_gradient
def _doubled(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    return x * 2, lambda gradient: 5 * gradient


class _Counter(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(np.arange(3, dtype=np.float32))

        def add(x: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"sum": tf.map_fn(lambda row: row + self.weight, _halved(_doubled(x)))}

        self.add = tf.function(add, input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])


def test_the_same_module_gives_the_same_bytes_again_in_one_process(tmp_path: Path) -> None:
    for name in ("first", "second"):
        module = _Counter()
        saved_models.save(module, tmp_path / name, {"serving_default": module.add})
        tf.function(lambda x: _halved(x))(tf.constant(1.0))  # moves the process's counters on
    first = atomic_files.files_in(tmp_path / "first")
    assert first == atomic_files.files_in(tmp_path / "second")
    assert set(first) == {"saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"}


def test_what_was_saved_computes_the_same_with_its_custom_gradients(tmp_path: Path) -> None:
    module = _Counter()
    saved_models.save(module, tmp_path, {"serving_default": module.add})
    loaded, x = tf.saved_model.load(str(tmp_path)), tf.ones([4, 3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = loaded.add(x)["sum"]
    np.testing.assert_array_equal(total, x + np.arange(3))
    np.testing.assert_array_equal(loaded.signatures["serving_default"](x=x)["sum"], total)
    np.testing.assert_array_equal(tape.gradient(total, x), np.full((4, 3), 35))


def test_weights_are_those_that_were_kept_and_of_other_networks_refused(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    kept = checkpoints.load_state(checkpoint)
    for variable in saved_models.load_averaged(checkpoint).variables:
        np.testing.assert_array_equal(variable, kept.pop(saved_models.AVERAGE + variable.path))
    assert not kept
    manifest = artifacts.unsealed(checkpoint / checkpoints.MANIFEST)
    manifest["network"]["base_filters"] *= 2
    artifacts.seal(checkpoint / checkpoints.MANIFEST, manifest)
    with pytest.raises(DataError, match=f"^checkpoint {checkpoint} .*, expected "):
        saved_models.load_averaged(checkpoint)
