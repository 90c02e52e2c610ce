"""The precision of networks, by setting and processor."""

import pytest
import tensorflow as tf

from components.core.networks import precision


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
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags.split())
    here = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert precision.choose_precision("auto", here).name == expected
    assert [precision.choose_precision(name, here).name for name in precision.PRECISIONS] == [*precision.PRECISIONS]
