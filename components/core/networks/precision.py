"""Precision in which networks multiply: float32, or bfloat16 where hardware makes it faster."""

import dataclasses
import logging
from pathlib import Path

import tensorflow as tf

log = logging.getLogger(__name__)

PRECISIONS = ("float32", "bfloat16")
# NVIDIA's first to multiply in bfloat16: Ampere (CUDA C++ Programming Guide, "Arithmetic Instructions").
_BFLOAT16_CAPABILITY = (8, 0)
# Multiplies bfloat16 in tiles. AVX512-BF16 alone multiplies it too, but a training step took 0.72 of float32's time on
# one CPU, and 1.6 times as long on another.
_FAST_CPU_FLAG = "amx_bf16"
_CPU_FLAGS = {_FAST_CPU_FLAG, "avx512_bf16"}


@dataclasses.dataclass(frozen=True)
class Precision:
    """A chosen precision, and why; both go into the log and into checkpoints."""

    name: str  # `float32` or `bfloat16`
    reason: str


def choose_precision(wanted: str, strategy: tf.distribute.Strategy) -> Precision:
    """Return the precision for networks; `auto` asks for the one that is surely the faster on this hardware."""
    if wanted != "auto":
        return Precision(wanted, "as set")
    device = _device(strategy)
    if "TPU" in device:
        return Precision("float32", "the TPU compiler estimates more cycles in bfloat16")
    if not _multiplies_bfloat16(device):
        return Precision("float32", "this hardware does not multiply bfloat16")
    if "GPU" in device:
        return Precision("bfloat16", "these GPUs multiply it")
    if _FAST_CPU_FLAG not in cpu_flags():
        return Precision("float32", "without AMX, bfloat16 is not surely faster")
    return Precision("bfloat16", "this CPU multiplies it with AMX")


def report(precision: Precision, strategy: tf.distribute.Strategy) -> None:
    """Log a precision; warn of bfloat16 where it is slow."""
    if precision.name == "bfloat16" and not _multiplies_bfloat16(_device(strategy)):
        log.warning(
            "bfloat16 is slow on this hardware (on a CPU with AVX2 alone it was 7 times slower than float32); "
            "set precision to auto or float32"
        )
    log.info(
        "networks multiply in %s (%s); weights, normalization, penalty, losses and slots are float32",
        *dataclasses.astuple(precision),
    )


def _device(strategy: tf.distribute.Strategy) -> str:
    return "TPU" if isinstance(strategy, tf.distribute.TPUStrategy) else str(strategy.extended.worker_devices[0])


def _multiplies_bfloat16(device: str) -> bool:
    if "TPU" in device:
        return True
    if "GPU" in device:
        gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
        return all(details.get("compute_capability", (0, 0)) >= _BFLOAT16_CAPABILITY for details in gpus)
    return not _CPU_FLAGS.isdisjoint(cpu_flags())


def cpu_flags() -> list[str]:
    """Return the features of the CPU as Linux names them; empty elsewhere, where float32 is the safe choice."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
