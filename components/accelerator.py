"""From what the user asks for to a `tf.distribute` strategy: TPU, GPUs, or one or more virtual CPU devices."""

import logging
import os
from pathlib import Path

import tensorflow as tf

from components.errors import ConfigError

log = logging.getLogger(__name__)


def choose_strategy(accelerator: str, replicas: int, batch_size: int) -> tf.distribute.Strategy:
    """Makes the strategy; to be called before TensorFlow touches a device.

    Args:
        accelerator: `tpu`, `gpu`, `cpu`, or `auto` for the first of these that the machine has.
        replicas: How many; 0 for all there are (one on a CPU).
        batch_size: The global batch, which the replicas must be able to share evenly.

    Raises:
        ConfigError: The hardware is not there, has fewer devices, or cannot share the batch.
    """
    kind = detect() if accelerator == "auto" else accelerator
    make = {"tpu": _tpu, "gpu": _gpus, "cpu": _cpus}[kind]
    strategy = make(replicas)
    count = strategy.num_replicas_in_sync
    if batch_size % count:
        raise ConfigError(
            f"a batch of {batch_size} cannot be shared evenly by the {count} replicas of this machine; "
            f"give a multiple of {count}, or fewer replicas"
        )
    log.info("%d x %s: %d images per batch, %d on each replica", count, kind, batch_size, batch_size // count)
    return strategy


def detect() -> str:
    """What `auto` means here: `tpu`, `gpu` or `cpu`."""
    if os.environ.get("TPU_NAME") or Path("/dev/accel0").exists():
        return "tpu"
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _tpu(replicas: int) -> tf.distribute.Strategy:
    address = os.environ.get("TPU_NAME", "local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"no TPU could be initialised at {address!r} (set TPU_NAME, or use --accelerator cpu): {reason}"
        ) from None
    if replicas not in (0, strategy.num_replicas_in_sync):
        raise ConfigError(f"replicas must be 0 or {strategy.num_replicas_in_sync} on this TPU, got {replicas}")
    return strategy


def _gpus(replicas: int) -> tf.distribute.Strategy:
    found = tf.config.list_physical_devices("GPU")
    if not found:
        raise ConfigError("TensorFlow sees no GPU on this machine; use --accelerator cpu, or check driver and image")
    if replicas > len(found):
        raise ConfigError(f"replicas must be at most {len(found)}, the GPUs of this machine, got {replicas}")
    for device in found:
        tf.config.experimental.set_memory_growth(device, True)
    count = replicas or len(found)
    if count == 1:
        return tf.distribute.OneDeviceStrategy("/gpu:0")
    return tf.distribute.MirroredStrategy([f"/gpu:{index}" for index in range(count)])


def _cpus(replicas: int) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if replicas <= 1:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    device = tf.config.list_physical_devices("CPU")[0]
    virtual = [tf.config.LogicalDeviceConfiguration()] * replicas
    if len(tf.config.get_logical_device_configuration(device) or []) != replicas:
        tf.config.set_logical_device_configuration(device, virtual)
    return tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(replicas)])
