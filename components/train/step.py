"""One block of WGAN-GP training: critic updates, then a generator update, on every replica alike.

The loop over steps runs inside one `tf.function`, on a TPU also inside `strategy.run` (`strategies.compiled`).
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.adam import Adam
from components.core.distributed.global_batch import BatchPartition, BatchShard, LossOutput, apply_update
from components.core.distributed.strategies import compiled, run_update
from components.core.networks import gan
from components.core.networks.normalization import recorded_statistics
from components.train import augmentation, losses, second_order
from components.train.config import TrainConfig

# Purposes of noise, a part of its seed; others would change the results of old runs.
_AUGMENTATION, _CRITIC_LATENTS, _GENERATOR_LATENTS, _INTERPOLATION = 0, 1, 2, 3
_PURPOSES = 4

# EMA warm-up offset when warm-starting: step 1 keeps 99% of the inherited average, not a tenth of it.
# Without warm-up it would spoil a short training, as the mean of weights far apart draws worse than either.
_DONE_BEFORE = 890.0
# Of the learning rates, for clusters: each update of the weights of their features moves the scores of all clusters.
_CLUSTERS_RATE_FACTOR = 0.5
NETWORKS = ("generator/", "critic/", "average/")  # prefixes of the networks' variables in the state
# A block reports for each step: global means, and whether all was finite.
MEANS = ("critic_loss", "generator_loss", "penalty", "gradient_norm", "wasserstein_estimate", "real_score")
REPORTED = (*MEANS, "finite")
_CRITIC_MEANS = ("penalty", "gradient_norm", "wasserstein_estimate", "real_score")
_Labels: TypeAlias = tf.Tensor | None  # int32 [images], for networks that take labels
_Means: TypeAlias = dict[str, tf.Tensor]  # of the global batch, by name; scalars


def network_of(config: TrainConfig, image: ImageShape, classes: int = 0, label_features: int = 0) -> gan.NetworkConfig:
    """Return the description of both networks, for images of a shape, labeled with so many classes."""
    classes = 0 if config.conditioning == "none" else classes
    sizes = config.latent_size, config.base_filters
    return gan.NetworkConfig(image, *sizes, config.generator_normalization, classes, label_features)


def seed_after(seed: int, rollbacks: Any) -> Any:
    """Return the seed of noise and of the order of images after so many rollbacks; no setting gives the same one."""
    return seed + rollbacks * 2**31


class WganStep:
    """Networks, optimizers and the generator's moving average, and the update that trains them.

    `precision` is that of the networks' multiplications. `label_features` are float32 [classes, label_features].
    """

    def __init__(
        self,
        config: TrainConfig,
        network: gan.NetworkConfig,
        strategy: tf.distribute.Strategy,
        precision: str = "float32",
        label_features: np.ndarray | None = None,
    ) -> None:
        self._config, self._strategy, self._classes = config, strategy, network.classes
        exact = config.reproducibility == "exact"
        self._sharing = BatchPartition(config.batch_size, config.virtual_shards if exact else 0)
        self._sharing.require_replicas(strategy.num_replicas_in_sync)
        self._float = tf.as_dtype(keras.config.floatx())
        # On a CPU that is one device; replicas and virtual shards already run side by side.
        devices = strategy.extended.worker_devices
        self._halved = len(devices) == 1 and "CPU" in devices[0].upper() and not exact
        with strategy.scope():
            # A virtual shard is normalized separately, because its result may depend on no other.
            self.generator = gan.build_generator(network, config.seed, synchronized=not exact, precision=precision)
            self.critic = gan.build_critic(network, config.seed, precision=precision)
            second_order.refuse_wrong_layers(self.critic)
            self.average = gan.build_generator(network, config.seed, name="average")
            if label_features is not None:
                for model in (self.generator, self.critic, self.average):
                    gan.set_label_features(model, label_features)
            # The TensorFlow variables beneath Keras' own, which `tf.GradientTape` and `assign` take.
            self._generator_variables, self._critic_variables = (
                [variable.value for variable in model.trainable_variables] for model in (self.generator, self.critic)
            )
            betas = (config.beta_1, config.beta_2)
            factor = _CLUSTERS_RATE_FACTOR if network.label_features else 1.0
            generator_rate, critic_rate = factor * config.generator_learning_rate, factor * config.critic_learning_rate
            self._generator_adam = Adam(self._generator_variables, generator_rate, *betas, name="generator_adam")
            self._critic_adam = Adam(self._critic_variables, critic_rate, *betas, name="critic_adam")
            self.step = tf.Variable(0, trainable=False, dtype=tf.int64)  # generator updates done
            # Rollbacks before this step, which change the seed of noise; kept by the training, not in this state.
            self.rollbacks = tf.Variable(0, trainable=False, dtype=tf.int64)
        image, batches = network.image, [None, config.critic_steps, config.batch_size]
        signature = [tf.TensorSpec([*batches, image.height, image.width, image.channels], tf.uint8)]
        if network.classes:
            signature.append(tf.TensorSpec(batches, tf.int32))
        self.run_block = compiled(strategy, self.loop, 2, signature)

    def loop(self, real: tf.Tensor, labels: _Labels = None) -> dict[str, tf.Tensor]:
        """Train for as many generator updates as there are steps; compiled, this is `run_block`.

        Args:
            real: Pixels, uint8 [steps, critic_steps, global batch, height, width, channels].
            labels: Their classes, int32 [steps, critic_steps, global batch], for networks that take labels. Generated
                images have those too; in the generator update, those of the step's last critic update.

        Returns:
            [steps] of each of `REPORTED`, of Keras' float type.
        """
        steps = tf.shape(real)[0]
        rows = {name: tf.TensorArray(self._float, size=steps) for name in REPORTED}
        for index in tf.range(steps):
            row = self._one_step(real[index], None if labels is None else labels[index])
            rows = {name: rows[name].write(index, row[name]) for name in REPORTED}
        return {name: rows[name].stack() for name in REPORTED}

    # AutoGraph would rewrite every function below, which takes longer than tracing.
    @tf.autograph.experimental.do_not_convert
    def _one_step(self, real: tf.Tensor, labels: _Labels) -> dict[str, tf.Tensor]:
        """Make every critic update of a step, then its generator update; return a scalar of each of `REPORTED`."""
        sums = {name: tf.zeros([], self._float) for name in ("loss", *_CRITIC_MEANS)}
        finite = tf.ones([], self._float)
        for inner in range(self._config.critic_steps):
            batch_labels = [] if labels is None else [labels[inner]]
            noise = self.critic_noise(inner)
            means = run_update(self._strategy, self.critic_update, real[inner], *noise, *batch_labels)
            sums = {name: sums[name] + means[name] / self._config.critic_steps for name in sums}
            finite = tf.minimum(finite, means["finite"])
        means = run_update(self._strategy, self.generator_update, *self.generator_noise(), *batch_labels)
        finite = tf.minimum(finite, means["finite"])
        return {"critic_loss": sums.pop("loss"), "generator_loss": means["loss"], **sums, "finite": finite}

    def critic_update(
        self,
        pixels: tf.Tensor,
        latents: tf.Tensor,
        interpolation_weights: tf.Tensor,
        augmentation_draws: tf.Tensor,
        labels: _Labels = None,
    ) -> _Means:
        """Make a critic update inside a replica, with noise of `critic_noise`; return the means of `apply_update`.

        Pixels uint8 [images, height, width, channels], and labels int32 [images] of real, generated and interpolated
        images, if any, are those of the global batch or of this replica's shard.
        """
        config = self._config

        def terms(shard: BatchShard) -> LossOutput:
            real_draws, fake_draws = tf.unstack(shard.of(augmentation_draws), axis=1)
            real = self._augmented(gan.to_unit_range(shard.of(pixels)), real_draws)
            shard_labels = None if labels is None else shard.of(labels)
            both_labels = None if shard_labels is None else tf.concat([shard_labels, shard_labels], axis=0)
            fake = tf.stop_gradient(self._augmented(self._draw(shard.of(latents), shard_labels), fake_draws))
            real_scores, fake_scores = tf.split(self._score(tf.concat([real, fake], axis=0), both_labels), 2)
            gap = real_scores - fake_scores
            loss = losses.critic_loss(real_scores, fake_scores)
            points = losses.interpolate(real, fake, shard.of(interpolation_weights))
            norms = losses.gradient_norms(lambda images: self._score(images, shard_labels), points)
            penalty = losses.penalty(norms)
            if config.constraint == "gradient_penalty":
                loss += config.penalty_weight * penalty
            return LossOutput(loss, dict(zip(_CRITIC_MEANS, (penalty, norms, gap, real_scores), strict=True)))

        means = apply_update(terms, self._critic_variables, self._critic_adam, self._sharing, self._rate_decay())
        if config.constraint == "weight_clipping":
            for variable in self._critic_variables:
                variable.assign(tf.clip_by_value(variable, -config.clip_value, config.clip_value))
        return means

    def generator_update(self, latents: tf.Tensor, augmentation_draws: tf.Tensor, labels: _Labels = None) -> _Means:
        """Make a generator update inside a replica, update the average and count the step; as `critic_update`."""

        def terms(shard: BatchShard) -> LossOutput:
            shard_labels = None if labels is None else shard.of(labels)
            with recorded_statistics() as statistics:
                fake = self._augmented(self._draw(shard.of(latents), shard_labels), shard.of(augmentation_draws))
            return LossOutput(losses.generator_loss(self._score(fake, shard_labels)), statistics=statistics)

        # The average enters no loss. It stays finite if it was, and the generator is.
        average = [variable.value for variable in self.average.variables]
        variables, adam = self._generator_variables, self._generator_adam
        means = apply_update(terms, variables, adam, self._sharing, self._rate_decay(), average)
        tf.cond(means["finite"] > 0, self._update_average, lambda: None)
        self.step.assign_add(1)
        return means

    def _rate_decay(self) -> tf.Tensor:
        if self._config.learning_rate_decay == "none":
            return tf.ones([], self._float)
        return 1.0 - tf.cast(self.step, self._float) / self._config.steps

    def _draw(self, latents: tf.Tensor, labels: _Labels) -> tf.Tensor:
        return self.generator(gan.with_labels(latents, labels, self._classes), training=True)

    def _augmented(self, images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        return augmentation.augment(images, draws) if self._config.augmentation == "geometric" else images

    def _score(self, images: tf.Tensor, labels: _Labels) -> tf.Tensor:
        """Return scores [n]; on one CPU for each half of the images separately, so that threads run side by side."""
        count, parts = images.shape[0], [(images, labels)]
        if self._halved and count > 1:
            sizes = [count // 2, count - count // 2]
            halves_of_labels = [None, None] if labels is None else tf.split(labels, sizes)
            parts = list(zip(tf.split(images, sizes), halves_of_labels, strict=True))
        scores = [self.critic(gan.with_labels(*part, self._classes), training=True)[:, 0] for part in parts]
        return scores[0] if len(scores) == 1 else tf.concat(scores, axis=0)

    def critic_noise(self, inner: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Draw latents [batch_size, latent_size], interpolation weights [batch_size], and the draws that decide how
        real and generated images are augmented [batch_size, 2, augmentation.DRAWS], for a critic update.
        """
        latents = self._noise(tf.random.stateless_normal, _CRITIC_LATENTS, inner, self._config.latent_size)
        interpolation_weights = self._noise(tf.random.stateless_uniform, _INTERPOLATION, inner)
        return latents, interpolation_weights, self._augmentation_draws(inner)[:, :2]

    def generator_noise(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Draw latents and augmentation draws [batch_size, augmentation.DRAWS] for the generator update of a step."""
        latents = self._noise(tf.random.stateless_normal, _GENERATOR_LATENTS, 0, self._config.latent_size)
        return latents, self._augmentation_draws(0)[:, 2]

    def _augmentation_draws(self, inner: int) -> tf.Tensor:
        return self._noise(tf.random.stateless_uniform, _AUGMENTATION, inner, 3, augmentation.DRAWS)

    def _noise(self, draw: Any, purpose: int, inner: int, *shape: int) -> tf.Tensor:
        """Draw noise [batch_size, *shape]: a function of seed, purpose, step, inner step and rollbacks alone."""
        position = (self.step * self._config.critic_steps + inner) * _PURPOSES + purpose
        seed = tf.stack([seed_after(self._config.seed, self.rollbacks), position])
        # Named, because each kind of device has another default algorithm.
        return draw([self._config.batch_size, *shape], seed, dtype=self._float, alg="philox")

    def _update_average(self) -> None:
        """Move the average, moving statistics included, towards the generator; faster early on, to forget its start."""
        done = tf.cast(self.step, self._float)
        if self._config.initial_checkpoint_digest:
            done += _DONE_BEFORE
        decay = tf.minimum(tf.constant(self._config.ema_decay, self._float), (1.0 + done) / (10.0 + done))
        for average, current in zip(self.average.variables, self.generator.variables, strict=True):
            average.value.assign_sub((1.0 - decay) * (average.value - current.value))

    def state(self) -> dict[str, tf.Variable]:
        """Return every variable that resuming needs, by a name that does not depend on the strategy."""
        named: dict[str, tf.Variable] = {"step": self.step}
        for prefix, model in zip(NETWORKS, (self.generator, self.critic, self.average), strict=True):
            named |= {f"{prefix}{variable.path}": variable.value for variable in model.variables}
        for adam, model in ((self._generator_adam, self.generator), (self._critic_adam, self.critic)):
            named |= adam.state(adam.name, [variable.path for variable in model.trainable_variables])
        return named

    def state_arrays(self) -> dict[str, np.ndarray]:
        return {name: variable.numpy() for name, variable in self.state().items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state; names, shapes and types must be those of `state()`."""
        for name, variable in self.state().items():
            variable.assign(arrays[name])
