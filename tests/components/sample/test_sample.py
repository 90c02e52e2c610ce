"""Tests for components/sample."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components import cli, grids
from components.publish import run as publish
from components.publish.config import PublishConfig
from components.sample.config import SampleConfig


@pytest.fixture(scope="module")
def published(
    tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Path], make_evaluation: Callable[..., Path]
) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("published")
    model = make_model(root)
    evaluation = make_evaluation(root / "evaluation", model)
    publish.run(PublishConfig(model=str(model), evaluation=str(evaluation), registry=str(root / "registry")))
    return model, root / "registry"


def _sample(*arguments: object) -> int:
    return cli.main("sample", SampleConfig, [str(argument) for argument in arguments])


def test_the_grid_shows_the_champions_images(published: tuple[Path, Path], tmp_path: Path) -> None:
    model, registry = published
    out = tmp_path / "grid.png"
    assert _sample("--registry", registry, "--count", 10, "--seed", 4, "--out", out) == 0
    images = tf.saved_model.load(str(model)).signatures["sample"](
        seed=tf.constant(4, tf.int64), count=tf.constant(10, tf.int64)
    )["images"]
    expected = Image.open(io.BytesIO(grids.png_grid(images.numpy())))
    np.testing.assert_array_equal(np.asarray(Image.open(out)), np.asarray(expected))


@pytest.mark.parametrize(
    ("registry", "out", "code", "message"),
    [
        ("nowhere", "grid.png", 65, "no registry at"),
        ("empty", "grid.png", 65, "nothing has been published"),
        ("broken", "grid.png", 65, "champion"),
        ("empty", "missing/grid.png", 64, "there is no folder"),
        ("empty", "empty", 64, "is a folder"),
    ],
)
def test_bad_input_is_named_and_shows_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, registry: str, out: str, code: int, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "champion.json").write_text("{")
    assert _sample("--registry", tmp_path / registry, "--out", tmp_path / out) == code
    assert message in caplog.text
    assert "Traceback" not in caplog.text
