"""`wgan schedule`: what a file of schedules says, brought to Kubeflow and to Vertex, looked at and steered by hand."""

import argparse
import dataclasses
import functools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components import cli, errors
from components.errors import ConfigError, TransientError
from pipeline import profiles, tables
from pipeline.cluster import apply, schedule_file
from pipeline.cluster.apply import Change
from pipeline.cluster.runs import Runs
from pipeline.cluster.schedule_file import ScheduleFile
from pipeline.cluster.schedules import LiveSchedule, Schedule, Schedules

log = logging.getLogger("pipeline")

HELP = {"schedule": "bring the schedules of a file to Kubeflow and Vertex, list, pause and resume them"}
DIFFERENT = 1
_DIFF, _APPLY, _LIST, _PAUSE, _RESUME, _DELETE, _RUN_NOW = (
    "diff", "apply", "list", "pause", "resume", "delete", "run-now"
)  # fmt: skip
_VERBS = {
    _DIFF: "show what apply would change, setting by setting",
    _APPLY: "make the place have what the file says; can be stopped anywhere and done again",
    _LIST: "list the schedules: what the file says, and what is there",
    _PAUSE: "let a schedule start no more runs, until it is resumed or the file is applied",
    _RESUME: "let a paused schedule start runs again",
    _DELETE: "remove a schedule from its place, unless a run of it is at work",
    _RUN_NOW: "start one run as the schedule would",
}
_DEFAULT_FILE = Path("schedules.yaml")
_SHOWN = 60


def main(verb: str, words: list[str]) -> int:
    """Runs `wgan schedule ...` and returns its exit code (see `components.errors`).

    Args:
        verb: A key of `HELP`.
        words: The command line after it.

    Raises:
        StageError: What is wrong with the file or the command, or what the place answered.
    """
    parsed = _parser(verb).parse_args(words)
    file = _file(parsed)
    places = {target: _Place(target, parsed, file) for target in _targets(parsed, file)}
    if parsed.action == _DIFF:
        return _diff(places, file, parsed.exit_code)
    if parsed.action == _APPLY:
        return _apply(places, file, parsed.prune)
    if parsed.action == _LIST:
        return _list(places, file)
    return _BY_HAND[parsed.action](places, file, parsed.name)


def _parser(verb: str) -> cli.Parser:
    from pipeline.cluster import kubeflow_connection, vertex_connection

    shared = cli.Parser(add_help=False)
    shared.add_argument(
        "--file", type=Path, metavar="FILE", help=f"the schedules (default: {_DEFAULT_FILE}; docs/schedules.md)"
    )
    shared.add_argument(
        "--target", choices=profiles.TARGETS, help="only this place (default: those that the file has schedules for)"
    )
    kubeflow_connection.add_flags(shared)
    vertex_connection.add_flags(shared)
    parser = cli.Parser(prog=f"wgan {verb}", description="Schedules as a file.", allow_abbrev=False)
    verbs = parser.add_subparsers(
        dest="action", required=True, metavar="VERB", title=f"verbs (wgan {verb} VERB --help)"
    )
    for name, text in _VERBS.items():
        description = f"{text[0].upper()}{text[1:]}."
        action = verbs.add_parser(name, help=text, description=description, parents=[shared], allow_abbrev=False)
        if name in _BY_HAND:
            action.add_argument("name", metavar="NAME", help="the schedule's name")
        if name == _DIFF:
            action.add_argument(
                *("--exit_code", "--exit-code"),
                action="store_true",
                help=f"exit with {DIFFERENT} where apply would change anything, else with 0 (default: 0 either way)",
            )
        if name == _APPLY:
            action.add_argument(
                "--prune",
                action="store_true",
                help="also delete the schedules that were made by apply and that the file no longer has",
            )
    return parser


def _file(parsed: argparse.Namespace) -> ScheduleFile | None:
    """What the file says; None if there is none, none was asked for, and the verb can do without."""
    optional = parsed.action in (_LIST, _PAUSE, _RESUME, _DELETE)
    if parsed.file is None and optional and not _DEFAULT_FILE.exists():
        return None
    return schedule_file.read(parsed.file or _DEFAULT_FILE)


def _targets(parsed: argparse.Namespace, file: ScheduleFile | None) -> list[str]:
    """The places that are meant, in the file's order."""
    if parsed.target:
        return [parsed.target]
    schedules = file.schedules if file else ()
    if parsed.action in _BY_HAND:
        of_name = [schedule.target for schedule in schedules if schedule.name == parsed.name]
        if of_name:
            return of_name
    targets = list(dict.fromkeys(schedule.target for schedule in schedules))
    if not targets:
        why = "the file has no schedule" if file else f"there is no file {_DEFAULT_FILE}"
        raise ConfigError(f"{why}: say which place is meant (--target {' or '.join(profiles.TARGETS)}, or --file)")
    return targets


class _Place:
    """One target: what the file wants there, and what can be asked of it, which is not reached before it is."""

    def __init__(self, target: str, parsed: argparse.Namespace, file: ScheduleFile | None) -> None:
        self.target = target
        self.wanted = file.of_target(target) if file else []
        self._parsed = parsed
        self._controller_time_zone = file.controller_time_zone if file else schedule_file.UTC

    @functools.cached_property
    def schedules(self) -> Schedules:
        return self._both[0]

    @functools.cached_property
    def runs(self) -> Runs:
        return self._both[1]

    @functools.cached_property
    def _both(self) -> tuple[Schedules, Runs]:
        if self.target == profiles.KFP:
            from pipeline.cluster import kubeflow_connection
            from pipeline.cluster.kubeflow_runs import KubeflowRuns
            from pipeline.cluster.kubeflow_schedules import KubeflowSchedules

            kubeflow = KubeflowRuns(kubeflow_connection.from_flags(self._parsed))
            return KubeflowSchedules(kubeflow.connection, kubeflow, self._controller_time_zone), kubeflow
        from pipeline.cluster import vertex_connection
        from pipeline.cluster.vertex_runs import VertexRuns
        from pipeline.cluster.vertex_schedules import VertexSchedules

        vertex = vertex_connection.from_flags(self._parsed)
        return VertexSchedules(vertex), VertexRuns(vertex)


def _diff(places: dict[str, _Place], file: ScheduleFile | None, exit_code: bool) -> int:
    needed = False
    for place in _expressible(places):
        for change in apply.plan(place.wanted, place.schedules.live()):
            needed |= change.needed
            print("\n".join(_told(change, place.target)))
    return DIFFERENT if needed and exit_code else errors.OK


def _expressible(places: dict[str, _Place]) -> list[_Place]:
    """The places, once it is known that each can have what the file says: nothing is half done."""
    problems: list[str] = []
    for place in places.values():
        try:
            apply.require_expressible(place.schedules, place.wanted)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return list(places.values())


def _told(change: Change, target: str) -> list[str]:
    """What apply would do for one name, as lines of text."""
    lines = []
    if change.action == apply.DELETE:
        lines.append(f"{apply.DELETE} {change.name} ({target}): the file has none; only with --prune")
    else:
        paused = ", paused" if change.wanted and not change.wanted.enabled else ""
        lines.append(f"{change.action} {change.name} ({target}{paused})")
    for difference in change.differences:
        lines.append(f"  {difference.name}: {_value(difference.live)} -> {_value(difference.wanted)}")
    if change.action == apply.CREATE and change.wanted:
        content = apply.flat(change.wanted.content())
        lines += [f"  {name}: {_value(value)}" for name, value in content.items() if value != ""]
    for each in change.superseded:
        # What is replaced by another is told of already, unless it is there besides.
        at_work = f"; {_at_work(each)}" if each.active_runs else ""
        if change.action not in (apply.DELETE, apply.REPLACE) or at_work:
            lines.append(f"  {each.schedule_id} is to be deleted{at_work}")
    return lines


def _at_work(live: LiveSchedule) -> str:
    return f"it waits for {', '.join(live.active_runs)} to end"


def _value(value: Any) -> str:
    """A value for a line: as JSON, and short."""
    if value is None:
        return "not given"
    text = value if isinstance(value, str) and value else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _apply(places: dict[str, _Place], file: ScheduleFile | None, prune: bool) -> int:
    for place in _expressible(places):
        lines: list[str] = []

        def tell(line: str, lines: list[str] = lines) -> None:
            lines.append(line)
            print(line, flush=True)

        if apply.apply(place.schedules, place.wanted, prune, tell):
            print(f"{place.target}: apply again later to delete what stays")
        if not lines:
            print(f"{place.target}: nothing to change")
    return errors.OK


def _list(places: dict[str, _Place], file: ScheduleFile | None) -> int:
    rows: list[tuple[str, ...]] = []
    for place in places.values():
        live = place.schedules.live()
        said = {}
        for change in apply.plan(place.wanted, live):
            for each in change.superseded:
                said[each.schedule_id] = "nothing" if change.action == apply.DELETE else "to be deleted"
            if change.wanted and change.kept:
                said[change.kept.schedule_id] = _said(change.wanted)
            elif change.wanted:
                zone = f"{change.wanted.cron} {change.wanted.time_zone}"
                rows.append((change.name, place.target, "not there", _said(change.wanted), zone, "", "", ""))
        rows += [
            (
                each.name,
                place.target,
                "enabled" if each.enabled else "paused",
                said[each.schedule_id] if file else "",
                f"{each.content.get('cron', '')} {each.content.get('time_zone', '')}".strip(),
                f"{each.next_run:%Y-%m-%d %H:%M} UTC" if each.next_run else "",
                str(len(each.active_runs) or ""),
                each.schedule_id,
            )
            for each in live
        ]
    rows.sort(key=lambda row: row[:2])
    tables.print_rows(("schedule", "target", "is", "file says", "cron", "next run", "runs at work", "id"), rows)
    return errors.OK


def _said(schedule: Schedule) -> str:
    return "enabled" if schedule.enabled else "paused"


def _of_name(places: dict[str, _Place], name: str) -> tuple[_Place, list[LiveSchedule]]:
    """The schedules of a name, and where they are.

    Raises:
        ConfigError: There is none.
    """
    known: list[str] = []
    for place in places.values():
        live = place.schedules.live()
        found = [each for each in live if each.name == name]
        if found:
            return place, found
        known += [each.name for each in live]
    there = f"there are {', '.join(sorted(set(known)))}" if known else "there is none"
    raise ConfigError(f"no schedule {name} that `wgan schedule apply` made; {there}")


def _pause(places: dict[str, _Place], file: ScheduleFile | None, name: str) -> int:
    place, live = _of_name(places, name)
    for each in live:
        if each.enabled:
            place.schedules.pause(each.schedule_id)
            print(f"{name}: paused")
    if not any(each.enabled for each in live):
        print(f"{name}: is paused already")
    _warn_of_file(place, name, enabled=False)
    return errors.OK


def _resume(places: dict[str, _Place], file: ScheduleFile | None, name: str) -> int:
    place, live = _of_name(places, name)
    if any(each.enabled for each in live):
        print(f"{name}: is enabled already")
        return errors.OK
    schedule = _wanted(place, name)
    if len(live) > 1 and schedule:
        live = [each for each in live if apply.same(each, schedule)]
    if len(live) != 1:
        raise ConfigError(
            f"there are several schedules {name}, of which one at most may start runs: `wgan schedule apply` keeps the "
            f"one that the file says"
        )
    place.schedules.resume(live[0].schedule_id)
    print(f"{name}: resumed")
    _warn_of_file(place, name, enabled=True)
    return errors.OK


def _wanted(place: _Place, name: str) -> Schedule | None:
    return next((schedule for schedule in place.wanted if schedule.name == name), None)


def _warn_of_file(place: _Place, name: str, enabled: bool) -> None:
    """Says so where the file's word, which apply restores, is another."""
    schedule = _wanted(place, name)
    if schedule and schedule.enabled != enabled:
        log.warning("the file says that %s is %s, which applying it restores", name, _said(schedule))


def _delete(places: dict[str, _Place], file: ScheduleFile | None, name: str) -> int:
    place, live = _of_name(places, name)
    for each in live:
        if each.enabled:
            place.schedules.pause(each.schedule_id)
    waiting = apply.remove(place.schedules, live, print)
    if waiting:
        at_work = ", ".join(run for each in waiting for run in each.active_runs)
        raise TransientError(
            f"{name} is paused, not deleted, as that could end run {at_work}: delete it once that has ended "
            f"(`wgan cancel` ends it)"
        )
    if _wanted(place, name):
        log.warning("the file has %s, and applying it makes it again", name)
    return errors.OK


def _run_now(places: dict[str, _Place], file: ScheduleFile | None, name: str) -> int:
    for place in places.values():
        schedule = _wanted(place, name)
        if schedule:
            run = place.runs.submit(dataclasses.replace(schedule.submission, run_name=f"{name}-now"))
            print(f"{name}: run {run.run_id}{f' {run.link}' if run.link else ''}")
            return errors.OK
    known = [schedule.name for place in places.values() for schedule in place.wanted]
    raise ConfigError(f"the file has no schedule {name}; there are {', '.join(known) or 'none'}")


_BY_HAND: dict[str, Callable[[dict[str, _Place], ScheduleFile | None, str], int]] = {
    _PAUSE: _pause,
    _RESUME: _resume,
    _DELETE: _delete,
    _RUN_NOW: _run_now,
}
