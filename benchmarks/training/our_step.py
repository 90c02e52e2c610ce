"""This project's step as a contender: `WganStep.run_block`, on blocks prepared in advance."""

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from benchmarks.lib import fashion_mnist, turns
from benchmarks.training import size
from components.core.artifacts.datasets import ImageShape
from components.core.data.data_order import examples_at
from components.core.distributed.strategies import choose_strategy, set_threads
from components.core.networks.precision import choose_precision
from components.train.config import TrainConfig
from components.train.step import WganStep, network_of

# As long as in training.
BLOCK_STEPS = 10
_BLOCKS = 20


def make(
    critic_steps: int,
    batch_size: int,
    base_filters: int = TrainConfig.base_filters,
    precision: str = "float32",
    replicas: int = 1,
    virtual_shards: int = 0,
    accelerator: str = "cpu",
    xla: bool = False,
) -> tuple[TrainConfig, WganStep]:
    """Return the step with the default settings on `replicas` replicas, set up as in training.

    With `virtual_shards` it is the exact one, with `xla` each update is compiled by XLA, on one replica.

    Args:
        precision: `tf32` is float32 whose products a GPU makes of TensorFloat-32, as TensorFlow does by default.
    """
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    config = TrainConfig(
        dataset="unused",
        checkpoints="unused",
        critic_steps=critic_steps,
        batch_size=batch_size,
        base_filters=base_filters,
        precision="float32" if precision == "tf32" else precision,
        accelerator=accelerator,
        replicas=replicas,
        reproducibility="exact" if virtual_shards else "standard",
        virtual_shards=virtual_shards or TrainConfig.virtual_shards,
    )
    set_threads(exact=config.reproducibility == "exact")
    strategy = choose_strategy(config.accelerator, config.replicas, config.batch_size)
    network = network_of(config, ImageShape(28, 28, 1))
    chosen = choose_precision(config.precision, strategy)
    step = WganStep(config, network, strategy, chosen.name)
    if xla:
        compile_updates(step)
    return config, step


def compile_updates(step: WganStep) -> None:
    """Let XLA compile both updates of a step on one device, before its first block.

    Loop and noise stay outside: blocks of any length are compiled once, and XLA would draw other noise from the seeds.
    """
    step.critic_update = tf.function(step.critic_update, jit_compile=True)  # type: ignore[method-assign]
    step.generator_update = tf.function(step.generator_update, jit_compile=True)  # type: ignore[method-assign]


def make_blocks(config: TrainConfig) -> list[np.ndarray]:
    """Return blocks of real images, each uint8 [BLOCK_STEPS, critic_steps, batch_size, 28, 28, 1]."""
    images = fashion_mnist.load_images()
    count = BLOCK_STEPS * config.critic_steps * config.batch_size
    shape = (BLOCK_STEPS, config.critic_steps, config.batch_size, *images.shape[1:])
    chosen = [examples_at(index * count, count, len(images), config.seed) for index in range(_BLOCKS)]
    return [images[numbers].reshape(shape) for numbers in chosen]


def count_parameters(variables: Sequence[tf.Variable]) -> int:
    """Return the number of parameters in variables."""
    return sum(int(np.prod(variable.shape)) for variable in variables)


def peak_memory() -> dict[str, int]:
    """Return the most bytes that TensorFlow held on the first GPU so far, as a contender's fact; nothing on a CPU."""
    if not tf.config.get_visible_devices("GPU"):
        return {}
    return {"peak_bytes": tf.config.experimental.get_memory_info("GPU:0")["peak"]}


def main() -> None:
    """Serve turns."""
    parser = size.parser()
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--virtual_shards", type=int, default=0)
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--xla", action="store_true")
    options = parser.parse_args()
    config, wgan = make(**vars(options))
    blocks = make_blocks(config)
    started = time.perf_counter()
    wgan.run_block(blocks[0])["finite"].numpy()
    facts = {
        "first_call_seconds": time.perf_counter() - started,
        "generator_parameters": count_parameters(wgan.generator.trainable_variables),
        "critic_parameters": count_parameters(wgan.critic.trainable_variables),
        **peak_memory(),
    }
    done = 0

    def train(steps: int) -> None:
        nonlocal done
        while steps > 0:
            length = min(steps, BLOCK_STEPS)
            healthy = wgan.run_block(blocks[done % _BLOCKS][:length])["finite"].numpy()
            if not healthy.all():
                raise RuntimeError("a loss or gradient is not finite")
            done, steps = done + 1, steps - length

    turns.serve(train, facts)


if __name__ == "__main__":
    main()
