"""The precision of networks, by setting and processor."""

import logging

import pytest
import tensorflow as tf

from components.core.networks.precision import choose_precision

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")


@pytest.mark.parametrize(
    ("flags", "auto", "warned"),
    [
        ("fpu avx2 avx512f", "float32", True),
        ("fpu avx2 avx512_bf16", "bfloat16", False),
        ("fpu avx2 amx_bf16 amx_tile", "bfloat16", False),
    ],
)
def test_auto_takes_bfloat16_only_where_the_processor_is_fast_at_it(
    flags: str, auto: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The processor's flags are given, because a test has only one processor."""
    monkeypatch.setattr("components.core.networks.precision.cpu_flags", lambda: flags.split())
    with caplog.at_level(logging.WARNING):
        assert choose_precision("auto", HERE) == auto
        assert choose_precision("float32", HERE) == "float32"
        assert not caplog.records
        assert choose_precision("bfloat16", HERE) == "bfloat16"
    assert ["bfloat16" in record.message for record in caplog.records] == [True] * warned
