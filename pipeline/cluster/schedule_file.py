"""A user's schedules.yaml: read strictly, each schedule checked against its package, before anything is sent.

Only verbs that read such a file import this module, and pydantic with it.
"""

import contextlib
import zoneinfo
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from components.core.errors import ConfigError
from components.core.settings import unknown
from pipeline.cluster import cron
from pipeline.cluster.backend import Schedule, Submission
from pipeline.package import config_file, reader
from pipeline.profiles import validation, yaml_files
from pipeline.profiles.targets import KFP, TARGETS, VERTEX
from pipeline.profiles.validation import Settings, Text, expected, matching, one_line
from pipeline.profiles.yaml_files import shown

_UTC = "UTC"
_MOST_RUNS, _LONGEST_EXPERIMENT = 10, 128  # Kubeflow's limits


def _time_zone(value: str) -> str:
    with contextlib.suppress(KeyError, ValueError, OSError):
        return value if value == _UTC else zoneinfo.ZoneInfo(value).key
    raise expected("a time zone of this machine, as IANA names it, such as Europe/Berlin", value)


_TimeZone = Annotated[str, AfterValidator(_time_zone)]
_Name = Annotated[
    str, matching(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", "at most 63 small letters, digits and dashes between them")
]


class ScheduleSettings(Settings):
    cron: Annotated[str, AfterValidator(cron.parse)]
    package: Text
    target: Annotated[str, matching("|".join(TARGETS), " or ".join(TARGETS))]
    experiment: Annotated[str, Field(max_length=_LONGEST_EXPERIMENT), AfterValidator(one_line)]
    time_zone: _TimeZone = _UTC
    config: Text = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    enabled: bool = True
    concurrency: Annotated[int, Field(ge=1, le=_MOST_RUNS)] = 1
    catch_up: bool = False
    pipeline_root: Text = ""
    service_account: Text = ""


class FileSettings(Settings):
    controller_time_zone: _TimeZone = _UTC
    schedules: dict[_Name, ScheduleSettings]


def read(path: Path) -> list[Schedule]:
    """Read a file of schedules and its packages; raise all mistakes of the file, or else all that the packages show."""
    text = yaml_files.read_bytes(path, "schedules", "; docs/schedules.md shows how to write them")
    subject = f"schedules {path}"
    file = validation.read(FileSettings, text, subject)
    schedules: list[Schedule] = []
    problems: list[str] = []
    for name, settings in file.schedules.items():
        try:
            schedules.append(_schedule(name, settings, path.parent, file.controller_time_zone))
        except ConfigError as error:
            problems += [f"{subject}: schedules.{name}.{problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return schedules


def _schedule(name: str, settings: ScheduleSettings, folder: Path, controller_time_zone: str) -> Schedule:
    """Return one schedule with its package, or raise every problem, each beginning with the setting's name."""
    problems = []
    if settings.target == KFP and settings.time_zone != controller_time_zone:
        problems.append(
            f"time_zone must be {controller_time_zone}, the one clock of Kubeflow's controller, "
            f"got {settings.time_zone!r}: write the cron in {controller_time_zone}, or set controller_time_zone at "
            "the top of the file if the controller has another (its CRON_SCHEDULE_TIMEZONE)"
        )
    if settings.target == VERTEX:
        problems += reader.bucket_problems("pipeline_root", settings.pipeline_root)
    try:
        package = reader.read(folder / settings.package, settings.target)
        config = folder / settings.config if settings.config else None
        fields = package.parameters
        raw_values = config_file.read(config, fields, problems) | settings.parameters
    except ConfigError as error:
        raise ConfigError(*problems, *error.problems) from None
    strange = [name if name.isprintable() else shown(name) for name in raw_values if name not in fields]
    try:
        values = package.checked_parameters(raw_values, [unknown("parameter", name, fields) for name in strange])
    except ConfigError as error:
        problems += [f"parameters: {problem.partition(': give --')[0]}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    run_settings = settings.model_dump(include={"experiment", "pipeline_root", "service_account"})
    own = settings.model_dump(include={"cron", "time_zone", "target", "enabled", "concurrency", "catch_up"})
    submitted = Submission(package=package, parameters=values, run_name=name, **run_settings)
    return Schedule(name=name, submission=submitted, **own)
