"""kfp can write every setting of a profile for Kubernetes."""

from pathlib import Path
from typing import Any

import hypothesis
from kfp import dsl

from pipeline.profiles import kubernetes_settings
from pipeline.profiles.kubernetes_hardware import KubernetesStage
from pipeline.profiles.profiles import KFP
from tests.unit.pipeline.profiles.contents import CONTAINERS, nothing, require_writable


@hypothesis.given(settings=CONTAINERS)
def test_what_is_read_can_be_written(settings: dict[str, Any]) -> None:
    require_writable(KFP, settings, kubernetes_settings.apply)


def test_a_key_file_is_where_its_variable_says() -> None:
    @dsl.pipeline
    def pipeline() -> None:
        kubernetes_settings.apply(nothing(), KubernetesStage(key_secret="google-key"))  # noqa: S106 - its name

    (executor,) = pipeline.pipeline_spec.deployment_spec["executors"].values()
    variables = {each["name"]: each["value"] for each in executor["container"]["env"]}
    executors = pipeline.platform_spec.platforms["kubernetes"].deployment_spec.executors
    (mount,) = next(iter(executors.values()))["secretAsVolume"]
    assert mount["secretName"] == "google-key"
    assert Path(variables["GOOGLE_APPLICATION_CREDENTIALS"]).parent == Path(mount["mountPath"])
