"""Hardware and libraries, which decide the bits of a training beside settings, data and seed; in every checkpoint."""

import hashlib
import os
import platform
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from components.core.distributed.strategies import kind_of, threads
from components.core.networks.precision import cpu_flags

# The fields of `made_with` to compare. On a GPU or TPU there are no `threads`.
NAMES = ("code", "accelerator", "replicas", "precision", "device", "onednn", "threads")
# Other libraries take no part in training.
_LIBRARIES = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy")


def of(strategy: tf.distribute.Strategy, precision: str) -> dict[str, Any]:
    """Return the fields of `made_with` about the hardware and TensorFlow's use of it."""
    kind, gpus = kind_of(strategy), tf.config.get_visible_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    # A CPU's flags decide which kernels run; its name and number of cores do not.
    flags = hashlib.sha256(" ".join(sorted(cpu_flags())).encode()).hexdigest()[:12]
    names = ", ".join(sorted({str(detail.get("device_name", "GPU")) for detail in details}))
    return {
        "accelerator": kind,
        "replicas": strategy.num_replicas_in_sync,
        "precision": precision,
        "device": names if gpus else f"{platform.machine()}, {flags}",  # two of a kind compute the same bits
        # on by default in builds that have it: for Linux on x86-64
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        **({} if gpus or kind == "tpu" else {"threads": threads()}),
    }


def differences(previous: Mapping[str, Any], current: Mapping[str, Any], exact: bool) -> list[str]:
    """Return the differences in `made_with` of two checkpoints that may change bits; `exact` allows other replicas."""
    names = [name for name in NAMES if name in previous and name in current and not (exact and name == "replicas")]
    pairs = {name: (previous[name], current[name]) for name in names}
    pairs |= {name: (previous["libraries"].get(name), current["libraries"].get(name)) for name in _LIBRARIES}
    return [
        f"{name} was {old} and is {new}" + (f" (TF_NUM_INTRAOP_THREADS={old} restores it)" if name == "threads" else "")
        for name, (old, new) in pairs.items()
        if old != new
    ]
