"""The precision of networks, by setting and processor, and by speed where the processor multiplies bfloat16."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.networks import gan, precision
from components.core.networks.precision import choose_precision

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")
SMALL = gan.NetworkConfig(ImageShape(8, 8, 1), latent_size=4, base_filters=2)
WITH_UNIT = ["fpu avx2 avx512_bf16", "fpu avx2 amx_bf16 amx_tile"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WGAN_MIRRORS", str(tmp_path))
    return tmp_path


def give_flags(monkeypatch: pytest.MonkeyPatch, flags: str) -> None:
    """Replace the processor's flags, because a test has only one processor."""
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags.split())


def chosen(wanted: str, batch_size: int = 8) -> precision.Precision:
    return choose_precision(wanted, HERE, SMALL, batch_size)


def files_in(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.json"))


def test_without_a_unit_auto_is_float32_and_measures_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_flags(monkeypatch, "fpu avx2 avx512f")
    assert chosen("auto").name == "float32"
    assert not files_in(cache)


def test_with_one_auto_is_bfloat16_where_it_was_clearly_faster(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratios are of real steps: on two processors without AMX, and of small networks on one of them."""
    give_flags(monkeypatch, WITH_UNIT[0])
    chosen("auto")
    (file,) = files_in(cache)
    assert set(json.loads(file.read_text())) == set(precision.PRECISIONS)
    for ratio, expected in [(1.58, "float32"), (0.95, "float32"), (0.72, "bfloat16")]:
        file.write_text(json.dumps({"float32": 0.05, "bfloat16": 0.05 * ratio}))
        measured = chosen("auto")
        assert measured.name == expected
        assert "50 ms" in measured.reason
        assert [chosen(name).name for name in precision.PRECISIONS] == list(precision.PRECISIONS)
    assert files_in(cache) == [file]


def test_another_processor_is_measured_anew_as_after_damage(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "passes", lambda *of: lambda: tf.zeros([]))
    monkeypatch.setattr(precision, "_SECONDS", 0.01)
    for flags in WITH_UNIT:
        give_flags(monkeypatch, flags)
        chosen("auto", batch_size=1)
    assert len(files_in(cache)) == 2
    for file in files_in(cache):
        file.write_text("{")
    chosen("auto", batch_size=1)  # of the second processor
    assert sorted(file.read_text() == "{" for file in files_in(cache)) == [False, True]


def test_the_least_time_of_several_counts_and_each_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def run(name: str, seconds: list[float]) -> tf.Tensor:
        order.append(name)
        end = time.process_time() + (seconds.pop() if len(seconds) > 1 else seconds[0])
        while time.process_time() < end:
            pass
        return tf.zeros([])

    times = {"float32": [0.04, 0.1, 0.1], "bfloat16": [0.02, 0.2]}
    monkeypatch.setattr(precision, "passes", lambda network, count, name: lambda: run(name, times[name]))
    least = precision.measured(SMALL, 8)
    assert least["bfloat16"] < least["float32"] < 0.1
    assert order == ["float32", "bfloat16"] * (len(order) // 2)


@pytest.mark.parametrize("classes", [0, 3])
def test_a_pass_multiplies_in_its_precision(classes: int) -> None:
    """The products and convolutions of the compiled pass, forward and backward, have its type; but for the scores."""
    network = gan.NetworkConfig(ImageShape(8, 8, 3), latent_size=4, base_filters=2, classes=classes)
    for name in precision.PRECISIONS:
        graph = precision.passes(network, 2, name).get_concrete_function().graph  # type: ignore[attr-defined]
        types = [op.outputs[0].dtype.name for op in graph.get_operations() if "Conv2D" in op.type]
        assert len(types) > 10
        assert types.count(name) == len(types)


def test_large_images_are_measured_by_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def passes(network: gan.NetworkConfig, count: int, name: str) -> Callable[[], tf.Tensor]:
        counts.append(count)
        return lambda: tf.zeros([])

    monkeypatch.setattr(precision, "passes", passes)
    monkeypatch.setattr(precision, "_SECONDS", 0.01)
    for network in (gan.NetworkConfig(ImageShape(256, 256, 3), 128, 64), SMALL):
        precision.measured(network, 64)
    assert counts == [1, 1, 64, 64]


def test_bfloat16_is_warned_of_where_slow(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for flags, warned in [("fpu avx2 avx512f", True), *((flags, False) for flags in WITH_UNIT)]:
        give_flags(monkeypatch, flags)
        for name in precision.PRECISIONS:
            caplog.clear()
            with caplog.at_level(logging.INFO):
                precision.report(precision.Precision(name, "for this reason"), HERE)
            warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
            assert ["bfloat16" in message for message in warnings] == [True] * (warned and name == "bfloat16")
            assert "for this reason" in caplog.text
