"""The precision of networks, by setting and processor."""

import logging

import pytest
import tensorflow as tf

from components.core.networks import precision

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")


def give_flags(monkeypatch: pytest.MonkeyPatch, flags: str) -> None:
    """Replace the processor's flags, because a test has only one processor."""
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags.split())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 avx512f", "float32"),
        ("fpu avx2 avx512_bf16", "float32"),
        ("fpu avx2 amx_bf16 amx_tile", "bfloat16"),
    ],
)
def test_auto_is_bfloat16_where_the_processor_has_amx(
    flags: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_flags(monkeypatch, flags)
    assert precision.choose_precision("auto", HERE).name == expected
    assert [precision.choose_precision(name, HERE).name for name in precision.PRECISIONS] == [*precision.PRECISIONS]


def test_bfloat16_is_warned_of_where_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for flags, warned in [("fpu avx2 avx512f", True), ("fpu avx2 avx512_bf16", False), ("fpu amx_bf16", False)]:
        give_flags(monkeypatch, flags)
        for name in precision.PRECISIONS:
            caplog.clear()
            with caplog.at_level(logging.INFO):
                precision.report(precision.Precision(name, "for this reason"), HERE)
            warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
            assert ["bfloat16" in message for message in warnings] == [True] * (warned and name == "bfloat16")
            assert "for this reason" in caplog.text
