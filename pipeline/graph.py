"""The pipeline: the stages and the values between them. Compiling it needs kfp alone, neither TensorFlow nor Beam.

A setting of a stage is a parameter of the pipeline, by the same name, unless it is an input's digest or in `_WIRED`.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from components.core import container_images, settings
from components.core.artifacts.recipes import RUN
from components.core.stage.component import parameter, with_parameters
from components.decide.component import decide
from components.decide.config import DecideConfig
from components.embed.component import embed
from components.embed.config import EmbedConfig
from components.evaluate.component import evaluate
from components.evaluate.config import EvaluateConfig
from components.export.component import export
from components.preprocess.component import preprocess
from components.preprocess.config import PreprocessConfig
from components.publish.component import publish
from components.record.component import record
from components.train.component import train
from components.train.config import TrainConfig
from pipeline.package.package_origin import Origin
from pipeline.package.shipped_package import EMBED_ON_CPU
from pipeline.profiles import kubernetes_settings, vertex_settings
from pipeline.profiles.kubernetes_hardware import KubernetesStage
from pipeline.profiles.profiles import VERTEX, Profile
from pipeline.profiles.vertex_hardware import VertexStage

# Stages whose settings users of the pipeline choose. Of two settings with one name, the first gives the default.
_CHOSEN_BY_USERS = (PreprocessConfig, TrainConfig, EmbedConfig, EvaluateConfig, DecideConfig)
# Settings that follow from the root or from another stage, as all digests of inputs do.
_WIRED = {
    *("dataset", "embedding", "checkpoint", "checkpoints", "evaluation", "registry", "downloads", "settings"),
    *("results", "source_index", "previous_datasets", "initial_checkpoint"),
}
# Parameters that decide the result; the others are locations and distribution of work.
_DECIDING = sorted(
    {field.name for config in _CHOSEN_BY_USERS for field in settings.fields_of(config) if field.setting.in_key}
)


def pipeline_with(image_of: Mapping[str, str], profile: Profile) -> GraphComponent:
    """Return the pipeline, each stage in its image, given by name, with the profile's settings."""
    image_of_train = image_of[container_images.TRAIN_IMAGES[profile.train_image]]
    of_train = profile.stages["train"]
    training: Any = train
    if isinstance(of_train, VertexStage) and of_train.machine_type:
        training = vertex_settings.custom_job(train, of_train, image_of_train, profile)

    origin = Origin(profile.target, profile.name, profile.service_account, profile.network, profile.encryption_key)

    parameters = _parameters(profile)

    def wgan_gp(*values: Any) -> None:
        """Everything is kept under `root`; `{key}` becomes a digest of what decides the content of the folder."""
        given = dict(zip(parameters, values, strict=True))

        def chosen(config: type) -> dict[str, Any]:
            return {field.name: given[field.name] for field in settings.fields_of(config) if field.name in given}

        source, root = given["source"], given["root"]
        registry = f"{root}/registry"
        # Kubeflow replaces a placeholder of the run only if it is the whole of a constant. On Vertex a job's
        # name is its id, by which `wgan` finds the run's notes; its UUID is a number of its own.
        run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER if profile.target == VERTEX else dsl.PIPELINE_JOB_ID_PLACEHOLDER
        of_run = {"records": f"{root}/records", "run": run}

        # Caching is off where the answer depends on more than the inputs: the source's present content, the present
        # champion. Kubeflow's own cache never applies, because the run is among the inputs of each stage: a stage
        # itself looks for its artifact under the root, and notes whether it made or found it.
        recorded = record(
            **of_run,
            run_name=dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
            created=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
            scheduled=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
            source=source,
            registry=registry,
        ).set_caching_options(False)

        with dsl.ExitHandler(recorded, name="the run"):
            decided = decide(
                registry=registry,
                source_index=f"{root}/fingerprints",
                results=root,
                settings="\n".join(f"{name}={given[name]}" for name in _DECIDING if name in given),
                **chosen(DecideConfig),
                **of_run,
            ).set_caching_options(False)

            with dsl.If(decided.outputs["decision"] == RUN, name="anything new"):
                dataset = preprocess(
                    dataset=f"{root}/datasets/{{key}}",
                    source_fingerprint=decided.outputs["source_fingerprint"],
                    source_index=f"{root}/fingerprints",
                    results=root,
                    previous_datasets=f"{root}/datasets",
                    downloads=f"{root}/downloads",
                    **chosen(PreprocessConfig),
                    **of_run,
                )

                checkpoint = training(
                    dataset=dataset.outputs["dataset_uri"],
                    checkpoints=f"{root}/checkpoints/{{key}}",
                    dataset_digest=dataset.outputs["dataset_digest"],
                    initial_checkpoint=decided.outputs["initial_checkpoint"],
                    initial_checkpoint_digest=decided.outputs["initial_checkpoint_digest"],
                    **chosen(TrainConfig),
                    **of_run,
                )

                embedding = embed(
                    dataset=dataset.outputs["dataset_uri"],
                    embedding=f"{root}/embeddings/{{key}}",
                    dataset_digest=dataset.outputs["dataset_digest"],
                    custom_embedding_digest=decided.outputs["custom_embedding_digest"],
                    **{**chosen(EmbedConfig), **({} if profile.embeds_as_it_trains else EMBED_ON_CPU)},
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
                    **chosen(EvaluateConfig),
                    **of_run,
                ).set_caching_options(False)

                model = export(
                    checkpoint=checkpoint.outputs["checkpoint_uri"],
                    model=f"{root}/models/{{key}}",
                    checkpoint_digest=checkpoint.outputs["checkpoint_digest"],
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
                        checkpoint=checkpoint.outputs["checkpoint_uri"],
                        **of_run,
                    ).set_caching_options(False)

        reference_of = {
            container_images.image(name): image_of[name]
            for name in (container_images.PREPROCESS, container_images.TRAIN)
        }
        for task in (decided, dataset, checkpoint, embedding, evaluation, model, published, recorded):
            if task.name != "train":
                task.set_container_image(reference_of[task.container_spec.image])
            elif training is train:  # a custom job's command is in its message
                task.set_container_image(image_of_train)
            _apply(task, profile.stages[task.name])

    description = f"Trains a WGAN-GP, judges it, and publishes it if it is good. {origin}"
    return dsl.pipeline(name="wgan-gp", description=description)(with_parameters(wgan_gp, parameters.values()))


def _parameters(profile: Profile) -> dict[str, inspect.Parameter]:
    """Return the parameters of the pipeline, by name."""
    defaults = {**profile.parameters, "accelerator": profile.accelerator, "replicas": profile.replicas}
    fields: dict[str, settings.Field] = {}
    for config in _CHOSEN_BY_USERS:
        fields = {field.name: field for field in settings.fields_of(config) if not field.setting.digest} | fields
    found = {name: parameter(name, str) for name in ("source", "root")}
    for name in sorted(fields.keys() - _WIRED - found.keys()):
        found[name] = parameter(name, fields[name].type, defaults.get(name, fields[name].default))
    return found


def _apply(task: dsl.PipelineTask, stage: KubernetesStage | VertexStage) -> None:
    if isinstance(stage, VertexStage):
        vertex_settings.apply(task, stage)
    else:
        kubernetes_settings.apply(task, stage)
