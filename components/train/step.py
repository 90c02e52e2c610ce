"""One block of WGAN-GP training: critic updates, then a generator update, on every replica alike.

The loop over steps runs inside one `tf.function`, outside `strategy.run`, as TensorFlow's strategies need it.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.update import (
    Adam,
    BatchPartition,
    BatchShard,
    FiniteCheck,
    LossOutput,
    Resumable,
    apply_update,
    of_one_replica,
)
from components.core.networks import gan
from components.core.networks.normalization import recorded_statistics
from components.train import losses, second_order
from components.train.config import TrainConfig

# What noise is for, a part of its seed. Fixed for ever, or old runs could not be repeated.
_CRITIC_LATENTS, _GENERATOR_LATENTS, _INTERPOLATION = 1, 2, 3
_PURPOSES = 4

# Steps that the average's warm-up counts as done where it began as another training's: 0.99 of it is kept at the first
# step. Forgotten at once, as random weights are, it would give way to what a step at full rates makes of the generator;
# kept for as long as `ema_decay` says, it would spoil a short training: the mean of weights far apart draws worse than
# either.
_DONE_BEFORE = 890.0
# What the names of a network's variables begin with in the state, before a slash.
NETWORKS = GENERATOR, CRITIC, AVERAGE = ("generator", "critic", "average")
# What a block reports for each step: global means, whether all was finite, and if not the number of what was not.
MEANS = ("critic_loss", "generator_loss", "penalty", "gradient_norm", "critic_gap", "real_score")
REPORTED = (*MEANS, "finite", "nonfinite")
_OF_CRITIC = ("penalty", "gradient_norm", "critic_gap", "real_score")


def network_of(config: TrainConfig, image: ImageShape, classes: int = 0) -> gan.NetworkConfig:
    """What both networks are built from, for images of a shape in so many classes."""
    return gan.NetworkConfig(
        image,
        config.latent_size,
        config.base_filters,
        config.critic_normalization,
        config.generator_normalization,
        classes if config.conditioning == "class" else 0,
    )


def seed_after(seed: int, roll_backs: Any) -> Any:
    """The seed of noise and of the order of images after so many roll-backs: for each another, and none is a seed."""
    return seed + roll_backs * 2**31


class WganStep(Resumable):
    """Networks, optimisers and the generator's average; and the update that trains them.

    Args:
        config: The training settings.
        network: What to build the networks from.
        strategy: Where to place them; every variable is created in its scope.
        precision: What the networks multiply in, `float32` or `bfloat16`; everything else is float32 in any case.

    Attributes:
        generator, critic, average: The networks; `average` is the generator's exponential moving average.
        step: Generator updates done, int64.
        roll_backs: Those in force, int64: noise is then of another seed. Not part of the state, but of what is done.
    """

    def __init__(
        self,
        config: TrainConfig,
        network: gan.NetworkConfig,
        strategy: tf.distribute.Strategy,
        precision: str = "float32",
    ) -> None:
        self._config, self._strategy, self._classes = config, strategy, network.classes
        exact = config.reproducibility == "exact"
        self._sharing = BatchPartition(config.batch_size, config.virtual_shards if exact else 0)
        self._sharing.require_replicas(strategy.num_replicas_in_sync)
        self._float = tf.as_dtype(keras.config.floatx())
        # Replicas and virtual shards are side by side already.
        self._halved = _is_one_cpu(strategy) and not exact
        with strategy.scope():
            # A virtual shard is normalised by itself: what it computes may depend on no other.
            self.generator = gan.build_generator(network, config.seed, synchronised=not exact, precision=precision)
            self.critic = gan.build_critic(network, config.seed, precision=precision)
            second_order.refuse_wrong_layers(self.critic)
            self.average = gan.build_generator(network, config.seed, name="average")
            self._generator_variables = _trainable(self.generator)
            self._critic_variables = _trainable(self.critic)
            betas = (config.beta_1, config.beta_2)
            self._generator_adam = Adam(
                self._generator_variables, config.generator_learning_rate, *betas, name="generator_adam"
            )
            self._critic_adam = Adam(self._critic_variables, config.critic_learning_rate, *betas, name="critic_adam")
            self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
            self.roll_backs = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._of_critic = FiniteCheck([f"{CRITIC}/{variable.path}" for variable in self.critic.trainable_variables])
        self._of_generator = FiniteCheck(
            [f"{GENERATOR}/{variable.path}" for variable in self.generator.trainable_variables],
            # It decides no loss. After an update it is finite if it was before, and the generator is.
            {f"{AVERAGE}/{variable.path}": variable.value for variable in self.average.variables},
        )
        image, each = network.image, [None, config.critic_steps, config.batch_size]
        signature = [tf.TensorSpec([*each, image.height, image.width, image.channels], tf.uint8)]
        if network.classes:
            signature.append(tf.TensorSpec(each, tf.int32))
        self.run_block = tf.function(self._run_block, input_signature=signature)

    def _run_block(self, real: tf.Tensor, labels: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Trains for as many generator updates as `real` has entries along its first axis.

        Args:
            real: Pixels, uint8 [steps, critic_steps, global batch, height, width, channels]: a fresh real batch for
                every critic update.
            labels: Their classes, int32 [steps, critic_steps, global batch], for networks that take labels. Images are
                drawn of the classes of the real ones beside them, and in the generator update of those of the step's
                last critic update.

        Returns:
            [steps] of each of `REPORTED`, of Keras' float type.
        """
        steps = tf.shape(real)[0]
        rows = {name: tf.TensorArray(self._float, size=steps) for name in REPORTED}
        for index in tf.range(steps):
            row = self._one_step(real[index], None if labels is None else labels[index])
            rows = {name: rows[name].write(index, row[name]) for name in REPORTED}
        return {name: rows[name].stack() for name in REPORTED}

    # AutoGraph would rewrite every function below, which takes longer than tracing them; only the loop above needs it.
    @tf.autograph.experimental.do_not_convert
    def _one_step(self, real: tf.Tensor, labels: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """Every critic update of a step, then its generator update; a scalar of each of `REPORTED`."""
        sums = {name: tf.zeros([], self._float) for name in ("loss", *_OF_CRITIC)}
        finite, nonfinite = tf.ones([], self._float), tf.zeros([], self._float)
        for inner in range(self._config.critic_steps):
            of_batch = [] if labels is None else [labels[inner]]
            means = self._run(self.critic_update, real[inner], *self.critic_noise(inner), *of_batch)
            sums = {name: sums[name] + means[name] / self._config.critic_steps for name in sums}
            finite = tf.minimum(finite, means["finite"])
            nonfinite = tf.where(nonfinite > 0, nonfinite, means["nonfinite"])
        means = self._run(self.generator_update, self.generator_noise(), *of_batch)
        of_generator = tf.where(means["nonfinite"] > 0, means["nonfinite"] + len(self._of_critic.names), 0.0)
        return {
            "critic_loss": sums.pop("loss"),
            "generator_loss": means["loss"],
            **sums,
            "finite": tf.minimum(finite, means["finite"]),
            "nonfinite": tf.where(nonfinite > 0, nonfinite, of_generator),
        }

    def what(self, nonfinite: float) -> str:
        """What was not finite, in words, by the number that a block reported as its `nonfinite`."""
        names = [
            *(f"{what} in a critic update" for what in self._of_critic.names),
            *(f"{what} in a generator update" for what in self._of_generator.names),
        ]
        return names[int(nonfinite) - 1]

    def _run(self, update: Callable[..., dict[str, tf.Tensor]], *of_global: tf.Tensor) -> dict[str, tf.Tensor]:
        """One update on every replica; each gets the whole global batch, and takes its share."""
        return of_one_replica(self._strategy, self._strategy.run(update, args=of_global))

    def critic_update(
        self, pixels: tf.Tensor, latents: tf.Tensor, weights: tf.Tensor, labels: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """One critic update, inside a replica.

        Args:
            pixels, latents, weights: Of the global batch: uint8 [batch_size, height, width, channels], and the noise
                of `critic_noise`.
            labels: Likewise, int32 [batch_size], for networks that take labels: of real, drawn and interpolated images.

        Returns:
            The global means, as `apply_update` returns them.
        """
        config = self._config

        def terms(share: BatchShard) -> LossOutput:
            real = gan.to_unit_range(share.of(pixels))
            mine = None if labels is None else share.of(labels)
            both = None if mine is None else tf.concat([mine, mine], axis=0)
            fake = tf.stop_gradient(self._draw(share.of(latents), mine))
            real_scores, fake_scores = tf.split(self._score(tf.concat([real, fake], axis=0), both), 2)
            gap = real_scores - fake_scores
            loss = losses.critic_loss(real_scores, fake_scores)
            points = losses.interpolate(real, fake, share.of(weights))
            norms = losses.gradient_norms(lambda images: self._score(images, mine), points)
            penalty = losses.penalty(norms)
            if config.constraint == "gradient_penalty":
                loss += config.penalty_weight * penalty
            reported = {"penalty": penalty, "gradient_norm": norms, "critic_gap": gap, "real_score": real_scores}
            return LossOutput(loss, reported)

        means = apply_update(
            terms, self._critic_variables, self._critic_adam, self._sharing, self._rate_factor(), self._of_critic
        )
        if config.constraint == "weight_clipping":
            for variable in self._critic_variables:
                variable.assign(tf.clip_by_value(variable, -config.clip_value, config.clip_value))
        return means

    def generator_update(self, latents: tf.Tensor, labels: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """One generator update, its average and the step, inside a replica; as `critic_update`."""

        def terms(share: BatchShard) -> LossOutput:
            mine = None if labels is None else share.of(labels)
            with recorded_statistics() as statistics:
                fake = self._draw(share.of(latents), mine)
            return LossOutput(losses.generator_loss(self._score(fake, mine)), statistics=statistics)

        means = apply_update(
            terms,
            self._generator_variables,
            self._generator_adam,
            self._sharing,
            self._rate_factor(),
            self._of_generator,
        )
        tf.cond(means["finite"] > 0, self._update_average, lambda: None)
        self.step.assign_add(1)
        return means

    def _rate_factor(self) -> tf.Tensor:
        """What both learning rates are multiplied by at this step."""
        if self._config.learning_rate_decay == "none":
            return tf.ones([], self._float)
        return 1.0 - tf.cast(self.step, self._float) / self._config.steps

    def _draw(self, latents: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        return self.generator(gan.with_labels(latents, labels, self._classes), training=True)

    def _score(self, images: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        """Scores [n]; on one CPU those of two halves of the images apart, which threads compute side by side."""
        count = images.shape[0]
        if not self._halved or count < 2:
            return self._score_at_once(images, labels)
        sizes = [count // 2, count - count // 2]
        halves_of_labels = [None, None] if labels is None else tf.split(labels, sizes)
        halves = zip(tf.split(images, sizes), halves_of_labels, strict=True)
        return tf.concat([self._score_at_once(*half) for half in halves], axis=0)

    def _score_at_once(self, images: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
        return self.critic(gan.with_labels(images, labels, self._classes), training=True)[:, 0]

    def critic_noise(self, inner: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Latents [batch_size, latent_size] and interpolation weights [batch_size] of a critic update at this step."""
        shape = [self._config.batch_size, self._config.latent_size]
        return (
            self._noise(tf.random.stateless_normal, shape, _CRITIC_LATENTS, inner),
            self._noise(tf.random.stateless_uniform, shape[:1], _INTERPOLATION, inner),
        )

    def generator_noise(self) -> tf.Tensor:
        """Latents [batch_size, latent_size] of the generator update at this step."""
        shape = [self._config.batch_size, self._config.latent_size]
        return self._noise(tf.random.stateless_normal, shape, _GENERATOR_LATENTS, 0)

    def _noise(self, draw: Any, shape: list[int], purpose: int, inner: int) -> tf.Tensor:
        """Noise for the global batch: a function of seed, purpose, step, inner step and roll-backs alone."""
        position = (self.step * self._config.critic_steps + inner) * _PURPOSES + purpose
        seed = tf.stack([seed_after(self._config.seed, self.roll_backs), position])
        # Named, because each kind of device would choose an algorithm of its own.
        return draw(shape, seed, dtype=self._float, alg="philox")

    def _update_average(self) -> None:
        """Moves the average towards the generator; early on faster, so that it forgets where it began.

        Batch normalisation's moving statistics are averaged with the weights that they belong to.
        """
        done = tf.cast(self.step, self._float)
        if self._config.initial_checkpoint_digest:
            done += _DONE_BEFORE
        decay = tf.minimum(tf.constant(self._config.ema_decay, self._float), (1.0 + done) / (10.0 + done))
        for average, current in zip(self.average.variables, self.generator.variables, strict=True):
            average.value.assign_sub((1.0 - decay) * (average.value - current.value))

    def state(self) -> dict[str, tf.Variable]:
        """As of `Resumable`."""
        named: dict[str, tf.Variable] = {"step": self.step}
        for prefix, model in zip(NETWORKS, (self.generator, self.critic, self.average), strict=True):
            named |= {f"{prefix}/{variable.path}": variable.value for variable in model.variables}
        for prefix, adam, model in (
            ("generator_adam", self._generator_adam, self.generator),
            ("critic_adam", self._critic_adam, self.critic),
        ):
            named |= adam.state(prefix, [variable.path for variable in model.trainable_variables])
        return named


def _is_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process trains on a CPU that is one device."""
    devices = strategy.extended.worker_devices
    return len(devices) == 1 and "CPU" in devices[0].upper()


def _trainable(model: keras.Model) -> list[tf.Variable]:
    """The TensorFlow variables beneath Keras' own, for which `tf.GradientTape` and `assign` are meant."""
    return [variable.value for variable in model.trainable_variables]
