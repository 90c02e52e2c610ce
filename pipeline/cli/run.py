"""`wgan run`, `wgan plan` and `wgan judge`: their flags, and all checks before a run."""

import argparse
import logging
import shlex

from components.core import errors
from components.core.stage import cli
from components.core.storage.location import Location, private
from pipeline import step_table, tables, verbs
from pipeline.local import history, overview, plan, runner, session
from pipeline.local.containers import Containers
from pipeline.local.docker_client import Docker
from pipeline.local.processes import Processes
from pipeline.package import config_file, parameters

log = logging.getLogger("pipeline")

_PROCESS, _DOCKER = "process", "docker"
_ROOT = "runs"


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    for name, text in (
        ("run", "run the pipeline on this machine; stages with unchanged inputs are reused"),
        ("plan", "show which stages would run, why, and for how long"),
    ):
        usage = f"wgan {name} --source IMAGES [flags]"
        parser = verbs.add(command, name, text, _run, usage=usage, reports_problems=True)
        add = parser.add_argument
        add("--root", help=f"folder, or gs://BUCKET/FOLDER, that keeps all results (default: ./{_ROOT})")
        config_file.add_flag(parser)
        add("--runner", default=_PROCESS, choices=(_PROCESS, _DOCKER), help="what stages run as (default: process)")
        dev = "with --runner docker: run the code of this working tree, not the images'"
        add("--dev", action="store_true", help=dev)
        options = 'with --runner docker: options for `docker create`, such as --docker-options="--gpus all"'
        add("--docker-options", default="", metavar="WORDS", help=options)
        parameters.add_flags(parser)
        if name == "run":
            add("--jobs", type=int, default=1, help="number of stages that may run in parallel (default: 1)")
            printed = "print all parameters as a file for --config, and run nothing"
            add("--print-config", action="store_true", help=printed)
    text, usage = "judge images that another model drew", "wgan judge --samples PATH --source IMAGES [flags]"
    more = "They are compared with those of the source, which are prepared once. Nothing is trained or published."
    parser = verbs.add(command, "judge", text, _run, more=more, usage=usage, reports_problems=True)
    parser.add_argument("--root", help=f"folder that keeps all results (default: ./{_ROOT})")
    parser.set_defaults(config=None, runner=_PROCESS, dev=False, docker_options="", jobs=1)
    parameters.add_flags(parser, step_table.judging_steps())


def _run(parsed: argparse.Namespace) -> int:
    """Run or plan the pipeline and return the exit code; raise `StageError` if it did not begin."""
    cli.set_umask()
    if parsed.runner == _PROCESS:
        verbs.require("local", parsed.verb)
    problems: list[str] = parsed.problems
    is_judging = parsed.verb == "judge"
    fields = step_table.parameters_of(step_table.judging_steps()) if is_judging else step_table.PARAMETERS
    raw_values = config_file.read(parsed.config, fields, problems) | parameters.flag_values(parsed, fields)
    # History and cached results of a run in a bucket are on this machine.
    root = Location.of(parsed.root or raw_values.get("root", _ROOT)).resolved()
    raw_values["root"] = root.uri
    hardware = raw_values.get("accelerator", "cpu") if parsed.runner == _DOCKER else "cpu"
    steps = step_table.judging_steps() if is_judging else step_table.steps(hardware)
    options = _checked_options(parsed, root, problems)
    values = parameters.parse(fields, steps, raw_values, problems)
    if getattr(parsed, "print_config", False):
        print(config_file.written(values), end="")
        return errors.OK
    executor = Processes() if parsed.runner == _PROCESS else Containers(steps, options, root.path, values, parsed.dev)
    if parsed.verb == "plan":  # a plan leaves nothing at the root
        with session.session(private("plans"), Docker().program) as opened:
            executor.begin(opened)
            tables.print_plan(plan.plan(steps, values, root, executor))
        return errors.OK
    run_history = history.History(root, values)
    log.info("run %d; logs and state in %s", run_history.number, run_history.folder)
    run = runner.Run(steps, values, run_history, executor, parsed.jobs)
    with session.session(root.own, Docker().program) as opened:
        executor.begin(opened)
        code = run.execute()
    overview.write(overview.read(root))
    tables.print_run(run.tasks, root)
    if run.interrupted_by:
        log.info("what is done is kept; to resume: %s", shlex.join(["wgan", *parsed.words]))
    return code


def _checked_options(parsed: argparse.Namespace, root: Location, problems: list[str]) -> list[str]:
    """Check the flags of this command, and return the options for Docker."""
    if root.in_bucket and parsed.runner == _DOCKER:
        problems.append(f"root must be a folder of this machine for --runner docker, got {root}")
    elif root.path.exists() and not root.path.is_dir():
        problems.append(f"root must be a folder, got {root}, which is a file")
    if getattr(parsed, "jobs", 1) < 1:
        problems.append(f"jobs must be at least 1, got {parsed.jobs}")
    if parsed.runner == _PROCESS:
        problems += [f"{name} needs --runner docker" for name in ("docker_options", "dev") if getattr(parsed, name)]
    try:
        return shlex.split(parsed.docker_options)
    except ValueError as error:
        problems.append(f"docker_options must be shell words, got {parsed.docker_options!r}: {error}")
        return []
