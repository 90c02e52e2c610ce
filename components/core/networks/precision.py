"""Precision in which networks multiply: float32, or bfloat16 where the hardware is fast at it."""

import logging
from pathlib import Path

import tensorflow as tf

log = logging.getLogger(__name__)

# NVIDIA's first to multiply in bfloat16: Ampere (CUDA C++ Programming Guide, "Arithmetic Instructions").
_BFLOAT16_CAPABILITY = (8, 0)
# Either multiplies bfloat16 in hardware; with the second alone a training step took three quarters of float32's
# processor time.
_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}


def choose_precision(wanted: str, strategy: tf.distribute.Strategy) -> str:
    """Return `float32` or `bfloat16`: `auto` is bfloat16 where every device is fast at it; warn where it is slow."""
    kind = "TPU" if isinstance(strategy, tf.distribute.TPUStrategy) else strategy.extended.worker_devices[0]
    fast = _is_fast(kind)
    if wanted == "auto":
        wanted = "bfloat16" if fast else "float32"
    if wanted == "bfloat16" and not fast:
        log.warning(
            "bfloat16 is slow on this hardware (on a CPU with AVX2 alone it was 7 times slower than float32); "
            "set precision to auto or float32"
        )
    log.info("networks multiply in %s; weights, normalization, penalty, losses and slots are float32", wanted)
    return wanted


def _is_fast(device: str) -> bool:
    if "TPU" in device:
        return True
    if "GPU" in device:
        found = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
        return all(details.get("compute_capability", (0, 0)) >= _BFLOAT16_CAPABILITY for details in found)
    return not _CPU_FLAGS.isdisjoint(cpu_flags())


def cpu_flags() -> list[str]:
    """Return the features of the CPU as Linux names them; empty elsewhere, where float32 is the safe choice."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
