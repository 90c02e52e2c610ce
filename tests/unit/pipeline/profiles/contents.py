"""Possible contents of a file of profiles, their errors, and that kfp can write them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st
from kfp import dsl

from components.core.errors import ConfigError
from pipeline.profiles import profile_file

SHIPPED = yaml.safe_load(Path(profile_file.__file__).with_name("profiles.yaml").read_text())
V5E, V6E = "tpu-v5-lite-podslice", "tpu-v6e-slice"


def parse(content: Any) -> Any:
    return profile_file.parse(yaml.safe_dump(content).encode(), "own.yaml")


def train_profile(target: str, settings: Any) -> Any:
    return {"mine": {target: {"stages": {"train": settings}}}}


def refusal(content: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse(content)
    assert all(problem.startswith("profiles own.yaml: ") for problem in raised.value.problems)
    assert all(len(problem.splitlines()) == 1 for problem in raised.value.problems)
    return [problem.removeprefix("profiles own.yaml: ") for problem in raised.value.problems]


def tpu(chips: int, topology: str, generation: str = V5E) -> dict[str, Any]:
    selectors = {"cloud.google.com/gke-tpu-accelerator": generation, "cloud.google.com/gke-tpu-topology": topology}
    return {"accelerator": "google.com/tpu", "accelerator_count": chips, "node_selectors": selectors}


def gpus(count: int, name: str = "nvidia.com/gpu", **more: Any) -> dict[str, Any]:
    return {"accelerator": name, "accelerator_count": count, **more}


# Settings of a container on either target.
CONTAINERS = st.fixed_dictionaries(
    {
        "cpu_limit": st.from_regex(r"(?:[0-9]{0,4}\.)?[0-9]{1,4}m?", fullmatch=True)
        | st.floats(min_value=1e-6, max_value=1e6),
        "memory_limit": st.from_regex(r"[0-9]{1,6}(?:[KMGTPE]i?)?", fullmatch=True),
        "retries": st.fixed_dictionaries(
            {"count": st.integers(0, 100)},
            optional={
                "first_wait": st.integers(0, 3600),
                "factor": st.floats(1, 100),
                "longest_wait": st.integers(0, 3600),
            },
        ),
    }
)


@dsl.container_component
def nothing() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true"])


def require_writable(target: str, settings: dict[str, Any]) -> None:
    """Pass a train stage's settings to a task of kfp, which refuses what it cannot write."""
    refused = ""
    try:
        (profile,) = parse(train_profile(target, settings)).values()
    except ConfigError as error:
        refused = str(error)
    if refused:
        assert "more than nothing" in refused or (
            isinstance(settings["cpu_limit"], float) and "of processors" in refused
        )
        return

    @dsl.pipeline
    def pipeline() -> None:
        profile.stages["train"].apply(nothing())
