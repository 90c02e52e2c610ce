"""Hardware profiles: the resources of each stage on a target. Ours are in profiles.yaml; a user's file adds others."""

import dataclasses
import importlib.resources
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import yaml
from pydantic import AfterValidator, Field, StrictStr

from components.core import settings, stages
from components.core.errors import ConfigError
from components.core.settings import suggestion, unknown
from components.train.config import TrainConfig
from pipeline.profiles import validation, yaml_files
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.targets import KFP, TARGETS, VERTEX, Origin
from pipeline.profiles.validation import Settings, Text, matching
from pipeline.profiles.vertex import VertexStage

_TRAIN, _OTHERS = "train", "others"
_SHIPPED = "profiles.yaml"
# The exit handler reads notes and writes one file. It must start where a stage waits for more than the cluster has, or
# canceling such a run never ends.
_EXIT_HANDLER, _EXIT_HANDLER_REQUESTS = "record", {"cpu_request": "100m", "memory_request": "128Mi"}
# A profile may change settings of train that decide the result. Those of the hardware follow from its stages.
_FIELDS = settings.fields_of(TrainConfig)
_PARAMETERS = {field.name: field for field in _FIELDS if field.setting.in_key and not field.setting.digest}
_Stage = TypeVar("_Stage", KubernetesStage, VertexStage)
STAGES: dict[str, type[KubernetesStage] | type[VertexStage]] = {KFP: KubernetesStage, VERTEX: VertexStage}
_Name = Annotated[StrictStr, matching(r"[a-z0-9][a-z0-9.-]{0,62}", "small letters, digits, dots and dashes")]


def _stage_name(value: str) -> str:
    if value not in (*stages.ALL, _OTHERS):
        raise ValueError(f"is unknown{suggestion(value, (*stages.ALL, _OTHERS))}")
    return value


def _require_accelerators_for_train_only(stage_settings: dict[str, _Stage]) -> dict[str, _Stage]:
    problems = []
    for name, stage in ((name, stage) for name, stage in stage_settings.items() if name != _TRAIN):
        if stage.accelerator or (isinstance(stage, VertexStage) and stage.machine_type):
            why = "only train has images for accelerators"
            problems.append(f"{name} must have no accelerator and no machine_type: {why}")
        if isinstance(stage, KubernetesStage) and stage.workers > 1:
            problems.append(f"{name} must have no workers: only train can share its work among pods")
    if problems:
        raise ConfigError(*problems)
    return stage_settings


_NETWORK = "projects/NUMBER/global/networks/NAME, with the number of the project"
_KEY = "projects/.../locations/.../keyRings/.../cryptoKeys/..."
_StageName = Annotated[str, AfterValidator(_stage_name)]


class _TargetSettings(Settings, Generic[_Stage]):
    service_account: Text = ""
    stages: Annotated[dict[_StageName, _Stage], AfterValidator(_require_accelerators_for_train_only)]


class _VertexSettings(_TargetSettings[VertexStage]):
    network: Annotated[str, matching(r"projects/[0-9]+/global/networks/[a-z][a-z0-9-]{0,62}", _NETWORK)] = ""
    encryption_key: Annotated[
        str, matching(r"projects/[^/\s]+/locations/[^/\s]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+", _KEY)
    ] = ""


def _typed_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a profile with the types of train's settings, or raise every mistake."""
    problems = []
    for name, value in parameters.items():
        field = _PARAMETERS.get(name)
        problems += settings.text_problems(field, value) if field else [unknown("parameter", name, _PARAMETERS)]
    if problems:
        raise ConfigError(*problems)
    return {name: settings.parse_value(_PARAMETERS[name], value) for name, value in parameters.items()}


class Targets(Settings):
    parameters: Annotated[dict[Text, Any], AfterValidator(_typed_parameters)] = Field(default_factory=dict)
    kfp: _TargetSettings[KubernetesStage] | None = None
    vertex: _VertexSettings | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Hardware of every stage on one target."""

    origin: Origin  # of the packages that are compiled with it
    stages: Mapping[str, KubernetesStage | VertexStage]  # all of components.core.stages
    parameters: Mapping[str, Any]  # defaults of the pipeline's, typed

    @property
    def train_image(self) -> str:
        """The kind of train's image, a key of `container_images.TRAIN_IMAGES`."""
        return self.stages[_TRAIN].hardware

    @property
    def hardware(self) -> dict[str, str | int]:
        """The defaults of train's settings that follow from its hardware."""
        train = self.stages[_TRAIN]
        accelerator = TrainConfig.accelerator if train.hardware == "cpu" else train.hardware
        if isinstance(train, KubernetesStage) and train.workers > 1:
            accelerator = "multi-worker"
        return {"accelerator": accelerator, "replicas": train.replicas}


def choose(profiles: Mapping[tuple[str, str], Profile], name: str, target: str) -> Profile:
    """Return the profile of a name for a target."""
    if (name, target) in profiles:
        return profiles[name, target]
    if targets := [other_target for profile_name, other_target in profiles if profile_name == name]:
        raise ConfigError(f"profile {name} has nothing for target {target}, only for {', '.join(targets)}")
    names = dict.fromkeys(profile_name for profile_name, _ in profiles)
    raise ConfigError(f"profile {name!r} is unknown{suggestion(name, names)} (--profiles FILE adds your own)")


def read(path: Path | None = None) -> dict[tuple[str, str], Profile]:
    """Return all profiles, by name and target: ours, and those of a user's file, which replace ours of that name."""
    profiles = parse(_shipped(), _SHIPPED)
    if path is not None:
        user_profiles = parse(yaml_files.read_bytes(path, "profiles"), str(path))
        names = {name for name, _ in user_profiles}
        profiles = {key: profile for key, profile in profiles.items() if key[0] not in names} | user_profiles
    return profiles


def as_yaml(path: Path | None = None) -> str:
    """Return the profiles as YAML that `read` accepts."""
    read(path)
    content = yaml_files.load(_shipped(), _SHIPPED)
    if path:
        content |= yaml_files.load(yaml_files.read_bytes(path, "profiles"), str(path))
    plain = json.loads(json.dumps(content))  # no two nodes are one, which YAML would write as an alias
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=120)


def parse(text: bytes, where: str) -> dict[tuple[str, str], Profile]:
    """Return the profiles of one file, by name and target, or raise every mistake, one line each."""
    profiles = {}
    for name, targets in validation.read(dict[_Name, Targets], text, f"profiles {where}").items():
        for target in TARGETS:
            if settings := getattr(targets, target):
                named = settings.stages
                by_stage = {stage: named.get(stage) or named.get(_OTHERS) or STAGES[target]() for stage in stages.ALL}
                if target == KFP and _EXIT_HANDLER not in named:
                    by_stage[_EXIT_HANDLER] = by_stage[_EXIT_HANDLER].model_copy(update=_EXIT_HANDLER_REQUESTS)
                origin = Origin(target, name, **settings.model_dump(exclude={"stages"}))
                profiles[name, target] = Profile(origin=origin, stages=by_stage, parameters=targets.parameters)
    return profiles


def _shipped() -> bytes:
    return importlib.resources.files("pipeline.profiles").joinpath(_SHIPPED).read_bytes()
