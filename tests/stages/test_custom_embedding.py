"""Tests for a custom embedding: small real SavedModels through the embed stage and through evaluate."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.core.artifacts import datasets, embeddings, evaluations
from components.core.artifacts.datasets import ImageShape
from components.core.data import dataset_reader
from components.core.errors import ConfigError, DataError
from components.core.metrics import feature_spaces, set_distances
from components.core.metrics.whitening import fit_whitening
from components.core.networks import gan, saved_models
from components.core.stage import inputs
from components.embed import run as embed
from components.embed.config import EmbedConfig
from components.embed.custom import CustomNetwork
from components.evaluate import run as evaluate
from components.evaluate.config import EvaluateConfig
from tests import programs
from tests.inputs import artifacts
from tests.inputs.limits import NO_LIMITS
from tests.inputs.stages import make_checkpoint, make_dataset, make_model
from tests.proofs.stages import command

pytestmark = pytest.mark.slow

SIDE, FEATURES = 16, 24
COLORED = tf.TensorSpec([None, SIDE, SIDE, 3], tf.float32, name="pixels")


def weights(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(SIDE * SIDE * 3, FEATURES)).astype(np.float32) / SIDE


def save(folder: Path, features: Any = None, spec: tf.TensorSpec = COLORED, signed: bool = True, seed: int = 0) -> str:
    """Save a projection of the pixels, bent by an operation with its own gradient; or another function."""
    module = tf.Module()
    module.weights = tf.Variable(weights(seed))

    def project(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.reshape(tf.cast(pixels, tf.float32), [-1, SIDE * SIDE * 3])
        return {"features": tf.nn.silu(rows @ module.weights)}

    served = tf.function(features or project, input_signature=[spec] if isinstance(spec, tf.TensorSpec) else spec)
    module.served = served
    tf.saved_model.save(module, str(folder), signatures={"serving_default": served} if signed else {})
    return str(folder)


def in_numpy(images: np.ndarray) -> np.ndarray:
    """Compute that projection of gray images of its own size: float64 [n, 24]."""
    pixels = np.repeat(images.astype(np.float64) / 127.5 - 1, 3, axis=3).reshape(len(images), -1)
    projected = pixels @ weights().astype(np.float64)
    return projected / (1 + np.exp(-projected))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def dataset(root: Path) -> str:
    return make_dataset(root / "dataset", {"train": 700, "validation": 10, "test": 400}, ImageShape(SIDE, SIDE, 1))


@pytest.fixture(scope="module")
def embedding(root: Path, dataset: str) -> Path:
    """An embedding of a SavedModel that is deleted afterwards."""
    location = save(root / "given once")
    custom: dict[str, Any] = {"custom_embedding": location, "custom_embedding_name": "mine"}
    made = embed.run(EmbedConfig(dataset=dataset, embedding=str(root / "embedding"), classifier_epochs=1, **custom))
    shutil.rmtree(location)
    return Path(str(made.parameters["embedding_uri"]))


@pytest.fixture(scope="module")
def two_checkpoints(root: Path, dataset: str) -> list[Path]:
    digest, image = datasets.Manifest.of(dataset).digest, ImageShape(SIDE, SIDE, 1)
    return [make_checkpoint(root / "checkpoints", seed, image, digest) for seed in (0, 1)]


def test_its_space_is_the_first_and_the_classifier_tells_the_classes(embedding: Path, dataset: str) -> None:
    loaded = feature_spaces.load(embedding)
    assert [space.name for space in loaded.manifest.spaces] == ["mine", "untrained", "faults"]
    assert loaded.manifest.spaces[0].feature_size == FEATURES
    images = dataset_reader.load_split(Path(dataset), datasets.Manifest.of(dataset), "train")[0]
    features, outputs = loaded.embed(images)
    assert outputs["logits"].shape == (700, 3)
    # Both are white, so that inner products do not depend on the choice of axes.
    expected = fit_whitening(in_numpy(images), 40)(in_numpy(images))
    np.testing.assert_allclose(features["mine"] @ features["mine"].T, expected @ expected.T, rtol=0, atol=0.02)


def test_scores_and_rules_go_by_its_name_and_are_those_of_its_features(
    two_checkpoints: list[Path], dataset: str, embedding: Path, tmp_path: Path
) -> None:
    """Those of a model and of the champion, the first checkpoint's."""
    artifacts.crown(tmp_path / "registry", make_model(tmp_path, 0, ImageShape(SIDE, SIDE, 1)), 1)
    inputs = {"checkpoint": two_checkpoints[1], "embedding": embedding, "registry": tmp_path / "registry"}
    locations: dict[str, Any] = {name: str(path) for name, path in {**inputs, "evaluation": tmp_path / "e"}.items()}
    result = evaluate.run(EvaluateConfig(dataset=dataset, sample_count=400, **locations, **NO_LIMITS))
    manifest = datasets.Manifest.of(dataset)
    train, test = (dataset_reader.load_split(Path(dataset), manifest, split)[0] for split in ("train", "test"))
    latents = tf.random.stateless_normal([400, 16], [0, 0], alg="philox")
    whiten = fit_whitening(in_numpy(train), 40)
    for checkpoint, name in zip(two_checkpoints, ("champion_mine_fd", "mine_fd"), strict=True):
        drawn = gan.to_pixels(saved_models.load_averaged(checkpoint)(latents, training=False)).numpy()
        expected = set_distances.frechet_distance(whiten(in_numpy(drawn)), whiten(in_numpy(test)))
        assert result.metrics[name] == pytest.approx(expected, rel=1e-3)
    assert {"mine_kd", "mine_recall", "untrained_fcd", "class_distance"} <= result.metrics.keys()
    assert "fcd" not in result.metrics
    assert f"mine_fd {result.metrics['mine_fd']:.3g}" in str(result.parameters["summary"])
    evaluation = Path(str(result.parameters["evaluation_uri"]))
    assert json.loads((evaluation / evaluations.METRICS).read_text())["distance"] == "mine_fd"
    assert "(mine_fd)" in (evaluation / evaluations.REPORT).read_text()
    rules = {rule["rule"]: rule["value"] for rule in evaluations.Manifest.of(evaluation).rules}
    assert {"mine_fd_corrected", "untrained_fcd_corrected", "mine_recall against real images"} <= rules.keys()
    assert {"mine_recall less the champion's", "mine_coverage less the champion's"} <= rules.keys()
    assert any("kernel distance (mine)" in rule for rule in rules)
    assert None not in rules.values()


def test_one_that_tells_faults_badly_fails_its_certificate(tmp_path: Path) -> None:
    """It only sees whether each of four strips of an image is bright, so most images look alike to it."""
    dataset = make_dataset(tmp_path / "dataset", {"train": 2000, "test": 2000}, classes=[])

    def bright(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"bright": tf.sign(tf.reduce_mean(tf.reshape(pixels, [-1, 4, 2 * 8 * 3]), 2) + 0.3)}

    location = save(tmp_path / "given", bright, tf.TensorSpec([None, 8, 8, 3]))
    config = EmbedConfig(
        dataset=dataset, embedding=str(tmp_path / "e"), custom_embedding=location, custom_embedding_name="strips"
    )
    outputs = embed.run(config).parameters
    assert str(outputs["summary"]).endswith("certificate: failed")
    checks = embeddings.Manifest.of(str(outputs["embedding_uri"])).certificate["checks"]
    failed = {check["check"] for check in checks if check["space"] == "strips" and not check["passed"]}
    assert {check.split()[0] for check in failed} >= {"density", "coverage"}


@pytest.fixture(scope="module")
def colored(unlabeled_dataset: Path, root: Path) -> Callable[..., EmbedConfig]:
    """Settings for images of 9x16x3 without classes, which must be resized."""

    def config(location: str, folder: str = "colored", **changes: Any) -> EmbedConfig:
        return EmbedConfig(
            dataset=str(unlabeled_dataset),
            embedding=str(root / folder),
            custom_embedding=location,
            **{"custom_embedding_name": "mine", **changes},
        )

    return config


def test_what_it_holds_is_in_the_key_and_where_it_lies_is_not(colored: Callable[..., EmbedConfig], root: Path) -> None:
    original = save(root / "here")
    copied = shutil.copytree(original, root / "there")
    result = embed.run(colored(original))
    assert str(result.parameters["summary"]).startswith("mine, custom; ")
    assert embed.run(colored(str(copied))) == dataclasses.replace(result, reused=True)

    # A new process elsewhere, with a copy, makes the same artifact.
    config = colored(str(copied), "again")
    names = ("dataset", "embedding", "custom_embedding", "custom_embedding_name")
    done = programs.run(command("embed", **{name: getattr(config, name) for name in names}))
    assert f"embedding_digest: {result.parameters['embedding_digest']}" in done.stdout, done.stderr
    other = save(root / "other", seed=1)
    shutil.copy(Path(original, inputs.GRAPH), other)  # so that only the weights differ
    assert embed.run(colored(other)).parameters["embedding_uri"] != result.parameters["embedding_uri"]
    digest = inputs.digest_of_embedding(original)
    with pytest.raises(DataError, match=f"{inputs.digest_of_embedding(other)}, expected {digest}"):
        embed.run(colored(other, custom_embedding_digest=digest))
    Path(other, inputs.GRAPH).write_bytes(b"no graph")
    with pytest.raises(DataError, match=f"custom_embedding .*{other}"):
        embed.run(colored(other))
    with pytest.raises(DataError, match=r"no SavedModel: saved_model\.pb"):
        inputs.digest_of_embedding(str(root))


def _many(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
    rows = tf.reshape(pixels, [-1, SIDE * SIDE * 3])
    return {"logits": rows[:, :2], "pooled": rows[:, :5], "map": pixels}


@pytest.mark.parametrize(
    ("saved", "settings", "named"),
    [
        ({"signed": False}, {}, "serving_default"),
        ({"features": _many}, {}, r"logits float32 \(None, 2\).* custom_embedding_output"),
        ({"features": _many}, {"custom_embedding_output": "x"}, "custom_embedding_output, .* and 'x'"),
        ({"features": _many}, {"custom_embedding_output": "map"}, r"map float32 \(None, 16, 16, 3\)"),
        ({}, {"custom_embedding_size": 32}, r"32x32x3.* float32 \(None, 16, 16, 3\).* custom_embedding_size"),
        ({"spec": tf.TensorSpec([1, 16, 16, 3])}, {}, r"float32 \(1, 16, 16, 3\)"),
        ({"spec": tf.TensorSpec([None, 16, 16, 1])}, {}, r"16x16x3.* float32 \(None, 16, 16, 1\)"),
        ({"features": lambda x: {"f": tf.reduce_mean(x, [1, 2]) / 0.0}}, {}, "custom_embedding_range"),
        ({"features": lambda x: {"f": tf.reduce_mean(x, [0, 1])}}, {}, r"\(16, 3\) for 8 images in f"),
        ({"features": lambda x: {"f": tf.reshape(x, [-1, 768]) - tf.reduce_mean(x)}}, {}, "batch"),
        ({"features": lambda x: {"f": tf.repeat(tf.reshape(x, [-1, 768]), 6, 1)}}, {}, "4608 .*4096"),
        ({"spec": tf.TensorSpec([None, None, None, 3])}, {}, "9x16x3.*custom_embedding_size"),
    ],
)
def test_what_cannot_be_used_is_refused(
    colored: Callable[..., EmbedConfig], tmp_path: Path, saved: dict[str, Any], settings: dict[str, Any], named: str
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 9, 16, 3), dtype=np.uint8)
    with pytest.raises(DataError, match=named):
        CustomNetwork(colored(save(tmp_path, **saved), **settings), tmp_path, images)


def test_names_and_the_lack_of_one_are_checked(colored: Callable[..., EmbedConfig]) -> None:
    for name in ("", "classifier", "untrained", "class", "Mine", "1st", "a b", "x" * 32):
        with pytest.raises(ConfigError, match=f"custom_embedding_name .*'{name}'"):
            colored("somewhere", custom_embedding_name=name)
    with pytest.raises(ConfigError, match=r"custom_embedding_name .*'mine'"):
        colored("")


@pytest.mark.parametrize(("channels", "values"), [(3, "-1..1"), (1, "0..1"), (3, "0..255")])
def test_images_are_resized_without_aliasing_scaled_and_tiled(
    colored: Callable[..., EmbedConfig], tmp_path: Path, channels: int, values: str
) -> None:
    """Pillow's bilinear filter, which widens with the reduction, is the oracle."""
    save(tmp_path, lambda x: {"rows": tf.reshape(x, [-1, 64 * channels])}, tf.TensorSpec([None, 8, 8, channels]))
    config = colored(str(tmp_path), custom_embedding_size=8, custom_embedding_range=values)
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 5, 1), dtype=np.uint8)
    network = CustomNetwork(config, tmp_path, images)
    features = network.features(tf.constant(images)).numpy().reshape(3, 8, 8, channels)
    black, white = (float(end) for end in values.split(".."))
    for image, one in zip(images, features, strict=True):
        gray = Image.fromarray(image[..., 0].astype(np.float32)).resize((8, 8), Image.Resampling.BILINEAR)
        expected = black + (white - black) * np.asarray(gray) / 255
        np.testing.assert_allclose(one, np.repeat(expected[..., None], channels, 2), atol=1e-4 * (white - black))
