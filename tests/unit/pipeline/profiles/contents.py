"""Contents of a file of profiles, and their errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

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
