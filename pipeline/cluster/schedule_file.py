"""A user's schedules.yaml: read strictly, each schedule checked against its package, before anything is sent."""

import dataclasses
import difflib
import json
import re
import zoneinfo
from pathlib import Path
from typing import Any

from components import errors
from components.errors import ConfigError
from pipeline import parameters, profile_values, profiles, yaml_files
from pipeline.cluster import cron, submission
from pipeline.cluster.schedules import Schedule
from pipeline.cluster.submission import ClusterPackage, Submission, root_problems
from pipeline.package import Package
from pipeline.yaml_files import shown

UTC = "UTC"
MOST_RUNS = 10  # that Kubeflow takes
_TOP = ("controller_time_zone", "schedules")
_REQUIRED = ("cron", "package", "target", "experiment")
_SETTINGS = (
    *_REQUIRED, "time_zone", "parameters", "enabled", "concurrency", "catch_up", "pipeline_root", "service_account"
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LONGEST_EXPERIMENT = 128  # that Kubeflow keeps
# Places among those of IANA's database that are none.
_NO_ZONES = {"localtime", "posixrules", "Factory"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleFile:
    """What a user's file says.

    Attributes:
        schedules: All of them, in their order.
        controller_time_zone: Of Kubeflow's controller, which reads every cron there by one clock.
    """

    schedules: tuple[Schedule, ...]
    controller_time_zone: str = UTC

    def of_target(self, target: str) -> list[Schedule]:
        """Those for `kfp` or for `vertex`."""
        return [schedule for schedule in self.schedules if schedule.target == target]


def read(path: Path) -> ScheduleFile:
    """Reads a file of schedules, and the packages that it names.

    Raises:
        ConfigError: With every mistake, a line each: file, schedule, setting, value and remedy.
    """
    try:
        text = yaml_files.read_bytes(path)
    except OSError as error:
        raise ConfigError(
            f"schedules cannot be read: {errors.describe_os_error(error)}; docs/schedules.md shows how to write them"
        ) from None
    what = f"schedules {path}"
    content = yaml_files.load(text, what)
    if not isinstance(content, dict) or not isinstance(content.get("schedules"), dict):
        raise ConfigError(f"{what} must hold schedules by name, got {shown(content)}; docs/schedules.md shows how")
    problems = yaml_files.unknown(what, content, _TOP)
    controller_zone = UTC
    if "controller_time_zone" in content:
        try:
            controller_zone = _time_zone(content["controller_time_zone"])
        except ValueError as error:
            problems.append(f"{what}: controller_time_zone {error}")
    reader = _Reader(path.parent, controller_zone, problems)
    found = [reader.schedule(name, settings, what) for name, settings in content["schedules"].items()]
    if problems:
        raise ConfigError(*problems)
    return ScheduleFile(
        schedules=tuple(schedule for schedule in found if schedule), controller_time_zone=controller_zone
    )


def require_zone_of_controller(time_zone: str, controller_time_zone: str) -> None:
    """Refuses a time zone that Kubeflow's controller does not go by.

    Raises:
        ValueError: With the rest of a sentence that begins with "time_zone".
    """
    if not cron.same_zone(time_zone, controller_time_zone):
        raise ValueError(
            f"must be {controller_time_zone}, the one clock of Kubeflow's controller, got {time_zone!r}: write the "
            f"cron in {controller_time_zone}, or say controller_time_zone at the top of the file if the controller has "
            f"another (its CRON_SCHEDULE_TIMEZONE)"
        )


class _Reader:
    """Reads the schedules of one file, collects what is wrong, and reads each package once."""

    def __init__(self, folder: Path, controller_time_zone: str, problems: list[str]) -> None:
        self._folder = folder
        self._controller_time_zone = controller_time_zone
        self._problems = problems
        self._packages: dict[tuple[Path, str], ClusterPackage | None] = {}

    def schedule(self, name: Any, settings: Any, what: str) -> Schedule | None:
        """One schedule; adds what is wrong to the problems, and is None then."""
        at = f"{what}: {name if isinstance(name, str) and name.isprintable() else shown(name)}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._problems.append(
                f"{at}: a schedule's name must be at most 63 small letters, digits and dashes between them (in quotes "
                f"if digits)"
            )
            return None
        if not isinstance(settings, dict):
            self._problems.append(f"{at} must hold settings with their values, got {shown(settings)}")
            return None
        found = yaml_files.unknown(at, settings, _SETTINGS)
        found += [f"{at}: {setting} is required" for setting in _REQUIRED if setting not in settings]
        values: dict[str, Any] = {}
        for setting, value in settings.items():
            if setting in _READERS:
                try:
                    values[setting] = _READERS[setting](value)
                except ValueError as error:
                    found.append(f"{at}: {setting} {error}")
        target = values.get("target", "")
        time_zone = values.get("time_zone", "" if "time_zone" in settings else UTC)
        if target == profiles.KFP and time_zone:
            try:
                require_zone_of_controller(time_zone, self._controller_time_zone)
            except ValueError as error:
                found.append(f"{at}: time_zone {error}")
        package = None
        if target and "package" in values:
            package = self._package(self._folder / values["package"], target, at)
        given = values.get("parameters", {})
        if package and ("parameters" in values or "parameters" not in settings):
            given = _parameters(package.found, given, at, found)
        self._problems += found
        if found or not package:
            return None
        return Schedule(
            name=name,
            cron=values["cron"],
            time_zone=time_zone,
            package=package.path,
            target=target,
            submission=Submission(
                package=package,
                parameters=given,
                experiment=values["experiment"],
                run_name=name,
                pipeline_root=values.get("pipeline_root", ""),
                service_account=values.get("service_account", ""),
            ),
            enabled=values.get("enabled", True),
            concurrency=values.get("concurrency", 1),
            catch_up=values.get("catch_up", False),
        )

    def _package(self, path: Path, target: str, at: str) -> ClusterPackage | None:
        if (path, target) not in self._packages:
            try:
                self._packages[path, target] = submission.read_package(path, target)
            except ConfigError as error:
                self._packages[path, target] = None
                self._problems += [f"{at}: {problem}" for problem in error.problems]
        return self._packages[path, target]


def _parameters(package: Package, given: dict[str, Any], at: str, problems: list[str]) -> dict[str, Any]:
    """The parameters that a schedule gives, typed and checked; adds what is wrong to `problems`."""
    known = parameters.fields(package)
    texts: dict[str, str] = {}
    found = []
    for name, value in given.items():
        if name not in known:
            found.append(parameters.unknown_parameter(name if name.isprintable() else shown(name), known))
            continue
        try:
            texts[name] = _text(value, package.parameters[name]["parameterType"] == "STRING")
        except ValueError as error:
            found.append(f"{name} {error}")
            # In its place something that is not missing; it is told of already.
            known.pop(name)
    missing = [name for name, field in known.items() if field.required and name not in texts]
    found += [f"{name} is required" for name in missing]
    values: dict[str, Any] = {}
    try:
        values = parameters.parse(package, texts, [])
    except ConfigError as error:
        told = {problem.split()[0] for problem in found} | {name for name in given if name not in texts}
        found += [problem for problem in error.problems if problem.split()[0] not in told]
    found += root_problems(texts["root"]) if "root" in texts else []
    problems += [f"{at}: parameters: {problem}" for problem in found]
    return {name: values[name] for name in texts if name in values}


def _text(value: Any, is_text: bool) -> str:
    """A YAML value as the text that a command line would have for it."""
    if is_text:
        if not isinstance(value, str):
            raise ValueError(
                f"must be text (in quotes, if it reads as a number, a date, true or false), got {shown(value)}"
            )
        return value
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueError("must have a value: leave it out for the package's default")
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            f"must be a number, true or false, text, or a list or mapping of such, got {shown(value)}"
        ) from None


def _cron(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be five fields in quotes, such as '0 9 * * 1', got {shown(value)}")
    return cron.parse(value)


def _time_zone(value: Any) -> str:
    zones = zoneinfo.available_timezones() - _NO_ZONES
    if value == UTC or (isinstance(value, str) and value in zones):
        return str(value)
    if not zones:
        raise ValueError(f"cannot be looked up, got {shown(value)}: install the package tzdata, or write UTC")
    close = difflib.get_close_matches(value, sorted(zones), n=1) if isinstance(value, str) else []
    meant = f"did you mean {close[0]}?" if close else "there is none of that name"
    raise ValueError(f"must be a time zone as IANA names it, such as Europe/Berlin, got {shown(value)}; {meant}")


def _target(value: Any) -> str:
    if value not in profiles.TARGETS or not isinstance(value, str):
        raise ValueError(f"must be one of {', '.join(profiles.TARGETS)}, got {shown(value)}")
    return value


def _experiment(value: Any) -> str:
    found = profile_values.text(value)
    if len(found) > _LONGEST_EXPERIMENT:
        raise ValueError(f"must have at most {_LONGEST_EXPERIMENT} characters, got {len(found)}")
    return found


def _concurrency(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RUNS:
        raise ValueError(f"must be a whole number from 1 to {MOST_RUNS}, got {shown(value)}")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"must hold parameters with their values, got {shown(value)}")
    return value


_READERS = {
    "cron": _cron,
    "time_zone": _time_zone,
    "package": profile_values.text,
    "target": _target,
    "experiment": _experiment,
    "parameters": _mapping,
    "enabled": profile_values.flag,
    "concurrency": _concurrency,
    "catch_up": profile_values.flag,
    "pipeline_root": profile_values.text,
    "service_account": profile_values.text,
}
