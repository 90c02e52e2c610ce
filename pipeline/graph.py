"""The pipeline: which stage hands what to which. Compiling it needs kfp alone, neither TensorFlow nor Beam."""

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from components import images, settings
from components.decide.component import decide
from components.decide.config import DecideConfig
from components.embed.component import embed
from components.embed.config import EmbedConfig
from components.evaluate.component import evaluate
from components.evaluate.config import EvaluateConfig
from components.export.component import export
from components.fingerprint.component import fingerprint
from components.preprocess.component import preprocess
from components.preprocess.config import PreprocessConfig
from components.publish.component import publish
from components.recipes import RUN
from components.record.component import record
from components.train.component import train
from components.train.config import TrainConfig
from pipeline import kubernetes_settings, vertex_settings
from pipeline.kubernetes_hardware import KubernetesStage
from pipeline.package_origin import Origin
from pipeline.profiles import Profile
from pipeline.vertex_hardware import VertexStage

# Stages whose image has neither TensorFlow nor anything else that takes seconds to start.
_LIGHT = ("fingerprint", "decide", "preprocess", "record")
# Parameters that decide what a run makes; the others say where, and how the work is spread.
_DECIDING = sorted(
    {
        field.name
        for config in (PreprocessConfig, TrainConfig, EmbedConfig, EvaluateConfig, DecideConfig)
        for field in settings.fields_of(config)
        if field.setting.in_key
    }
)


def pipeline_with(image_of: Mapping[str, str], profile: Profile) -> GraphComponent:
    """The pipeline, each stage in its image and with what the profile gives it.

    Args:
        image_of: The reference of each image of `components.images`, by name.
        profile: What each stage gets; decides the target as well.
    """
    image_of_train = image_of[images.TRAIN_IMAGES[profile.train_image]]
    of_train = profile.stages["train"]
    training: Any = train
    if isinstance(of_train, VertexStage) and of_train.machine_type:
        training = vertex_settings.custom_job(train, of_train, image_of_train, profile.service_account)

    origin = Origin(profile.target, profile.name, profile.service_account)

    @dsl.pipeline(name="wgan-gp", description=f"Trains a WGAN-GP, judges it, and publishes it if it is good. {origin}")
    def wgan_gp(
        source: str,
        root: str,
        height: int = PreprocessConfig.height,
        width: int = PreprocessConfig.width,
        color: str = PreprocessConfig.color,
        resize: str = PreprocessConfig.resize,
        validation_fraction: float = PreprocessConfig.validation_fraction,
        test_fraction: float = PreprocessConfig.test_fraction,
        bad_images_limit: float = PreprocessConfig.bad_images_limit,
        images_per_shard: int = PreprocessConfig.images_per_shard,
        beam_options: str = PreprocessConfig.beam_options,
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
        when_unhealthy: str = TrainConfig.when_unhealthy,
        roll_backs: int = TrainConfig.roll_backs,
        log_every: int = TrainConfig.log_every,
        sample_every: int = TrainConfig.sample_every,
        checkpoint_every: int = TrainConfig.checkpoint_every,
        keep_checkpoints: int = TrainConfig.keep_checkpoints,
        classifier_epochs: int = EmbedConfig.classifier_epochs,
        classifier_batch_size: int = EmbedConfig.classifier_batch_size,
        classifier_learning_rate: float = EmbedConfig.classifier_learning_rate,
        own_embedding: str = EmbedConfig.own_embedding,
        own_embedding_name: str = EmbedConfig.own_embedding_name,
        own_embedding_size: int = EmbedConfig.own_embedding_size,
        own_embedding_range: str = EmbedConfig.own_embedding_range,
        own_embedding_output: str = EmbedConfig.own_embedding_output,
        export_checkpoint: str = EvaluateConfig.export_checkpoint,
        sample_count: int = EvaluateConfig.sample_count,
        distance_limit: float = EvaluateConfig.distance_limit,
        recall_limit: float = EvaluateConfig.recall_limit,
        coverage_limit: float = EvaluateConfig.coverage_limit,
        class_distance_limit: float = EvaluateConfig.class_distance_limit,
        class_ratio_limit: float = EvaluateConfig.class_ratio_limit,
        class_coverage_limit: float = EvaluateConfig.class_coverage_limit,
        distinct_share_limit: float = EvaluateConfig.distinct_share_limit,
        copy_share_limit: float = EvaluateConfig.copy_share_limit,
        copy_nearness_limit: float = EvaluateConfig.copy_nearness_limit,
        uncertified: str = EvaluateConfig.uncertified,
        seed: int = TrainConfig.seed,
        start_from: str = DecideConfig.start_from,
        refresh: str = DecideConfig.refresh,
        accelerator: str = profile.accelerator,
        tpu: str = TrainConfig.tpu,
        replicas: int = profile.replicas,
    ) -> None:
        """Everything is kept under `root`; `{key}` becomes a digest of what decides the content of the folder."""
        given = dict(locals())
        registry = f"{root}/registry"
        # Kubeflow fills in a placeholder of the run only where it is the whole of a constant.
        of_run = {"records": f"{root}/records", "run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}

        # Caching is off where the answer depends on more than the inputs: what the source holds now, who is champion
        # now. Kubeflow's own cache never answers for any stage, as the run is among the inputs of each: a stage looks
        # by itself for what is kept under the root, and notes whether it made or found it.
        recorded = record(
            **of_run,
            run_name=dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
            created=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
            scheduled=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
            source=source,
            registry=registry,
        ).set_caching_options(False)

        with dsl.ExitHandler(recorded, name="the run"):
            fingerprinted = fingerprint(
                source=source, own_embedding=own_embedding, index=f"{root}/fingerprints", **of_run
            ).set_caching_options(False)

            decided = decide(
                registry=registry,
                source_fingerprint=fingerprinted.outputs["source_fingerprint"],
                own_embedding_digest=fingerprinted.outputs["own_embedding_digest"],
                settings="\n".join(f"{name}={given[name]}" for name in _DECIDING if name in given),
                refresh=refresh,
                start_from=start_from,
                **of_run,
            ).set_caching_options(False)

            with dsl.If(decided.outputs["decision"] == RUN, name="anything new"):
                dataset = preprocess(
                    source=source,
                    dataset=f"{root}/datasets/{{key}}",
                    source_fingerprint=fingerprinted.outputs["source_fingerprint"],
                    source_index=f"{root}/fingerprints",
                    former_datasets=f"{root}/datasets",
                    downloads=f"{root}/downloads",
                    height=height,
                    width=width,
                    color=color,
                    resize=resize,
                    validation_fraction=validation_fraction,
                    test_fraction=test_fraction,
                    bad_images_limit=bad_images_limit,
                    images_per_shard=images_per_shard,
                    seed=seed,
                    beam_options=beam_options,
                    **of_run,
                )

                checkpoint = training(
                    dataset=dataset.outputs["dataset_uri"],
                    checkpoints=f"{root}/checkpoints/{{key}}",
                    dataset_digest=dataset.outputs["dataset_digest"],
                    initial_checkpoint=decided.outputs["initial_checkpoint"],
                    initial_checkpoint_digest=decided.outputs["initial_checkpoint_digest"],
                    steps=steps,
                    batch_size=batch_size,
                    critic_steps=critic_steps,
                    critic_learning_rate=critic_learning_rate,
                    generator_learning_rate=generator_learning_rate,
                    beta_1=beta_1,
                    beta_2=beta_2,
                    learning_rate_decay=learning_rate_decay,
                    constraint=constraint,
                    penalty_weight=penalty_weight,
                    clip_value=clip_value,
                    ema_decay=ema_decay,
                    latent_size=latent_size,
                    base_filters=base_filters,
                    critic_normalization=critic_normalization,
                    generator_normalization=generator_normalization,
                    conditioning=conditioning,
                    precision=precision,
                    reproducibility=reproducibility,
                    virtual_shards=virtual_shards,
                    seed=seed,
                    accelerator=accelerator,
                    tpu=tpu,
                    replicas=replicas,
                    when_unhealthy=when_unhealthy,
                    roll_backs=roll_backs,
                    log_every=log_every,
                    sample_every=sample_every,
                    checkpoint_every=checkpoint_every,
                    keep_checkpoints=keep_checkpoints,
                    **of_run,
                )

                # Embed's image is for CPUs. It shares what train is told only where train's is the same.
                shared = profile.train_image == "cpu"
                embedding = embed(
                    dataset=dataset.outputs["dataset_uri"],
                    embedding=f"{root}/embeddings/{{key}}",
                    dataset_digest=dataset.outputs["dataset_digest"],
                    classifier_epochs=classifier_epochs,
                    classifier_batch_size=classifier_batch_size,
                    classifier_learning_rate=classifier_learning_rate,
                    own_embedding=own_embedding,
                    own_embedding_digest=fingerprinted.outputs["own_embedding_digest"],
                    own_embedding_name=own_embedding_name,
                    own_embedding_size=own_embedding_size,
                    own_embedding_range=own_embedding_range,
                    own_embedding_output=own_embedding_output,
                    seed=seed,
                    accelerator=accelerator if shared else "cpu",
                    tpu=tpu if shared else EmbedConfig.tpu,
                    replicas=replicas if shared else EmbedConfig.replicas,
                    **of_run,
                )

                evaluation = evaluate(
                    checkpoint=checkpoint.outputs["checkpoint_uri"],
                    dataset=dataset.outputs["dataset_uri"],
                    embedding=embedding.outputs["embedding_uri"],
                    evaluation=f"{root}/evaluations/{{key}}",
                    registry=registry,
                    checkpoint_digest=checkpoint.outputs["checkpoint_digest"],
                    dataset_digest=dataset.outputs["dataset_digest"],
                    embedding_digest=embedding.outputs["embedding_digest"],
                    export_checkpoint=export_checkpoint,
                    sample_count=sample_count,
                    distance_limit=distance_limit,
                    recall_limit=recall_limit,
                    coverage_limit=coverage_limit,
                    class_distance_limit=class_distance_limit,
                    class_ratio_limit=class_ratio_limit,
                    class_coverage_limit=class_coverage_limit,
                    distinct_share_limit=distinct_share_limit,
                    copy_share_limit=copy_share_limit,
                    copy_nearness_limit=copy_nearness_limit,
                    uncertified=uncertified,
                    seed=seed,
                    **of_run,
                ).set_caching_options(False)

                model = export(
                    checkpoint=evaluation.outputs["judged_checkpoint_uri"],
                    model=f"{root}/models/{{key}}",
                    checkpoint_digest=evaluation.outputs["judged_checkpoint_digest"],
                    **of_run,
                )

                with dsl.If(evaluation.outputs["verdict"] == "PROMOTE", name="promoted"):
                    published = publish(
                        model=model.outputs["model_uri"],
                        evaluation=evaluation.outputs["evaluation_uri"],
                        registry=registry,
                        model_digest=model.outputs["model_digest"],
                        evaluation_digest=evaluation.outputs["evaluation_digest"],
                        recipe=decided.outputs["recipe"],
                        checkpoint=evaluation.outputs["judged_checkpoint_uri"],
                        **of_run,
                    ).set_caching_options(False)

        tasks = {
            "fingerprint": fingerprinted,
            "decide": decided,
            "preprocess": dataset,
            "train": checkpoint,
            "embed": embedding,
            "evaluate": evaluation,
            "export": model,
            "publish": published,
            "record": recorded,
        }
        for name, task in tasks.items():
            if name in _LIGHT:
                task.set_container_image(image_of[images.PREPROCESS])
            elif name != "train":
                task.set_container_image(image_of[images.TRAIN])
            elif training is train:  # what a custom job runs is in its message
                task.set_container_image(image_of_train)
            _apply(task, profile.stages[name])

    return wgan_gp


def _apply(task: dsl.PipelineTask, stage: KubernetesStage | VertexStage) -> None:
    if isinstance(stage, VertexStage):
        vertex_settings.apply(task, stage)
    else:
        kubernetes_settings.apply(task, stage)
