"""Small real inputs that many tests share, and what tests undo."""

import collections
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import datasets
from tests import programs, properties
from tests.fakes.gcs.server import Server, serving
from tests.inputs import artifacts

pytest_plugins = ["tests.inputs.sources"]

# Tests run beside each other; TensorFlow's chatter would bury their messages.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
properties.register_profiles()
_UMASK = programs.umask()


def write_dataset(
    folder: Path, shape: datasets.ImageShape, counts: dict[str, int], classes: int, seed: int = 0
) -> Path:
    """Write a dataset of blobs whose position shows their class: learnable by eye and by network."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape.height, : shape.width]
    examples = {}
    for split, count in counts.items():
        labels = generator.integers(0, classes, count) if classes else np.full(count, datasets.NO_LABEL)
        center = (labels + 1) * shape.width / (max(classes, 1) + 1) + generator.normal(0, 0.3, count)
        distance = (rows[None] - shape.height / 2) ** 2 + (columns[None] - center[:, None, None]) ** 2
        gray = 255 * np.exp(-distance / 4) * generator.uniform(0.6, 1, (count, 1, 1))
        images = np.repeat(gray[..., None], shape.channels, axis=3).astype(np.uint8)
        examples[split] = images, labels
    artifacts.write_dataset(folder, examples, [str(label) for label in range(classes)])
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per missing dependency: how many tests it skips, and the command that provides it."""
    reasons = (str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(collections.Counter(reasons).items()):
        terminalreporter.line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    """Undo what a stage or a verb of `wgan` does that a test calls in this process."""
    yield
    os.umask(_UMASK)


@pytest.fixture(scope="session", autouse=True)
def terminal_signals() -> Iterator[None]:
    """Let SIGINT and SIGHUP act in processes that tests start, even if pytest ignores them, as in `make test &`."""
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """Serve buckets to this process and its children; retries do not wait, and nothing is mirrored yet."""
    from components.core.storage import buckets

    monkeypatch.setattr(buckets, "FIRST_DELAY_SECONDS", 0.001)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with serving() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


@pytest.fixture
def bucket(gcs: Server) -> Server:
    gcs.create_bucket("b")
    return gcs


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a bucket fail at their first error, for outages that outlast every retry."""
    from components.core.storage import buckets

    monkeypatch.setattr(buckets, "RETRY_SECONDS", 0.0)


@pytest.fixture(scope="session")
def tiny_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 training, 40 validation and 120 test images of 12x10x1 in 3 classes."""
    counts = {"train": 300, "validation": 40, "test": 120}
    return write_dataset(tmp_path_factory.mktemp("data") / "tiny", datasets.ImageShape(12, 10, 1), counts, 3)


@pytest.fixture(scope="session")
def unlabeled_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such images in color, without classes."""
    counts = {"train": 400, "validation": 20, "test": 60}
    return write_dataset(tmp_path_factory.mktemp("data") / "unlabeled", datasets.ImageShape(9, 16, 3), counts, 0)


@pytest.fixture(scope="session")
def fashion_mnist() -> Path:
    folder = os.environ.get("FASHION_MNIST_DIR")
    if not folder:
        pytest.skip("no Fashion-MNIST: set FASHION_MNIST_DIR to the folder of its four files (*-ubyte.gz)")
    return Path(folder)


def classes_seen(pixels: np.ndarray) -> np.ndarray:
    """Return the class whose position is nearest to the center of each image's light; see `write_dataset`."""
    columns = pixels.sum(axis=(1, 3), dtype=np.float64)
    middle = columns @ np.arange(10) / columns.sum(axis=1)
    return np.abs(middle[:, None] - np.arange(1, 4) * 10 / 4).argmin(axis=1)
