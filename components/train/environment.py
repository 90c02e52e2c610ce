"""What the bits of a training depend on besides its settings, its data and its seed; noted in every checkpoint."""

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.core.distributed.strategies import kind_of, threads

# By which a checkpoint's `made_with` and a machine are compared. A checkpoint of an earlier version lacks some.
NAMES = ("code", "libraries", "accelerator", "replicas", "precision", "device", "onednn", "threads")
_LIBRARIES = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy")  # the others train nothing


def of(strategy: tf.distribute.Strategy, precision: str) -> dict[str, Any]:
    """What `made_with` says of the hardware, and of how TensorFlow computes on it."""
    kind = kind_of(strategy)
    # Where a GPU or a TPU computes, the processor's threads sum nothing.
    on_processor = kind != "tpu" and not tf.config.get_visible_devices("GPU")
    return {
        "accelerator": kind,
        "replicas": strategy.num_replicas_in_sync,
        "precision": precision,
        "device": _device(),
        # By TensorFlow's default it is on where it is built with it: on Linux on x86-64.
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        **({"threads": threads()} if on_processor else {}),
    }


def differences(former: Mapping[str, Any], now: Mapping[str, Any], exact: bool) -> list[str]:
    """What is other than where a checkpoint was made, so that the same bits are not promised.

    Args:
        former, now: `made_with` of the checkpoint, and of the next one.
        exact: Whether the number of replicas does not matter.
    """
    names = [name for name in NAMES if name in former and name in now and not (exact and name == "replicas")]
    pairs = {name: (former[name], now[name]) for name in names if name != "libraries"}
    if "libraries" in former and "libraries" in now:
        pairs |= {name: (former["libraries"].get(name), now["libraries"].get(name)) for name in _LIBRARIES}
    return [
        f"{name} was {old} and is {new}" + (f" (TF_NUM_INTRAOP_THREADS={old} restores it)" if name == "threads" else "")
        for name, (old, new) in pairs.items()
        if old != new
    ]


def _device() -> str:
    """The kind of processor, or of GPUs: two of the same compute alike."""
    gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    if gpus:
        return ", ".join(sorted({str(details.get("device_name", "GPU")) for details in gpus}))
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    # What it can do decides which kernels run; its name, and how many cores a machine has of it, do not.
    return f"{platform.machine()}, {hashlib.sha256(' '.join(sorted(flags)).encode()).hexdigest()[:12]}"
