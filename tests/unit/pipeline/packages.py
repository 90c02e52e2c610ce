"""Packages of the profiles that ship, with images by digest, each compiled once per test process."""

import functools
from pathlib import Path
from typing import Any

import yaml

from components.core import container_images
from pipeline.kfp_graph import compiled_package
from pipeline.profiles import profile_file, targets

PROFILES = profile_file.read()
# One profile for each target and kind of hardware. After a change that is meant: `make goldens`.
GOLDENS = (
    *(("cpu", targets.KFP), ("gpu-l4-4", targets.KFP), ("tpu-v5e-4-spot", targets.KFP)),
    *(("cpu", targets.VERTEX), ("gpu-l4", targets.VERTEX), ("tpu-v5e-8", targets.VERTEX)),
)
DIGESTS = {name: f"host/{name}@sha256:{'0' * 64}" for name in container_images.NAMES}


@functools.cache
def package_of(name: str, target: str) -> bytes:
    """The package of a profile, by the profile's name."""
    return compiled_package(DIGESTS, PROFILES[name, target])


@functools.cache
def documents_of(name: str, target: str) -> list[Any]:
    """The content of the package of a profile."""
    return list(yaml.load_all(package_of(name, target), yaml.CSafeLoader))


def goldens() -> dict[Path, str]:
    """What each file in `goldens` should hold: what a profile decides, without executors that equal those of `cpu`."""
    folder, files = Path(__file__).with_name("goldens"), {}
    for name, target in GOLDENS:
        hardware = _hardware(name, target)
        if name != "cpu":
            usual, own = _hardware("cpu", target)["executors"], hardware["executors"]
            differing = [label for label in usual | own if usual.get(label) != own.get(label)]
            hardware["executors"] = {label: own.get(label) for label in differing}
        text = yaml.safe_dump(hardware, width=120, default_flow_style=None)
        files[folder / f"{target}-{name}.yaml"] = text
    return files


def _hardware(name: str, target: str) -> dict[str, Any]:
    spec, *platforms = documents_of(name, target)
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    return {
        "description": spec["pipelineInfo"]["description"],
        "defaults": {name: parameters[name]["defaultValue"] for name in ("accelerator", "replicas")},
        "executors": spec["deploymentSpec"]["executors"],
        "platforms": platforms,
    }


if __name__ == "__main__":
    for path, text in goldens().items():
        path.write_text(text)
