"""A TPU is known by its device, without TensorFlow."""

from pathlib import Path

import pytest

from components.core.stage import hardware


@pytest.mark.parametrize(
    ("device", "expected"), [("accel0", True), ("vfio/0", True), ("vfio/vfio", False), ("null", False)]
)
def test_a_tpu_is_known_by_its_device(tmp_path: Path, device: str, expected: bool) -> None:
    (tmp_path / device).parent.mkdir(exist_ok=True)
    (tmp_path / device).touch()
    assert hardware.has_tpu(tmp_path) == expected
