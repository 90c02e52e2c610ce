"""Tests for components/export: real checkpoints, a real new process."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets, models
from components.core.errors import DataError, StageError
from components.core.networks import saved_models
from components.core.stage.executor import StageResult
from components.export import make
from components.export import run as export
from components.export.config import ExportConfig
from tests.inputs.stages import make_checkpoint, make_model

pytestmark = pytest.mark.slow

Exported = tuple[Path, Path, StageResult]  # the checkpoint, its model, and the stage's result


def _run(checkpoint: Path, model: Path) -> StageResult:
    return export.run(ExportConfig(checkpoint=str(checkpoint), model=str(model)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    root = tmp_path_factory.mktemp("export")
    checkpoint = make_checkpoint(root / "checkpoints")
    result = _run(checkpoint, root / "model")
    return checkpoint, Path(str(result.parameters["model_uri"])), result


def _draw(signatures: Any, seed: int, count: int) -> np.ndarray:
    return signatures["sample"](seed=tf.constant(seed, tf.int64), count=tf.constant(count, tf.int64))["images"].numpy()


def test_the_manifest_names_every_file_and_where_the_model_comes_from(exported: Exported) -> None:
    checkpoint, model, result = exported
    manifest = models.Manifest.of(model, str(result.parameters["model_digest"]))
    assert manifest.checkpoint_digest == checkpoints.Manifest.of(checkpoint).digest
    assert models.list_files(model).keys() - manifest.files.keys() == {models.MANIFEST, models.CARD}


def test_the_seed_decides_sample_and_png_and_latents_the_served_images(exported: Exported) -> None:
    checkpoint, model, _ = exported
    signatures = tf.saved_model.load(str(model)).signatures
    images = _draw(signatures, 3, 130)
    assert images.dtype == np.uint8
    assert images.shape == (130, 8, 8, 1)
    np.testing.assert_array_equal(_draw(signatures, 3, 130), images)
    np.testing.assert_array_equal(_draw(signatures, 3, 5), images[:5])
    assert len(np.unique(images.reshape(130, -1), axis=0)) == 130
    assert (_draw(signatures, 4, 5) != images[:5]).any()
    files = signatures["png"](seed=tf.constant(3, tf.int64), count=tf.constant(5, tf.int64))["files"]
    np.testing.assert_array_equal([tf.io.decode_png(file).numpy() for file in files], images[:5])
    latents = tf.constant(np.random.default_rng(5).normal(size=(7, 16)).astype(np.float32))
    served = signatures["serving_default"](latents=latents)["images"]
    expected = saved_models.load_averaged(checkpoint)(latents, training=False)
    np.testing.assert_allclose(served, expected, atol=1e-5)


@pytest.fixture(scope="module")
def conditional(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A conditional checkpoint whose second class has no images, and its model."""
    root = tmp_path_factory.mktemp("conditional")
    checkpoint = make_checkpoint(root / "checkpoints", class_counts=[10, 0, 30])
    return checkpoint, Path(str(_run(checkpoint, root / "model").parameters["model_uri"]))


def test_a_conditional_model_draws_the_labels_that_it_is_given(conditional: tuple[Path, Path]) -> None:
    checkpoint, model = conditional
    serve = tf.saved_model.load(str(model)).signatures["serving_default"]
    latents = tf.constant(np.random.default_rng(5).normal(size=(4, 16)).astype(np.float32))
    labels = tf.constant([2, 0, 1, 1])
    expected = saved_models.load_averaged(checkpoint)([latents, tf.one_hot(labels, 3)], training=False)
    np.testing.assert_allclose(serve(latents=latents, labels=labels)["images"], expected, atol=1e-5)
    for wrong in ([0, 0, 0, 3], [0, 0, -1, 0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels must be 0 to 2"):
            serve(latents=latents, labels=tf.constant(wrong))
    assert models.Manifest.of(model).class_counts == [10, 0, 30]
    card = (model / models.CARD).read_text()
    assert "| `sample_labels` |" in card
    assert "0 dark, 1 left, 2 right" in card


def test_keras_draws_with_a_model_as_a_layer(exported: Exported, conditional: tuple[Path, Path]) -> None:
    latents, labels = tf.random.stateless_normal([3, 16], seed=[0, 0]), tf.constant([2, 0, 1])
    for model, further in ((exported[1], {}), (conditional[1], {"labels": labels})):
        layer = keras.layers.TFSMLayer(str(model), call_endpoint="serving_default")
        signature = tf.saved_model.load(str(model)).signatures["serving_default"]
        drawn, served = layer(latents, **further)["images"], signature(latents=latents, **further)["images"]
        np.testing.assert_array_equal(drawn, served)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("class_counts", [[], [10, 0, 30]])
def test_every_signature_takes_an_empty_batch(tmp_path: Path, channels: int, class_counts: list[int]) -> None:
    model = make_model(tmp_path, image=datasets.ImageShape(8, 8, channels), class_counts=class_counts)
    signatures = tf.saved_model.load(str(model)).signatures
    none = {"labels": tf.zeros([0], tf.int32), "latents": tf.zeros([0, 16]), "count": tf.constant(0, tf.int64)}
    inputs = {**none, "seed": tf.constant(0, tf.int64)}
    assert len(signatures) == (4 if class_counts else 3)
    for name, signature in signatures.items():
        names = signature.structured_input_signature[1]
        outputs = signature(**{key: inputs[key] for key in names})
        expected = [0] if name == "png" else [0, 8, 8, channels]
        assert [output.shape.as_list() for output in outputs.values()] == [expected], name


def test_the_signatures_are_those_that_tensorflow_serving_calls(conditional: tuple[Path, Path]) -> None:
    """As TensorFlow's own tool shows them: name, type and shape of every input and output."""
    draw = {"seed": ("DT_INT64", "()"), "count": ("DT_INT64", "()")}
    labels, pixels = ("DT_INT32", "(-1)"), ("DT_UINT8", "(-1, 8, 8, 1)")
    latents, images = ("DT_FLOAT", "(-1, 16)"), ("DT_FLOAT", "(-1, 8, 8, 1)")
    expected = {
        "serving_default": {"latents": latents, "labels": labels, "images": images},
        "sample": {**draw, "images": pixels},
        "png": {**draw, "files": ("DT_STRING", "(-1)")},
        "sample_labels": {"seed": draw["seed"], "labels": labels, "images": pixels},
    }
    shown = {}
    for name in expected:
        words = ["show", "--dir", str(conditional[1]), "--tag_set", "serve", "--signature_def", name]
        command = [str(Path(sys.executable).with_name("saved_model_cli")), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        entries = re.findall(r"puts\['(\w+)'\] tensor_info:\s+dtype: (\w+)\s+shape: (.+)", done.stdout)
        shown[name] = {tensor: (kind, shape) for tensor, kind, shape in entries}
    assert shown == expected


def test_without_labels_classes_are_as_frequent_as_in_the_data(conditional: tuple[Path, Path]) -> None:
    signatures = tf.saved_model.load(str(conditional[1])).signatures
    images = _draw(signatures, 3, 130)
    np.testing.assert_array_equal(_draw(signatures, 3, 70), images[:70])

    def draws(labels: list[int]) -> np.ndarray:
        return signatures["sample_labels"](seed=tf.constant(3, tf.int64), labels=tf.constant(labels))["images"].numpy()

    by_label = [draws([label] * 130) for label in range(3)]
    shown = [[np.array_equal(image, drawn[index]) for drawn in by_label] for index, image in enumerate(images)]
    assert np.sum(shown, axis=1).tolist() == [1] * 130
    counts = np.sum(shown, axis=0)
    assert counts[1] == 0
    assert counts[0] / 130 == pytest.approx(1 / 4, abs=0.12)  # three standard deviations
    np.testing.assert_array_equal(draws([2, 0]), [by_label[2][0], by_label[0][1]])


def test_a_conditional_generator_has_the_same_bytes_again(conditional: tuple[Path, Path], tmp_path: Path) -> None:
    again = make_model(tmp_path, class_counts=[10, 0, 30])
    assert models.Manifest.of(again).files == models.Manifest.of(conditional[1]).files


def test_again_it_has_the_same_digest_or_does_nothing(exported: Exported, tmp_path: Path) -> None:
    checkpoint, model, result = exported
    assert _run(checkpoint, tmp_path / "elsewhere").parameters["model_digest"] == result.parameters["model_digest"]
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
    without = (
        "import sys; from components import __main__; sys.modules['tensorflow'] = None; __main__.main(sys.argv[1:])"
    )
    words = [sys.executable, "-c", without, "export", f"--checkpoint={checkpoint}", f"--model={model.parent}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"model_digest: {result.parameters['model_digest']}\n" in done.stdout
    with pytest.raises(DataError, match="expected ffff"):
        export.run(ExportConfig(checkpoint=str(checkpoint), model=str(tmp_path / "model"), checkpoint_digest="f" * 64))
    assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before


def test_a_generator_other_than_the_saved_one_is_noticed(exported: Exported, tmp_path: Path) -> None:
    _, model, _ = exported
    other = saved_models.load_averaged(make_checkpoint(tmp_path, seed=2))
    with pytest.raises(StageError, match="serving_default draws other images"):
        make._check(model, other, 16)


def test_sampled_pixels_may_differ_by_rare_roundings_only() -> None:
    expected = np.full((10, 8, 8, 2), 7, np.uint8)
    drawn = expected.copy()
    drawn[0, 0, 0, 0] = 8
    make._require_same_pixels(drawn, expected)
    drawn[0] = 8
    with pytest.raises(StageError, match=r"10\.00%"):
        make._require_same_pixels(drawn, expected)
