"""`make prove-gpu`, as far as a machine without a GPU can run it: its parts made small, its limits, its verdicts."""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.training.our_step import compile_updates
from components.core.artifacts.datasets import ImageShape
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import WganStep, network_of
from tests.proofs.gpu import __main__ as prove_gpu
from tests.proofs.gpu.__main__ import Part

STEP = {
    "targets": {"times_keras": 2.5, "times_torch": 0.9},
    "contenders": {"ours": {"seconds_per_step": 0.002, "peak_bytes": 2**30}},
    "failed": {"PyTorch": "no such file"},
}


def passed(found: object) -> dict[str, Any]:
    return {"outcome": prove_gpu.PASSED, "seconds": 1.0, "found": found}


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has NVIDIA's driver")
def test_without_a_gpu_it_ends_at_once_and_names_the_remedy() -> None:
    """Before anything is installed: -S leaves the standard library alone."""
    command = [sys.executable, "-S", "-m", "tests.proofs.gpu", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=prove_gpu.ROOT)
    assert done.returncode == 64
    assert "libcuda.so.1" in done.stderr
    assert "DEVICE=cpu" in done.stderr


def test_verdicts_compare_with_the_targets() -> None:
    found = {what: outcome for what, _, _, outcome in prove_gpu.verdicts({"step": passed(STEP)})}
    assert list(found.values()) == ["passed", "met", "MISSED"]
    unmeasured = passed({**STEP, "targets": {"times_keras": 2.5, "times_torch": None}})
    assert [outcome for *_, outcome in prove_gpu.verdicts({"step": unmeasured})][1:] == ["met", "not measured"]
    failed = {"outcome": "FAILED with exit code 1", "seconds": 1.0, "found": []}
    assert [outcome for *_, outcome in prove_gpu.verdicts({"step": failed})][1:] == ["not measured"] * 2
    assert prove_gpu.verdicts({"bits": passed({})}) == [("bits", "passed", "1.0 s", "passed")]


def test_tables_have_contenders_failures_and_quality() -> None:
    quality = {"checkpoints": [{"step": 2000, "seconds": 9.5, "fcd": 0.8769}], "seconds": {}}
    text = prove_gpu.as_markdown("gpu", {"step": passed(STEP), "quality": passed(quality)})
    assert "| ours | 2.000 | 1024 |" in text
    assert "| PyTorch | failed |  |" in text
    assert "| 2,000 | 9.5 | 0.877 |" in text


def test_a_part_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    result = prove_gpu.run(Part("hangs", 2, ("-c", code)), sys.executable, tmp_path)
    assert result["outcome"].startswith("FAILED")
    assert json.loads((tmp_path / "hangs.json").read_text()) == result
    (child,) = map(int, result["found"])
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "\tZ" in Path(f"/proc/{child}/status").read_text():
            return
        time.sleep(0.1)
    os.kill(child, 9)
    pytest.fail("the child lives on")


def test_a_part_that_fails_is_kept_with_its_log(tmp_path: Path) -> None:
    code = "import sys; print('[1, 2]'); sys.exit('reason')"
    result = prove_gpu.run(Part("fails", 60, ("-c", code)), sys.executable, tmp_path)
    assert result["found"] == [1, 2]
    assert result["outcome"].endswith(" 1")
    assert "reason" in (tmp_path / "fails.log").read_text()


@pytest.mark.slow
def test_the_step_that_xla_compiles_is_the_same() -> None:
    """The benchmark's way to compile leaves noise outside, so that both steps draw the same."""
    config = TrainConfig(dataset="none", checkpoints="none", batch_size=4, latent_size=4, base_filters=2)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 1, 4, 12, 10, 1), dtype=np.uint8)
    states = []
    with in_float64():
        for compiled in (False, True):
            step = WganStep(
                config, network_of(config, ImageShape(12, 10, 1)), tf.distribute.OneDeviceStrategy("/cpu:0")
            )
            if compiled:
                compile_updates(step)
            step.run_block(pixels)
            states.append(step.state_arrays())
    plain, by_xla = states
    for name, value in plain.items():
        np.testing.assert_allclose(by_xla[name], value, rtol=1e-6, atol=1e-9, err_msg=name)
    assert any(not np.array_equal(value, by_xla[name]) for name, value in plain.items())  # another order of sums


@pytest.mark.slow
def test_parts_pass_on_a_cpu(tmp_path: Path) -> None:
    parts = {part.name: part for part in prove_gpu.parts_of("cpu", sys.executable, tmp_path)}
    found = {name: prove_gpu.run(parts[name], sys.executable, tmp_path) for name in ("machine", "replicas")}
    assert {of["outcome"] for of in found.values()} == {prove_gpu.PASSED}, found
    assert {outcome for _, _, outcome, _ in found["replicas"]["found"]} == {"passed"}
    assert {mode for mode, *_ in found["replicas"]["found"]} == {"standard", "exact"}
