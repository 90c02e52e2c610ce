"""Precision in which networks multiply: float32, or bfloat16 where it is faster, as measured on a CPU."""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import tensorflow as tf

from components.core.errors import DataError
from components.core.networks import cost, gan
from components.core.storage import atomic_files, digests
from components.core.storage.json_values import typed
from components.core.storage.location import private

log = logging.getLogger(__name__)

PRECISIONS = ("float32", "bfloat16")
# Of the default networks a pass over a batch of 64 multiplies 2.5e9 times forward, and takes 0.09 s of processor time.
_MULTIPLICATIONS, _SECONDS = 4e9, 0.6
# NVIDIA's first to multiply in bfloat16: Ampere (CUDA C++ Programming Guide, "Arithmetic Instructions").
_BFLOAT16_CAPABILITY = (8, 0)
# Either multiplies bfloat16 in hardware; with the second alone a training step took 0.72 of float32's processor time on
# one CPU, and 1.6 times as long on another.
_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}
# A smaller gain is not worth the coarser numbers, and would depend on chance.
_CLEARLY_FASTER = 0.9


@dataclasses.dataclass(frozen=True)
class Precision:
    """A chosen precision, and why; both go into the log and into checkpoints."""

    name: str  # `float32` or `bfloat16`
    reason: str


def choose_precision(name: str, strategy: tf.distribute.Strategy, network: gan.NetworkConfig, batch: int) -> Precision:
    """Return the precision for networks and a global batch size; `auto` asks for the faster one of this hardware."""
    if name != "auto":
        return Precision(name, "as set")
    device = _device(strategy)
    if "TPU" in device:
        return Precision("float32", "the TPU compiler estimates more cycles in bfloat16")
    if not _multiplies_bfloat16(device):
        return Precision("float32", "this hardware does not multiply bfloat16")
    if "GPU" in device:
        return Precision("bfloat16", "these GPUs multiply it")
    images = batch // strategy.num_replicas_in_sync
    seconds = measured(network, images)
    faster = seconds["bfloat16"] < _CLEARLY_FASTER * seconds["float32"]
    times = " and ".join(f"{1000 * seconds[name]:.3g} ms in {name}" for name in PRECISIONS)
    return Precision("bfloat16" if faster else "float32", f"passes through both networks took {times}")


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


def measured(network: gan.NetworkConfig, images: int) -> dict[str, float]:
    """Return the processor seconds of a pass, by precision, for the images of a replica; once per machine and shape."""
    multiplications = cost.of_generator(network.image, network.base_filters, network.latent_size, network.classes)
    multiplications += cost.of_critic(network.image, network.base_filters, network.classes)
    count = max(1, min(images, int(_MULTIPLICATIONS / multiplications)))  # that a pass takes in a fraction of a second
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    key = digests.digest_of([network.to_json(), count, threads, tf.__version__, cpu_flags()])
    file = private("precision") / f"{key}.json"
    with contextlib.suppress(DataError, TypeError, ValueError, KeyError):
        recorded = typed(dict[str, float], atomic_files.read_json(file, "speed of networks"), "speed")
        return {name: recorded[name] for name in PRECISIONS}
    runs, least = {name: passes(network, count, name) for name in PRECISIONS}, dict.fromkeys(PRECISIONS, math.inf)
    end = time.process_time() + _SECONDS
    while time.process_time() < end:  # in turns, and the least: other programs and drift disturb it least
        for name, run in runs.items():
            started = time.process_time()
            run().numpy()
            least[name] = min(least[name], time.process_time() - started)
    atomic_files.write_json(file, least)
    return least


def passes(network: gan.NetworkConfig, images: int, precision: str) -> Callable[[], Any]:
    """Return a compiled pass through generator and critic and back to all weights, as a generator update makes it.

    The ratio of its times predicts that of whole steps to a tenth (benchmarks/README.md).
    """
    generator = gan.build_generator(network, synchronized=False, precision=precision)
    critic = gan.build_critic(network, precision=precision)
    weights = [variable.value for model in (generator, critic) for variable in model.trainable_variables]
    labels = tf.zeros([images], tf.int32) if network.classes else None

    # AutoGraph would only take time.
    @tf.function(autograph=False)
    def update() -> tf.Tensor:
        latents = tf.random.stateless_normal([images, network.latent_size], [0, 0])
        with tf.GradientTape() as tape:
            drawn = generator(gan.with_labels(latents, labels, network.classes), training=True)
            scores = critic(gan.with_labels(drawn, labels, network.classes))
        return tf.add_n([tf.reduce_sum(gradient) for gradient in tape.gradient(scores, weights)])

    update().numpy()  # compiles
    return cast(Callable[[], Any], update)
