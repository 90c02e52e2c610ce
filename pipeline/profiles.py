"""Hardware profiles: what each stage gets on a target, by name. Ours are in profiles.yaml; a user's file adds its own.

A profile is read strictly, and what cannot work is refused here, before anything is compiled or sent.
"""

import dataclasses
import difflib
import importlib.resources
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from components import errors, images, settings
from components.errors import ConfigError
from components.train.config import TrainConfig
from pipeline import profile_values, yaml_files
from pipeline.kubernetes_hardware import KubernetesStage
from pipeline.package import Retries
from pipeline.vertex_hardware import VertexStage
from pipeline.yaml_files import shown

KFP, VERTEX = "kfp", "vertex"
TARGETS = (KFP, VERTEX)
STAGES = ("fingerprint", "decide", "preprocess", "train", "embed", "evaluate", "export", "publish", "record")
TRAIN, OTHERS = "train", "others"
# Both lose little when tried again: train goes on from its last checkpoint. Preprocess is not retried: its own runner
# retries what a worker lost, and a download without a network shall fail within seconds.
_RETRIES = {TRAIN: Retries(2, 10.0), "embed": Retries(2, 10.0)}
_STAGE_CLASSES: dict[str, type[KubernetesStage] | type[VertexStage]] = {KFP: KubernetesStage, VERTEX: VertexStage}
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SHIPPED = "profiles.yaml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """What every stage gets on one target.

    Attributes:
        name: What it is called.
        target: `kfp` or `vertex`.
        stages: What each stage gets, for all of `STAGES`.
        service_account: Who a run of the package should be started as; empty for the target's default.
        train_image: A key of `images.TRAIN_IMAGES`: the hardware that train's image is for.
        accelerator, replicas: What train is told of it, unless a run says otherwise.
    """

    name: str
    target: str
    stages: Mapping[str, KubernetesStage | VertexStage]
    service_account: str = ""
    train_image: str = "cpu"
    accelerator: str = TrainConfig.accelerator
    replicas: int = TrainConfig.replicas


def read(path: Path | None = None) -> dict[tuple[str, str], Profile]:
    """All profiles, by name and target: ours, and those of a user's file, which replace ours of the same name.

    Raises:
        ConfigError: The file cannot be read, or something in it cannot be meant or cannot work; with every mistake.
    """
    shipped = importlib.resources.files("pipeline").joinpath(_SHIPPED).read_bytes()
    found = parse(shipped, _SHIPPED)
    if path is not None:
        try:
            own = parse(yaml_files.read_bytes(path), str(path))
        except OSError as error:
            raise ConfigError(f"profiles cannot be read: {errors.describe_os_error(error)}") from None
        names = {name for name, _ in own}
        found = {key: profile for key, profile in found.items() if key[0] not in names} | own
    return found


def choose(found: Mapping[tuple[str, str], Profile], name: str, target: str) -> Profile:
    """The profile of that name for that target.

    Raises:
        ConfigError: There is none.
    """
    if (name, target) in found:
        return found[name, target]
    targets = [other for known, other in found if known == name]
    if targets:
        raise ConfigError(f"profile {name} has nothing for target {target}, only for {', '.join(targets)}")
    names = list(dict.fromkeys(known for known, _ in found))
    close = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"
    raise ConfigError(f"profile {name!r} is unknown{meant} (--profiles FILE adds your own)")


def local(train_image: str = "cpu") -> Profile:
    """What `wgan run` executes: the package for CPUs, with train in the image for that hardware."""
    return dataclasses.replace(choose(read(), "cpu", KFP), train_image=train_image)


def parse(text: bytes, where: str) -> dict[tuple[str, str], Profile]:
    """The profiles of one file, by name and target.

    Args:
        text: The YAML.
        where: What to call it in messages.

    Raises:
        ConfigError: With every mistake, a line each: file, profile, target, stage, setting, value and remedy.
    """
    content = yaml_files.load(text, f"profiles {where}")
    if not isinstance(content, dict) or not content:
        raise ConfigError(
            f"profiles {where} must hold profiles by name, got {shown(content)}; docs/profiles.md shows how"
        )
    problems: list[str] = []
    found = {}
    for name, targets in content.items():
        at = f"profiles {where}: {name if isinstance(name, str) and name.isprintable() else shown(name)}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problems.append(
                f"{at}: a profile's name must be small letters, digits, dots and dashes (in quotes if digits)"
            )
        elif not isinstance(targets, dict) or not targets:
            problems.append(f"{at} must hold targets ({' or '.join(TARGETS)}), got {shown(targets)}")
        else:
            problems += yaml_files.unknown(at, targets, TARGETS)
            for target in (known for known in TARGETS if known in targets):
                profile = _profile(name, target, targets[target], f"{at}, {target}", problems)
                if profile:
                    found[name, target] = profile
    if problems:
        raise ConfigError(*problems)
    return found


def _profile(name: str, target: str, content: Any, at: str, problems: list[str]) -> Profile | None:
    """One profile for one target; adds what is wrong to `problems`, and is None then."""
    before = len(problems)
    if not isinstance(content, dict) or not isinstance(content.get("stages"), dict):
        problems.append(f"{at} must hold stages with their settings, got {shown(content)}")
        return None
    problems += yaml_files.unknown(at, content, ("service_account", "stages"))
    account = ""
    if "service_account" in content:
        try:
            account = profile_values.text(content["service_account"])
        except ValueError as error:
            problems.append(f"{at}: service_account {error}")
    problems += yaml_files.unknown(at, content["stages"], (*STAGES, OTHERS))
    of_stages = {}
    for stage in (*STAGES, OTHERS):
        if stage in content["stages"]:
            of_stages[stage] = _stage(stage, target, content["stages"][stage], f"{at}, {stage}", problems)
    if len(problems) > before:
        return None
    cls = _STAGE_CLASSES[target]
    stages = {}
    for stage in STAGES:
        found = of_stages.get(stage) or of_stages.get(OTHERS) or cls()
        retries = found.retries or _RETRIES.get(stage, Retries())
        stages[stage] = dataclasses.replace(found, retries=retries)
    train = stages[TRAIN]
    profile = Profile(
        name=name,
        target=target,
        stages=stages,
        service_account=account,
        train_image=train.hardware,
        accelerator=TrainConfig.accelerator if train.hardware == "cpu" else train.hardware,
        replicas=train.replicas,
    )
    most = next(field.setting.at_most for field in settings.fields_of(TrainConfig) if field.name == "replicas")
    if most is not None and profile.replicas > most:
        problems.append(f"{at}, {TRAIN}: accelerator_count must be at most {most:.0f}, got {profile.replicas}")
    return profile


def _stage(stage: str, target: str, content: Any, at: str, problems: list[str]) -> KubernetesStage | VertexStage | None:
    """What one stage gets; adds what is wrong to `problems`, and is None then."""
    cls = _STAGE_CLASSES[target]
    if not isinstance(content, dict):
        problems.append(f"{at} must hold settings with their values, got {shown(content)}")
        return None
    hints = get_type_hints(cls, include_extras=True)
    known = {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(cls)}
    found = yaml_files.unknown(at, content, tuple(known))
    values = {}
    for name in (name for name in known if name in content):
        try:
            values[name] = known[name](content[name])
        except ValueError as error:
            found.append(f"{at}: {name} {error}")
    if not found:
        made = cls(**values)
        found = [f"{at}: {problem}" for problem in made.problems()]
        if stage != TRAIN and (made.accelerator or getattr(made, "machine_type", "")):
            found.append(
                f"{at}: accelerator and machine_type are for train alone; the other stages have images for CPUs"
            )
    problems += found
    return None if found else made


def described(profile: Profile) -> list[str]:
    """What a profile gives, in lines of text: what train is told, then what the stages get, equal ones joined."""
    lines = [f"{profile.name}, {profile.target}: train in image {images.TRAIN_IMAGES[profile.train_image]}"]
    if profile.train_image != "cpu":
        lines[0] += f", accelerator {profile.accelerator}, replicas {profile.replicas}"
    if profile.service_account:
        lines[0] += f", as {profile.service_account}"
    stages_of: dict[str, list[str]] = {}
    for name, stage in profile.stages.items():
        stages_of.setdefault(_settings(name, stage), []).append(name)
    for text, names in stages_of.items():
        label = ", ".join(names) if len(names) <= len(STAGES) // 2 else OTHERS
        lines += textwrap.wrap(
            f"{label}: {text}", 118, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    return lines


def _settings(name: str, stage: KubernetesStage | VertexStage) -> str:
    """What a stage gets, as text; not how often it is tried again where that is as always."""
    words = []
    for field in dataclasses.fields(stage):
        value = getattr(stage, field.name)
        if isinstance(value, Retries):
            usual = value == _RETRIES.get(name, Retries())
            waits = f"waits of {value.first_wait:g} s x {value.factor:g}, up to {value.longest_wait:g} s"
            value = "" if usual else f"{value.count} ({waits})"
        elif field.name == "node_selectors":
            value = " ".join(f"{label}={text}" for label, text in value)
        elif field.name == "volume_claims":
            value = " ".join(f"{claim}:{folder}" for claim, folder in value)
        elif field.name == "tolerations":
            value = " ".join(":".join(filter(None, dataclasses.astuple(each))) for each in value)
        elif field.name == "timeout" and value:
            value = f"{value} s"
        if value:
            words.append(field.name if value is True else f"{field.name} {value}")
    return "; ".join(words) or "whatever the target gives"
