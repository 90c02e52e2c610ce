"""The train stage as Kubeflow sees it."""
# mypy: disable-error-code="valid-type"

from kfp import dsl

from components.images import image
from components.train.config import TrainConfig


@dsl.container_component
def train(
    dataset: str,
    checkpoints: str,
    records: str,
    run: str,
    checkpoint_uri: dsl.OutputPath(str),
    checkpoint_digest: dsl.OutputPath(str),
    summary: dsl.OutputPath(str),
    dataset_digest: str = TrainConfig.dataset_digest,
    initial_checkpoint: str = TrainConfig.initial_checkpoint,
    initial_checkpoint_digest: str = TrainConfig.initial_checkpoint_digest,
    steps: int = TrainConfig.steps,
    batch_size: int = TrainConfig.batch_size,
    critic_steps: int = TrainConfig.critic_steps,
    critic_learning_rate: float = TrainConfig.critic_learning_rate,
    generator_learning_rate: float = TrainConfig.generator_learning_rate,
    beta_1: float = TrainConfig.beta_1,
    beta_2: float = TrainConfig.beta_2,
    learning_rate_decay: str = TrainConfig.learning_rate_decay,
    constraint: str = TrainConfig.constraint,
    penalty_weight: float = TrainConfig.penalty_weight,
    clip_value: float = TrainConfig.clip_value,
    ema_decay: float = TrainConfig.ema_decay,
    latent_size: int = TrainConfig.latent_size,
    base_filters: int = TrainConfig.base_filters,
    critic_normalization: str = TrainConfig.critic_normalization,
    generator_normalization: str = TrainConfig.generator_normalization,
    conditioning: str = TrainConfig.conditioning,
    precision: str = TrainConfig.precision,
    reproducibility: str = TrainConfig.reproducibility,
    virtual_shards: int = TrainConfig.virtual_shards,
    seed: int = TrainConfig.seed,
    accelerator: str = TrainConfig.accelerator,
    tpu: str = TrainConfig.tpu,
    replicas: int = TrainConfig.replicas,
    when_unhealthy: str = TrainConfig.when_unhealthy,
    roll_backs: int = TrainConfig.roll_backs,
    log_every: int = TrainConfig.log_every,
    sample_every: int = TrainConfig.sample_every,
    checkpoint_every: int = TrainConfig.checkpoint_every,
    keep_checkpoints: int = TrainConfig.keep_checkpoints,
) -> dsl.ContainerSpec:
    """Trains a WGAN-GP on a dataset."""
    return dsl.ContainerSpec(
        image=image("train"),
        command=["python", "-m", "components.train"],
        args=["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
