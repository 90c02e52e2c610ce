"""Speed of networks on this CPU in each precision: measured once per machine and shape, then read from a file.

The choice that follows from it is recorded in checkpoints, and a resumed training keeps it.
"""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, cast

import tensorflow as tf

from components.core.errors import DataError
from components.core.networks import cost, gan
from components.core.storage import atomic_files, digests
from components.core.storage.json_values import typed
from components.core.storage.location import private

PRECISIONS = ("float32", "bfloat16")
# Of the default networks a pass over a batch of 64 multiplies 2.5e9 times forward, and takes 0.09 s of processor time.
_MULTIPLICATIONS, _SECONDS = 4e9, 0.6


def measured(network: gan.NetworkConfig, images: int, machine: list[str]) -> dict[str, float]:
    """Return the processor seconds, by precision, of a pass with as many images as a replica has, or fewer if large.

    `machine` is what distinguishes this machine from others that share its folder of temporary files.
    """
    count = few_enough(network, images)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    key = digests.digest_of([network.to_json(), count, threads, tf.__version__, machine])
    file = private("precision") / f"{key}.json"
    with contextlib.suppress(DataError, TypeError, ValueError, KeyError):
        recorded = typed(dict[str, float], atomic_files.read_json(file, "speed of networks"), "speed")
        return {name: recorded[name] for name in PRECISIONS}
    seconds = least_seconds({name: passes(network, count, name) for name in PRECISIONS})
    atomic_files.write_json(file, seconds)
    return seconds


def few_enough(network: gan.NetworkConfig, images: int) -> int:
    """Return the number of images, or as many as a pass may take in a fraction of a second."""
    multiplications = cost.of_generator(network.image, network.base_filters, network.latent_size, network.classes)
    multiplications += cost.of_critic(network.image, network.base_filters, network.classes)
    return max(1, min(images, int(_MULTIPLICATIONS / multiplications)))


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


def least_seconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least processor seconds of each, run in turns: other programs and drift disturb them least."""
    least, end = dict.fromkeys(runs, math.inf), time.process_time() + _SECONDS
    while time.process_time() < end:
        for name, run in runs.items():
            started = time.process_time()
            run().numpy()
            least[name] = min(least[name], time.process_time() - started)
    return least
