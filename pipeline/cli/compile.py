"""`wgan compile` and `wgan profiles`: a package for a cluster or Vertex, and the available hardware profiles."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.core import container_images
from components.core.errors import ConfigError
from components.core.stage import cli
from components.core.storage import atomic_files
from components.train.config import TrainConfig
from pipeline import step_table, verbs
from pipeline.package import config_file, image_digests, parameters
from pipeline.profiles.targets import KFP, TARGETS, VERTEX

if TYPE_CHECKING:
    from pipeline.profiles.profile_file import Profile

log = logging.getLogger("pipeline")

_DEFAULT_PROFILE = "cpu"


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    parser = verbs.add(command, "compile", "write the package for Kubeflow or for Vertex", _compile)
    profiles = verbs.add(command, "profiles", "print the hardware profiles as YAML", _print_profiles)
    own = "file of your own profiles, beside ours (docs/kubeflow.md)"
    for verb in (parser, profiles):
        verb.add_argument("--profiles", type=Path, metavar="FILE", help=own)
    add = parser.add_argument
    add("--target", default=KFP, choices=TARGETS, help=f"{KFP} for a Kubernetes cluster, {VERTEX} (default: {KFP})")
    help_text = f"hardware profile; `wgan profiles` lists them (default: {_DEFAULT_PROFILE})"
    add("--profile", default=_DEFAULT_PROFILE, metavar="NAME", help=help_text)
    add("--output", type=Path, default=Path("pipeline.yaml"), help="file to write (default: pipeline.yaml)")
    add("--images", type=Path, help="file that `make push` wrote: the digest of each image (required, or --allow-tags)")
    add("--allow-tags", action="store_true", help="name images by tag; the image with that tag at run time is used")
    config_file.add_flag(parser)


def _print_profiles(parsed: argparse.Namespace) -> None:
    verbs.require("pipeline", parsed.verb)
    from pipeline.profiles import profile_file  # it needs pydantic, which --help does not

    print(profile_file.as_yaml(parsed.profiles), end="")


def _compile(parsed: argparse.Namespace) -> None:
    verbs.require("pipeline", parsed.verb)
    from pipeline.profiles import profile_file

    profile = profile_file.choose(profile_file.read(parsed.profiles), parsed.profile, parsed.target)
    if parsed.images is None and not parsed.allow_tags:
        raise ConfigError(
            "images is required, because tags can change: give the file that `make push REGISTRY=...` "
            "wrote (--images build/images.json), or name images by tag (--allow-tags)"
        )
    tags = {name: container_images.image(name) for name in container_images.NAMES}
    image_of = image_digests.read(parsed.images) if parsed.images else tags
    defaults = _checked_defaults(profile, parsed)
    # Importing kfp takes a second; mistakes are reported before.
    from pipeline.kfp_graph import compiled_package

    atomic_files.write_file(parsed.output, compiled_package(image_of, profile, defaults))
    log.info("wrote %s for %s, profile %s", parsed.output, parsed.target, parsed.profile)
    if account := profile.origin.service_account:
        # To servers the account is a field of each run and schedule, not of a package, whose description notes it.
        log.info("`wgan submit` and `wgan schedule apply` use its service account %s; give it to others, too", account)


def _checked_defaults(profile: "Profile", parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the new defaults of a package, typed and checked with all other parameters and the hardware."""
    fields = step_table.PARAMETERS
    # On CPUs embed, whose image is for CPUs, takes the same settings, which users may change.
    hardware = {} if profile.hardware["accelerator"] == TrainConfig.accelerator else profile.hardware
    problems: list[str] = []
    raw_values = config_file.read(parsed.config, fields, problems)
    # kfp writes defaults into comments of the package.
    several = {name: text for name, text in raw_values.items() if "\n" in text}
    problems += [f"{name} must be one line in a package, got {text!r}" for name, text in several.items()]
    problems += [
        f"{name} follows from profile {parsed.profile} ({', '.join(map(str, hardware.values()))}): leave it out"
        for name in hardware
        if raw_values.get(name, str(fields[name].default)) != str(fields[name].default)
    ]
    later = {name: "given-later" for name, field in fields.items() if field.required}  # by a run
    try:
        steps = step_table.steps(profile.train_image)
        values = parameters.parse(fields, steps, {**later, **profile.parameters, **raw_values, **hardware}, problems)
    except ConfigError as error:
        raise ConfigError(*(f"with profile {parsed.profile}: {problem}" for problem in error.problems)) from None
    return {name: values[name] for name in raw_values}
