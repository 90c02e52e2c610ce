"""The machine's matrix-product rate as a contender: a step is one product of two 2048 x 2048 matrices in TensorFlow."""

import argparse

import tensorflow as tf

from benchmarks.lib import turns

SIDE = 2048
FLOPS = 2 * SIDE**3


def main() -> None:
    """Serve turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    given = parser.parse_args()
    left, right = (
        tf.cast(tf.random.stateless_normal([SIDE, SIDE], [0, side]), tf.as_dtype(given.precision)) for side in (0, 1)
    )

    @tf.function
    def multiply(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.matmul(left, right)

    def train(steps: int) -> None:
        for _ in range(steps):
            product = multiply(left, right)
            product[0, 0].numpy()

    train(2)
    turns.serve(train, {})


if __name__ == "__main__":
    main()
