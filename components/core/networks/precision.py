"""Precision in which networks multiply: float32, or bfloat16 where hardware makes it faster."""

import logging
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

log = logging.getLogger(__name__)

# NVIDIA's first to multiply in bfloat16: Ampere (CUDA C++ Programming Guide, "Arithmetic Instructions").
_BFLOAT16_CAPABILITY = (8, 0)
# Multiplies bfloat16 in tiles. AVX512-BF16 alone multiplies it too, but a training step took 0.72 of float32's time on
# one CPU, and 1.6 times as long on another.
_FAST_CPU_FLAG, _SLOWER_CPU_FLAG = "amx_bf16", "avx512_bf16"
_UNSUITABLE = "this hardware does not multiply bfloat16"


class Precision(NamedTuple):
    """A chosen precision, and why; both go into the log and into checkpoints."""

    name: str  # `float32` or `bfloat16`
    reason: str


def choose_precision(wanted: str, strategy: tf.distribute.Strategy) -> Precision:
    """Return the precision for networks; `auto` asks for the one that is surely the faster on this hardware."""
    if wanted != "auto":
        return Precision(wanted, "as set")
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return Precision("float32", "the TPU compiler estimates more cycles in bfloat16")
    if "GPU" in strategy.extended.worker_devices[0]:
        gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
        if all(details.get("compute_capability", (0, 0)) >= _BFLOAT16_CAPABILITY for details in gpus):
            return Precision("bfloat16", "these GPUs multiply it")
        return Precision("float32", _UNSUITABLE)
    flags = cpu_flags()
    if _FAST_CPU_FLAG in flags:
        return Precision("bfloat16", "this CPU multiplies it with AMX")
    return Precision("float32", "without AMX, bfloat16 may be slower" if _SLOWER_CPU_FLAG in flags else _UNSUITABLE)


def report(precision: Precision, strategy: tf.distribute.Strategy) -> None:
    """Log a precision; warn of bfloat16 where it is slow."""
    if precision.name == "bfloat16" and choose_precision("auto", strategy).reason == _UNSUITABLE:
        log.warning(
            "bfloat16 is slow on this hardware (on a CPU with AVX2 alone it was 7 times slower than float32); "
            "set precision to auto or float32"
        )
    log.info("networks multiply in %s (%s); weights, normalization, penalty, losses and slots are float32", *precision)


def cpu_flags() -> list[str]:
    """Return the features of the CPU as Linux names them; empty elsewhere, where float32 is the safe choice."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
