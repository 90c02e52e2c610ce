"""A user's schedules.yaml: read strictly, each schedule checked against its package, before anything is sent."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.core import errors
from components.core.errors import ConfigError
from pipeline.cluster import cron, submission
from pipeline.cluster.backend import Schedule
from pipeline.cluster.submission import ClusterPackage, Submission, root_problems
from pipeline.package import parameters
from pipeline.package.reader import Package
from pipeline.profiles import profiles, yaml_files
from pipeline.profiles.yaml_files import shown

if TYPE_CHECKING:
    from pipeline.cluster.schedule_model import ScheduleSettings


def read(path: Path) -> list[Schedule]:
    """Read a file of schedules, and the packages that it names.

    Raises:
        ConfigError: With every mistake in the file, a line each: file, path, value and remedy; if there is none, with
            every mistake that a package shows.
    """
    # They need pydantic, and most verbs read no schedules.
    from pipeline.cluster.schedule_model import FileSettings
    from pipeline.profiles import validation

    try:
        text = yaml_files.read_bytes(path)
    except OSError as error:
        raise ConfigError(
            f"schedules cannot be read: {errors.describe_os_error(error)}; docs/schedules.md shows how to write them"
        ) from None
    what = f"schedules {path}"
    file = validation.read(FileSettings, yaml_files.load(text, what), what)
    read_package = functools.cache(submission.read_package)
    found: list[Schedule] = []
    problems: list[str] = []
    for name, settings in file.schedules.items():
        try:
            found.append(_schedule(name, settings, path.parent, file.controller_time_zone, read_package))
        except ConfigError as error:
            problems += [f"{what}: schedules.{name}.{problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return found


def _schedule(
    name: str,
    settings: "ScheduleSettings",
    folder: Path,
    controller_time_zone: str,
    read_package: Callable[[Path, str], ClusterPackage],
) -> Schedule:
    """Return one schedule with its package.

    Raises:
        ConfigError: With every problem, each beginning with the setting's name.
    """
    problems = []
    if settings.target == profiles.KFP and not cron.same_zone(settings.time_zone, controller_time_zone):
        problems.append(
            f"time_zone must be {controller_time_zone}, the one clock of Kubeflow's controller, "
            f"got {settings.time_zone!r}: write the cron in {controller_time_zone}, or say controller_time_zone at "
            "the top of the file if the controller has another (its CRON_SCHEDULE_TIMEZONE)"
        )
    try:
        package = read_package(folder / settings.package, settings.target)
        given = _parameters(package.found, settings.parameters)
    except ConfigError as error:
        raise ConfigError(*problems, *error.problems) from None
    if problems:
        raise ConfigError(*problems)
    return Schedule(
        name=name,
        cron=settings.cron,
        time_zone=settings.time_zone,
        target=settings.target,
        submission=Submission(
            package=package,
            parameters=given,
            experiment=settings.experiment,
            run_name=name,
            pipeline_root=settings.pipeline_root,
            service_account=settings.service_account,
        ),
        enabled=settings.enabled,
        concurrency=settings.concurrency,
        catch_up=settings.catch_up,
    )


def _parameters(package: Package, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a schedule sets, typed and checked together with the package's defaults."""
    known = parameters.fields(package)
    problems = [
        parameters.unknown_parameter(name if name.isprintable() else shown(name), known)
        for name in given
        if name not in known
    ]
    if isinstance(given.get("root"), str):
        problems += root_problems(given["root"])
    try:
        values = parameters.parse(package, given, problems)
    except ConfigError as error:
        raise ConfigError(*(f"parameters: {problem.partition(': give --')[0]}" for problem in error.problems)) from None
    return {name: values[name] for name in given}
