"""Grids of a champion's images, of any class or one, from a folder and a bucket; input that is refused."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.core.networks import gan
from components.core.reporting import grids
from components.core.stage import cli
from components.core.storage import atomic_files, buckets
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts
from tests.inputs.stages import make_model

Champion = tuple[Any, Path]  # its model's signatures, and its registry


def champion_of(root: Path, class_counts: Sequence[int] = ()) -> Champion:
    model = make_model(root, class_counts=class_counts)
    artifacts.crown(root / "registry", model, 1)
    return tf.saved_model.load(str(model)).signatures, root / "registry"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Champion:
    return champion_of(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def conditional(tmp_path_factory: pytest.TempPathFactory) -> Champion:
    """Of the classes dark, left and right."""
    return champion_of(tmp_path_factory.mktemp("conditional"), [10, 20, 30])


def _sample(*arguments: object) -> int:
    return cli.main("sample", [str(argument) for argument in arguments])


def test_the_grid_shows_the_champions_images_in_a_folder_and_in_a_bucket(
    published: Champion, tmp_path: Path, bucket: Server
) -> None:
    flags = ("--registry", "gs://b/registry", "--count", 10, "--seed", 4)
    assert _sample(*flags, "--out", tmp_path / "none.png") == 65
    for path in published[1].rglob("*"):
        if path.is_file():
            buckets.create(f"gs://b/registry/{path.relative_to(published[1]).as_posix()}", path)
    assert _sample(*flags, "--out", tmp_path / "there.png") == 0
    assert _sample("--registry", published[1], *flags[2:], "--out", tmp_path / "here.png") == 0
    assert (tmp_path / "there.png").read_bytes() == (tmp_path / "here.png").read_bytes()
    assert (tmp_path / "here.png").read_bytes() == _square(published[0], 10)


def _square(signatures: Any, count: int) -> bytes:
    drawn = signatures["sample"](seed=tf.constant(4, tf.int64), count=tf.constant(count, tf.int64))
    return grids.png_grid(drawn["images"].numpy())


def test_too_few_images_for_a_row_of_each_class_are_a_square_of_any(conditional: Champion, tmp_path: Path) -> None:
    signatures, registry = conditional
    assert _sample("--registry", registry, "--count", 5, "--seed", 4, "--out", tmp_path / "grid.png") == 0
    assert (tmp_path / "grid.png").read_bytes() == _square(signatures, 5)


@pytest.mark.parametrize(
    ("flags", "labels", "columns"),
    [
        ((), [0] * 3 + [1] * 3 + [2] * 3, 3),
        (("--class_name", "right"), [2] * 10, 0),
        (("--class_name", "1"), [1] * 10, 0),
    ],
)
def test_a_conditional_champion_draws_the_class_asked_for_or_every_class_a_row(
    conditional: Champion, tmp_path: Path, flags: tuple[str, ...], labels: list[int], columns: int
) -> None:
    signatures, registry = conditional
    out = tmp_path / "grid.png"
    assert _sample("--registry", registry, "--count", 10, "--seed", 4, "--out", out, *flags) == 0
    # The latents of a column are those of its number in `sample`.
    seed = tf.constant(4, tf.int64)
    latents = tf.random.stateless_normal([64, 16], tf.stack([seed, 0]), alg="philox").numpy()
    latents = np.tile(latents[:columns], (3, 1)) if columns else latents[: len(labels)]
    served = signatures["serving_default"](latents=tf.constant(latents), labels=tf.constant(labels, tf.int32))["images"]
    expected = Image.open(io.BytesIO(grids.png_grid(gan.to_pixels(served).numpy(), columns)))
    np.testing.assert_allclose(np.asarray(Image.open(out)).astype(int), np.asarray(expected), rtol=0, atol=1)


def test_a_class_that_the_champion_does_not_draw_is_named(
    published: Champion, conditional: Champion, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "grid.png"
    assert _sample("--registry", conditional[1], "--class_name", "3", "--out", out) == 64
    assert "(0 dark, 1 left, 2 right), got '3'" in caplog.text
    assert _sample("--registry", published[1], "--class_name", "dark", "--out", out) == 64
    assert "class_name is 'dark'" in caplog.text
    assert not out.exists()


@pytest.mark.parametrize(
    ("registry", "out", "code", "named"),
    [
        ("nowhere", "grid.png", 65, "nowhere"),
        ("broken", "grid.png", 65, "champion"),
        ("empty", "missing/grid.png", 64, "missing"),
    ],
)
def test_bad_input_is_named_and_shows_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, registry: str, out: str, code: int, named: str
) -> None:
    (tmp_path / "empty").mkdir()
    atomic_files.write_file(tmp_path / "broken" / "champion.json", b"{")
    assert _sample("--registry", tmp_path / registry, "--out", tmp_path / out) == code
    assert named in caplog.text
    assert "Traceback" not in caplog.text
