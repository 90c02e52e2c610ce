"""The gradient of the critic's first layer for the pixels: as a matrix product, and by TensorFlow's convolution.

    python -m benchmarks.training.pixel_convolutions

In one process, in turns; a turn is 20 calls of a compiled function on a batch of 64, at the sizes of the default
networks for 28x28 images.
"""

import argparse
import functools
import os
import statistics
import time
from collections.abc import Callable

import keras
import tensorflow as tf

from benchmarks.lib import tables
from components.core.networks.convolutions import KERNEL, STRIDE, PixelsToFeatures
from components.train.config import TrainConfig

_CALLS, _BATCH, _SIDE = 20, 64, 14


def main() -> None:
    """Run the turns and print the table."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base_filters", type=int, default=TrainConfig.base_filters)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    rows = []
    for channels in (1, 3):
        for precision in ("float32", "mixed_bfloat16"):
            oracle, own = _times(channels, precision, given.base_filters, given.rounds)
            ratio = statistics.median(theirs / ours for theirs, ours in zip(oracle, own, strict=True))
            name = f"{channels} channels, {precision.removeprefix('mixed_')}"
            rows.append([name, *(f"{1000 * statistics.median(times):.2f}" for times in (oracle, own)), f"{ratio:.2f}"])
    columns = ["", "Conv2D's gradient, ms", "PixelsToFeatures', ms", "times as fast"]
    tables.show(f"base_filters {given.base_filters}, batch {_BATCH}, medians of {given.rounds} rounds", columns, rows)


def _times(channels: int, precision: str, filters: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds per call of Keras' layer and of ours, for each round."""
    images = tf.zeros([_BATCH, 2 * _SIDE, 2 * _SIDE, channels])
    upstream = tf.random.stateless_normal([_BATCH, _SIDE, _SIDE, filters], [0, 0])
    keras_layer = keras.layers.Conv2D(filters, KERNEL, STRIDE, "same", dtype=precision)
    layers = [keras_layer, PixelsToFeatures(filters, dtype=precision)]
    for layer in layers:
        layer.build(images.shape)
    calls = [tf.function(functools.partial(_pixel_gradient, layer, images)) for layer in layers]
    for call in calls:
        _turn(call, upstream)
    found = [[_turn(call, upstream) for call in calls] for _ in range(rounds)]
    theirs, ours = zip(*found, strict=True)
    return list(theirs), list(ours)


def _pixel_gradient(layer: keras.layers.Layer, images: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(images)
        features = layer(images)
    return tape.gradient(features, images, output_gradients=tf.cast(upstream, features.dtype))


def _turn(call: Callable[[tf.Tensor], tf.Tensor], upstream: tf.Tensor) -> float:
    started = time.perf_counter()
    for _ in range(_CALLS):
        pixels = call(upstream)
    pixels.numpy()
    return (time.perf_counter() - started) / _CALLS


if __name__ == "__main__":
    main()
