"""Packages of the profiles that ship, with images by digest, each compiled once per test process.

Compiling takes a second under pytest: kfp looks at the whole stack, and all modules, for each setting of a stage.
"""

import dataclasses
import difflib
import functools
import re
from pathlib import Path

from components.core import container_images
from pipeline.compile import compiled_package
from pipeline.package import shipped_package
from pipeline.profiles import profile_file, profiles

PROFILES = profile_file.read()
# One profile for each target and kind of hardware. After a change that is meant: `make goldens`.
GOLDENS = (
    *(("cpu", profiles.KFP), ("gpu-l4-4", profiles.KFP), ("tpu-v5e-4-spot", profiles.KFP)),
    *(("cpu", profiles.VERTEX), ("gpu-l4", profiles.VERTEX), ("tpu-v5e-8", profiles.VERTEX)),
)
DIGESTS = {name: f"host/{name}@sha256:{'0' * 64}" for name in container_images.NAMES}


@functools.cache
def package_of(name: str, target: str) -> bytes:
    """The package of a profile, by the profile's name."""
    return compiled_package(DIGESTS, PROFILES[name, target])


@functools.cache
def package_with_volume(folder: str) -> bytes:
    """The package of the profile cpu for Kubernetes, with a volume in every stage."""
    profile = PROFILES["cpu", profiles.KFP]
    mounted = {"volume_claims": {"wgan-runs": folder}}
    stages = {name: stage.model_copy(update=mounted) for name, stage in profile.stages.items()}
    return compiled_package(DIGESTS, dataclasses.replace(profile, stages=stages))


def goldens() -> dict[Path, str]:
    """What the package that is shipped should hold, and each file in `goldens`: how others differ from it.

    Images have tags. The version of kfp is left out: 2.16.1 and 2.17.3 differ in nothing else.
    """
    folder = Path(__file__).with_name("goldens")
    whole = _compiled("cpu", profiles.KFP)
    found = {shipped_package.PATH: whole}
    for name, target in GOLDENS[1:]:
        before, after = whole.splitlines(keepends=True), _compiled(name, target).splitlines(keepends=True)
        differences = difflib.unified_diff(before, after, "kfp-cpu", f"{target}-{name}", n=1)
        found[folder / f"{target}-{name}.diff"] = "".join(differences)
    return found


def _compiled(name: str, target: str) -> str:
    text = compiled_package(profile=PROFILES[name, target]).decode()
    return re.sub(r"^sdkVersion: .*\n", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for path, text in goldens().items():
        path.write_text(text)
