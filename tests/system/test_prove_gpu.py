"""`make prove-gpu`, as far as a machine without a GPU can run it: its parts made small."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.training.our_step import compile_updates
from components.core.artifacts.datasets import ImageShape
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import WganStep, network_of
from tests.proofs.gpu import __main__ as prove_gpu


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
