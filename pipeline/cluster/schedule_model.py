"""A file of schedules as YAML holds it."""

import difflib
import re
import zoneinfo
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from pipeline.cluster import cron
from pipeline.profiles.validation import Settings, Text, expected, one_line
from pipeline.profiles.yaml_files import shown

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_UTC = "UTC"
_MOST_RUNS = 10  # that Kubeflow takes
_LONGEST_EXPERIMENT = 128  # that Kubeflow keeps
# Names in IANA's database that are no zones.
_NO_ZONES = {"localtime", "posixrules", "Factory"}


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise expected("at most 63 small letters, digits and dashes between them", value)
    return value


def _time_zone(value: str) -> str:
    zones = zoneinfo.available_timezones() - _NO_ZONES
    if value == _UTC or value in zones:
        return value
    if not zones:
        raise ValueError(f"cannot be looked up, got {shown(value)}: install the package tzdata, or write UTC")
    close = difflib.get_close_matches(value, sorted(zones), n=1)
    meant = f"did you mean {close[0]}?" if close else "there is none of that name"
    raise ValueError(f"must be a time zone as IANA names it, such as Europe/Berlin, got {shown(value)}; {meant}")


_TimeZone = Annotated[str, AfterValidator(_time_zone)]


class ScheduleSettings(Settings):
    """One schedule."""

    cron: Annotated[str, AfterValidator(cron.parse)]
    package: Text
    target: Literal["kfp", "vertex"]
    experiment: Annotated[str, Field(max_length=_LONGEST_EXPERIMENT), AfterValidator(one_line)]
    time_zone: _TimeZone = _UTC
    parameters: dict[str, Any] = Field(default_factory=dict)
    enabled: bool = True
    concurrency: Annotated[int, Field(ge=1, le=_MOST_RUNS)] = 1
    catch_up: bool = False
    pipeline_root: Text = ""
    service_account: Text = ""


class FileSettings(Settings):
    """The whole file."""

    controller_time_zone: _TimeZone = _UTC
    schedules: dict[Annotated[str, AfterValidator(_name)], ScheduleSettings]
