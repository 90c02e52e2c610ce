"""`wgan schedule`: applies the schedules of a file to Kubeflow and Vertex; lists, pauses and resumes them."""

import argparse
import logging
from pathlib import Path

from components.core.errors import OK, ConfigError
from components.core.stage import cli
from pipeline import tables, verbs
from pipeline.cluster import apply, backends
from pipeline.cluster.backend import LiveSchedule, Schedule, Server
from pipeline.profiles.targets import TARGETS

log = logging.getLogger("pipeline")

DIFFERENT = 1
_DIFF, _APPLY, _LIST, _PAUSE, _RESUME = "diff", "apply", "list", "pause", "resume"
_VERBS = {
    _DIFF: "show what apply would create, replace, pause, resume and delete",
    _APPLY: "create, replace, pause and resume schedules to match the file; safe to interrupt and repeat",
    _LIST: "list the schedules in the file and on the server",
    _PAUSE: "pause a schedule until it is resumed or the file is applied",
    _RESUME: "resume a paused schedule",
}
_DEFAULT_FILE = Path("schedules.yaml")
_Place = tuple[str, Server, list[Schedule]]  # a target, its server, and the schedules that the file wants there


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    shared = cli.Parser(add_help=False)
    add = shared.add_argument
    add("--file", type=Path, metavar="FILE", help=f"the schedules (default: {_DEFAULT_FILE}; docs/schedules.md)")
    add("--target", choices=TARGETS, help="only this target (default: those that the file has schedules for)")
    backends.add_flags(shared)
    text = "apply, list, pause and resume schedules on Kubeflow and Vertex"
    parser = command.add_parser("schedule", help=text, description="Schedules as a file.")
    title = "verbs (wgan schedule VERB --help)"
    actions = parser.add_subparsers(dest="action", required=True, metavar="VERB", title=title)
    parsers = {name: verbs.add(actions, name, text, _run, parents=[shared]) for name, text in _VERBS.items()}
    for name in (_PAUSE, _RESUME):
        parsers[name].add_argument("name", metavar="NAME", help="the schedule's name")
    code = f"exit with {DIFFERENT} where apply would change anything, else with 0 (default: 0 either way)"
    parsers[_DIFF].add_argument("--exit-code", action="store_true", help=code)
    prune = "also delete the schedules that were made by apply and that the file no longer has"
    parsers[_APPLY].add_argument("--prune", action="store_true", help=prune)


def _run(parsed: argparse.Namespace) -> int:
    verbs.require("pipeline", parsed.verb)
    wanted: list[Schedule] = []
    has_file = bool(parsed.file) or parsed.action in (_DIFF, _APPLY) or _DEFAULT_FILE.exists()
    if has_file:
        from pipeline.cluster import schedule_file  # it needs pydantic

        wanted = schedule_file.read(parsed.file or _DEFAULT_FILE)
    named = [schedule for schedule in wanted if schedule.name == getattr(parsed, "name", None)]
    targets = [parsed.target] if parsed.target else [schedule.target for schedule in named or wanted]
    if not targets:
        why = "the file has no schedule" if has_file else f"there is no file {_DEFAULT_FILE}"
        raise ConfigError(f"{why}: say which target is meant (--target {' or '.join(TARGETS)}, or --file)")
    servers = [
        (target, backends.server(target, parsed), [schedule for schedule in wanted if schedule.target == target])
        for target in dict.fromkeys(targets)  # in the file's order
    ]
    if parsed.action == _DIFF:
        return _diff(servers, parsed.exit_code)
    if parsed.action == _LIST:
        _list(servers, has_file)
    elif parsed.action in (_PAUSE, _RESUME):
        _pause_or_resume(servers, parsed.name, enable=parsed.action == _RESUME)
    else:
        for target, server, schedules in servers:
            lines = apply.apply(target, server, schedules, parsed.prune)
            print(next(lines, f"{target}: nothing to change"), flush=True)
            for line in lines:
                print(line, flush=True)
    return OK


def _diff(servers: list[_Place], exit_code: bool) -> int:
    needed = False
    for target, server, schedules in servers:
        for change in apply.required_changes(schedules, server.live()):
            needed |= change.action != apply.UNCHANGED or bool(change.superseded)
            paused = ", paused" if change.wanted and not change.wanted.enabled else ""
            prune = "" if change.wanted else ": the file has none; only with --prune"
            print(f"{change.action} {change.name} ({target}{paused}){prune}")
            for schedule in change.superseded:
                waits = f"; it waits for {', '.join(schedule.active_runs)} to end" if schedule.active_runs else ""
                print(f"  {schedule.schedule_id} will be deleted{waits}")
    return DIFFERENT if needed and exit_code else OK


def _list(servers: list[_Place], has_file: bool) -> None:
    rows: list[tuple[str, ...]] = []
    for target, server, schedules in servers:
        live = server.live()
        file_says = {}
        for change in apply.required_changes(schedules, live):
            for schedule in change.superseded:
                file_says[schedule.schedule_id] = "nothing" if change.action == apply.DELETE else "to be deleted"
            if change.wanted and change.kept:
                file_says[change.kept.schedule_id] = _state(change.wanted)
            elif change.wanted:
                when = f"{change.wanted.cron} {change.wanted.time_zone}"
                rows.append((change.name, target, "not there", _state(change.wanted), when, "", "", ""))
        for existing in live:
            says = file_says[existing.schedule_id] if has_file else ""
            next_run = f"{existing.next_run:%Y-%m-%d %H:%M} UTC" if existing.next_run else ""
            active, schedule_id = str(len(existing.active_runs) or ""), existing.schedule_id
            rows.append((existing.name, target, _state(existing), says, existing.cron, next_run, active, schedule_id))
    rows.sort(key=lambda row: row[:2])
    tables.print_rows(("schedule", "target", "is", "file says", "cron", "next run", "runs at work", "id"), rows)


def _state(schedule: Schedule | LiveSchedule) -> str:
    return "enabled" if schedule.enabled else "paused"


def _pause_or_resume(servers: list[_Place], name: str, enable: bool) -> None:
    """Pause all schedules of a name, or resume the one that may start runs."""
    names: set[str] = set()
    for _, server, schedules in servers:  # noqa: B007 - the last one goes on
        live = server.live()
        if namesakes := [schedule for schedule in live if schedule.name == name]:
            break
        names |= {schedule.name for schedule in live}
    else:
        others = f"there are {', '.join(sorted(names))}" if names else "there is none"
        raise ConfigError(f"no schedule {name} that `wgan schedule apply` made; {others}")
    wanted = next((schedule for schedule in schedules if schedule.name == name), None)
    steered = [schedule for schedule in namesakes if schedule.enabled != enable]
    if enable and len(steered) < len(namesakes):
        steered = []  # another one of that name starts runs
    elif enable and len(namesakes) > 1:
        steered = [schedule for schedule in namesakes if wanted and schedule.digest == wanted.digest()]
        if len(steered) != 1:
            several = f"there are several schedules {name}, of which one at most may start runs"
            raise ConfigError(f"{several}: apply the file, which keeps its own")
    for schedule in steered:
        (server.resume if enable else server.pause)(schedule.schedule_id)
        print(f"{name}: {'resumed' if enable else 'paused'}")
    if not steered:
        print(f"{name}: is {'enabled' if enable else 'paused'} already")
    if wanted and wanted.enabled != enable:
        log.warning("in the file %s is %s; applying the file restores that", name, _state(wanted))
