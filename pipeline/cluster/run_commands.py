"""`wgan submit`, `status`, `logs`, `cancel` and `retry`: runs on a cluster or on Vertex AI."""

import argparse
import contextlib
import dataclasses
import datetime
import json
import logging
import math
import re
from pathlib import Path

from components.core import errors, stages
from components.core.errors import ConfigError, StageError
from components.core.stage import cli, run_notes
from components.core.storage.location import Location
from components.record import run as record
from components.record.config import RecordConfig
from pipeline import tables, verbs
from pipeline.cluster import backend, backends, waiting
from pipeline.cluster.backend import RunStatus, Server, Submission
from pipeline.package import config_file, parameters, reader
from pipeline.profiles.targets import KFP, TARGETS, VERTEX

log = logging.getLogger("pipeline")

_RUN_ID = "the run: its id, as much of it as is unique among the newest runs, or its link"
_SHOWN_RUNS = 20
_SEARCHED_RUNS = 200
_LONGEST_NAME = 128  # that servers store; longer ones end in obscure errors
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    _add_submit(command)
    waits = waiting.EXIT_CODES_HELP

    def add(name: str, text: str, more: str = "") -> cli.Parser:
        parser = verbs.add(command, name, text, _run, more=more)
        parser.add_argument("run_id", metavar="RUN_ID", nargs="?" if name == "status" else None, help=_RUN_ID)
        parser.add_argument("--target", default=KFP, choices=TARGETS, help=f"where the run is (default: {KFP})")
        backends.add_flags(parser)
        return parser

    parser = add("status", "show the state of a run on a cluster, or list the newest runs", more=waits)
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_waiting(parser)
    parser = add("logs", "print what the stages of a run on a cluster have logged")
    which = "one stage (default: all that have begun)"
    parser.add_argument("stage", metavar="STAGE", nargs="?", choices=stages.ALL, help=which)
    parser.add_argument("--follow", action="store_true", help="keep printing until the stage ends")
    add("cancel", "cancel a run on a cluster")
    _add_waiting(add("retry", "retry a failed run on a cluster from its failed stages", more=waits))


def _run(parsed: argparse.Namespace) -> int:
    verb = parsed.verb
    verbs.require("pipeline", verb)
    cli.set_umask()
    if verb in ("status", "retry") and (problems := _problems_of_waiting(parsed)):
        raise ConfigError(*problems)
    server = backends.server(parsed.target, parsed)
    if not parsed.run_id:
        _print_runs(server.recent(_SHOWN_RUNS), parsed.json)
        return errors.OK
    run_id = _full_id(server, parsed.run_id)
    if verb == "logs":
        return _logs(server, run_id, parsed.stage, parsed.follow)
    if verb in ("cancel", "retry"):
        state = server.status(run_id).state
        fits = state not in backend.ENDED if verb == "cancel" else state in (backend.FAILED, backend.CANCELED)
        if not fits:
            raise ConfigError(f"cannot {verb} run {run_id}: it is {state}")
    if verb == "cancel":
        server.cancel(run_id)
        log.info("run %s is being canceled", run_id)
        return errors.OK
    if verb == "retry":
        # Kubeflow continues the same run; Vertex begins another.
        run_id = server.retry(run_id).run_id
    if parsed.wait:
        return _wait(server, run_id, parsed.timeout, getattr(parsed, "json", False))
    if verb == "status":
        _print_run(_with_notes(server.status(run_id)), parsed.json)
    return errors.OK


def _add_waiting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait for its end, and show stages as they change")
    limit = "with --wait: wait this long at most; the run continues (default: no limit)"
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help=limit)


def _seconds(text: str) -> float:
    """Return the value of --timeout; argparse adds the flag to the error."""
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"must be a number of seconds greater than 0, got {text!r}")


def _problems_of_waiting(parsed: argparse.Namespace) -> list[str]:
    if parsed.timeout is not None and not parsed.wait:
        return ["timeout is for waiting: give --wait as well"]
    return ["wait is for one run: give its id as well"] if parsed.wait and not getattr(parsed, "run_id", True) else []


def _submit(parsed: argparse.Namespace) -> int:
    verbs.require("pipeline", parsed.verb)
    cli.set_umask()
    package = reader.read(parsed.package)
    target, problems = package.origin.target, list[str](parsed.problems)
    raw_values = config_file.read(parsed.config, package.parameters, problems) | parameters.flag_values(parsed)
    missing = [name for name in raw_values if name not in package.parameters]
    problems += [f"the package has no parameter {name}: compile it again with this version" for name in missing]
    problems += [
        f"{name} is for {other}, and the package was compiled for {target}"
        for other, others in backends.BACKENDS.items()
        for name in others.flags
        if name not in backends.BACKENDS[target].flags and getattr(parsed, name)
    ]
    if target == VERTEX:
        problems += reader.bucket_problems("pipeline_root", parsed.pipeline_root)
    names = {
        "experiment": parsed.experiment or package.name,
        "run_name": parsed.run_name or f"{package.name} {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}",
    }
    for flag, name in names.items():
        if not name.strip() or len(name) > _LONGEST_NAME:
            problems.append(f"{flag} must be a name of 1 to {_LONGEST_NAME} letters, got {name!r}")
    problems += _problems_of_waiting(parsed)
    try:
        server = backends.server(target, parsed)
    except ConfigError as error:
        problems += error.problems
    request = Submission(
        package=package,
        parameters=package.checked_parameters(raw_values, problems),  # raises the earlier problems, too
        **names,
        pipeline_root=parsed.pipeline_root,
        service_account=parsed.service_account,
    )
    try:
        run = server.submit(request)
    except KeyboardInterrupt:
        log.warning("%s may have started: `%s` lists the newest runs", request.run_name, server.command("status"))
        raise
    log.info("run %s (%s) is started", run.run_id, run.name)
    print(run.link or run.run_id, flush=True)
    return _wait(server, run.run_id, parsed.timeout, False) if parsed.wait else errors.OK


def _add_submit(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    text, more = "start a compiled package on a cluster or on Vertex AI", waiting.EXIT_CODES_HELP
    usage = "wgan submit --source IMAGES --root LOCATION [flags]"
    parser = verbs.add(command, "submit", text, _submit, more=more, usage=usage, reports_problems=True)
    add = parser.add_argument
    add("--package", type=Path, default=Path("pipeline.yaml"), help="compiled package (default: pipeline.yaml)")
    config_file.add_flag(parser)
    add("--experiment", help="experiment that the run belongs to (default: the pipeline's name)")
    add("--run-name", help="display name of the run (default: the pipeline's name and the time)")
    kept = "where the target keeps metrics and reports of stages (default: Kubeflow's own; Vertex has none)"
    add("--pipeline-root", default="", metavar="URI", help=kept)
    account = "account to start the run as (default: that of the profile, else the target's)"
    add("--service-account", default="", help=account)
    _add_waiting(parser)
    add("--root", help="folder of all results: an absolute path that every stage can reach")
    backends.add_flags(parser)
    parameters.add_flags(parser)


def _full_id(server: Server, text: str) -> str:
    """Return the id of the run for a word on the command line: an id, the start of one, or a link."""
    word = text.split("?")[0].rstrip("/").rpartition("/")[2]
    if _UUID.fullmatch(word):
        return word
    ids = [run.run_id for run in server.recent(_SEARCHED_RUNS)]
    close = [run_id for run_id in ids if run_id.startswith(word)] if word else []
    if len(close) > 1 and word not in close:
        raise ConfigError(f"run {word} could be any of {', '.join(close)}: give more of its id")
    return close[0] if len(close) == 1 else word


def _wait(server: Server, run_id: str, timeout: float | None, as_json: bool) -> int:
    again = server.command("status", run_id, "--wait")
    try:
        run = waiting.wait(server, run_id, timeout)
    except KeyboardInterrupt:
        log.warning("run %s continues: `%s` cancels it", run_id, server.command("cancel", run_id))
        return errors.INTERRUPTED
    except StageError:
        log.warning("run %s continues: `%s` waits again", run_id, again)
        raise
    if run is None:
        log.error("run %s has not ended within %g seconds and continues: `%s` waits again", run_id, timeout, again)
        return waiting.TIMED_OUT
    run = _with_notes(run)
    _print_run(run, as_json)
    code = waiting.EXIT_CODES[run.state]
    if run.state == backend.FAILED:
        failed = [stage.name for stage in run.stages if stage.state == backend.FAILED]
        why = f": {run.message}" if run.message else f" in {', '.join(failed)}" if failed else ""
        more = f"; `{server.command('logs', run_id, failed[0])}` shows its log" if failed else ""
        log.error("run %s failed%s%s", run_id, why, more)
    elif code:
        log.error("run %s was canceled", run_id)
    return code


def _with_notes(run: RunStatus) -> RunStatus:
    """Add what the stages noted, if this machine can reach the root; complete the record of a run that has ended.

    The exit handler knows neither the run's name nor its times, and it may never have started.
    """
    # Servers give the reason with the stage: of the run Vertex says only that tasks failed, and Kubeflow nothing.
    failed = [stage for stage in run.stages if stage.state == backend.FAILED and stage.message]
    if run.state == backend.FAILED and failed:
        run = dataclasses.replace(run, message="; ".join(f"{stage.name}: {stage.message}" for stage in failed))
    root = run.parameters.get("root", "")
    folder = Location.of(f"{root}/records") / run.run_id
    try:
        if not root or not folder.is_folder:
            return run
        notes = run_notes.read(folder)
    except (OSError, StageError) as error:
        log.warning("the notes of the run cannot be read: %s", errors.line_of(error))
        return run
    # The stage's own reason or summary; the server's stays for a stage that never began.
    own = {note.stage: "; ".join(note.problems) for note in notes if note.state == run_notes.FAILED}
    own |= {note.stage: str(note.outputs.get("summary", "")) for note in notes if note.stage not in own}
    with_messages = [dataclasses.replace(stage, message=own.get(stage.name) or stage.message) for stage in run.stages]
    run = dataclasses.replace(run, stages=tuple(with_messages))
    if run.state not in backend.ENDED:
        return run
    times = {"created": run.created, "scheduled": run.scheduled}
    config = RecordConfig(
        records=folder.parent.uri,
        run=run.run_id,
        run_name=run.name,
        **{name: f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else "" for name, time in times.items()},
        source=run.parameters.get("source", ""),
        registry=f"{root}/registry",
        status=json.dumps({"state": run.state, "error": {"message": run.message}}),
    )
    content = record.describe(config, notes)
    try:
        record.write(config, content)
    except (OSError, StageError) as error:
        log.warning("the record of the run cannot be completed: %s", errors.line_of(error))
    return dataclasses.replace(run, state=content["state"], message=content["reason"])


def _logs(server: Server, run_id: str, stage: str | None, follow: bool) -> int:
    if stage:
        for line in server.logs(run_id, stage, follow):
            print(line, flush=follow)
        return errors.OK
    if follow:
        raise ConfigError("follow is for one stage: name it after the run")
    begun = [stage for stage in server.status(run_id).stages if stage.state not in (backend.PENDING, backend.SKIPPED)]
    missing: list[str] = []
    shown = False
    for status in begun:
        try:
            for line in server.logs(run_id, status.name):
                print(f"{status.name}: {line}")
            shown = True
        except ConfigError as error:
            # Without access to Kubernetes every stage has the same problem.
            missing += [problem for problem in error.problems if problem not in missing]
    if not shown:
        raise ConfigError(*(missing or [f"run {run_id} has no logs: none of its stages has begun"]))
    # A stage whose result was reused had no pod, and a pod may have been removed since.
    for problem in missing:
        log.warning("%s", problem)
    return errors.OK


def _print_run(run: RunStatus, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dataclasses.asdict(run), indent=2, default=datetime.datetime.isoformat))
        return
    print(f"{run.name}  {run.state.lower()}  {waiting.elapsed(run)}".rstrip())
    print(run.link or run.run_id)
    if run.message:
        print(run.message)
    if run.stages:
        print()
        rows = [(stage.name, stage.state.lower(), waiting.elapsed(stage), stage.message) for stage in run.stages]
        tables.print_rows(("stage", "state", "took", "message"), rows)


def _print_runs(runs: list[RunStatus], as_json: bool) -> None:
    if as_json:
        print(json.dumps([dataclasses.asdict(run) for run in runs], indent=2, default=datetime.datetime.isoformat))
    elif not runs:
        print("no runs yet")
    else:
        rows = []
        for run in runs:
            began = f"{run.created:%Y-%m-%d %H:%M}" if run.created else ""
            rows.append((run.run_id, run.state.lower(), began, waiting.elapsed(run), run.name))
        tables.print_rows(("run", "state", "began", "took", "name"), rows)
