"""The stages of the pipeline: each is a folder in `components`. Standard library only.

A new stage needs its folder, a row here, and its step in `pipeline/step_table.py`; tests name what was forgotten.
"""

import dataclasses
import importlib
from collections.abc import Mapping

from components.core.container_images import PREPROCESS, TRAIN

SUMMARY = "summary"  # an output of every stage: one line for people


@dataclasses.dataclass(frozen=True)
class Stage:
    """What Kubeflow has to know of a stage beside its settings, which are its inputs."""

    image: str  # that it runs in, in `container_images.NAMES`; that of train depends on its hardware
    description: str
    outputs: Mapping[str, type]  # the type of each output parameter but the summary
    artifacts: Mapping[str, str] = dataclasses.field(default_factory=dict)  # Kubeflow's type of each output artifact
    status: str = ""  # the setting that gets the outcome of the other stages, as Kubeflow's PipelineTaskFinalStatus


TABLE = {
    "decide": Stage(
        PREPROCESS,
        "Decides whether a run can make anything new, and which checkpoint a training starts from.",
        {
            "decision": str,
            "source_fingerprint": str,
            "custom_embedding_digest": str,
            "recipe": str,
            "initial_checkpoint": str,
            "initial_checkpoint_digest": str,
        },
    ),
    "preprocess": Stage(PREPROCESS, "Turns images into a dataset.", {"dataset_uri": str, "dataset_digest": str}),
    "train": Stage(TRAIN, "Trains a WGAN-GP on a dataset.", {"checkpoint_uri": str, "checkpoint_digest": str}),
    "embed": Stage(
        TRAIN,
        "Makes the feature spaces of the metrics: trains the classifier, or adds a custom embedding.",
        {"embedding_uri": str, "embedding_digest": str},
    ),
    "evaluate": Stage(
        TRAIN,
        "Scores a checkpoint and gives a verdict.",
        {"evaluation_uri": str, "evaluation_digest": str, "verdict": str},
        artifacts={"metrics": "Metrics", "report": "HTML"},
    ),
    "export": Stage(
        TRAIN, "Makes a SavedModel of a checkpoint's averaged generator.", {"model_uri": str, "model_digest": str}
    ),
    "publish": Stage(TRAIN, "Publishes a model as the registry's next version and champion.", {"version": int}),
    "record": Stage(
        PREPROCESS,
        "Writes the final record of a run, however the run ended.",
        {"record_uri": str, "state": str},
        artifacts={"page": "Markdown"},
        status="status",
    ),
}
ALL = tuple(TABLE)
PROGRAMS = (*ALL, "sample", "report", "selfcheck")  # of `python -m components`
# Stages whose code decides what is published.
MAKERS = ("preprocess", "train", "embed", "evaluate", "export")


def config_of(stage: str) -> type:
    config_class: type = getattr(importlib.import_module(f"components.{stage}.config"), f"{stage.title()}Config")
    return config_class


def command(stage: str) -> list[str]:
    return ["python", "-m", "components", stage]
