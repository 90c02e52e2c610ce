"""The `wgan` command.

wgan run --source digits --root runs/demo --steps 2000
wgan plan --source digits --root runs/demo --steps 3000
wgan compile --output pipeline.yaml
wgan evaluate --all-checkpoints --root runs/demo
wgan sample --registry runs/demo/registry --count 64 --out grid.png
wgan models why 1 --registry runs/demo/registry
wgan report compare runs/demo runs/other --output compare.html
wgan selfcheck
"""

import logging
import sys
import traceback
from pathlib import Path

from components import cli, errors
from components.errors import ConfigError, StageError
from components.images import VERSION
from pipeline import processes

log = logging.getLogger("pipeline")

_RUN_HELP = {
    "run": "run the pipeline on this machine, from the first stage that is not finished",
    "plan": "print which stages a run would run, and why, without running them",
}

_PROGRAMS = {
    "evaluate": "judge a checkpoint, or score them all (--all-checkpoints)",
    "sample": "draw images from the registry's champion",
    "report": "set two runs side by side in one HTML page (report compare A B)",
    "selfcheck": "prove on this machine that training is exact on any number of replicas",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code (see `components.errors`)."""
    cli.log_to_stderr()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(words)
    except StageError as error:
        for line in str(error).splitlines():
            log.error("%s", line)
        return error.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:
        return errors.TRANSIENT
    except OSError as error:
        log.error("%s", errors.describe_os_error(error))
        return errors.TRANSIENT
    except Exception:
        log.error("a defect of this program, please report it with these lines\n%s", traceback.format_exc())
        return errors.DEFECT


def _dispatch(words: list[str]) -> int:
    verb = words[0] if words else ""
    if verb in _PROGRAMS:
        # A program of its own, flags and all: it needs TensorFlow, which this process never loads.
        return processes.run_in_front(["python", "-m", f"components.{verb}", *words[1:]])
    if verb in _RUN_HELP:
        return _run_or_plan(verb, words[1:])
    if verb == "models":
        from pipeline import models

        return models.main(words[1:])
    parser = cli.Parser(prog="wgan", description="Train, judge and publish WGAN-GP generators.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"wgan {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan VERB --help)")
    for name, help_text in _RUN_HELP.items():
        verbs.add_parser(name, help=help_text)
    compiling = verbs.add_parser("compile", help="write the Kubeflow package", allow_abbrev=False)
    compiling.add_argument("--target", default="kfp", choices=["kfp"], help="what the package is for (default: kfp)")
    compiling.add_argument(
        "--output", type=Path, default=Path("pipeline.yaml"), help="file to write (default: pipeline.yaml)"
    )
    verbs.add_parser("models", help="tell what was published, why, and how to make it again")
    for name, help_text in _PROGRAMS.items():
        verbs.add_parser(name, help=help_text)
    parsed = parser.parse_args(words)
    # Kubeflow's package takes a second to import; only those who compile wait for it.
    from pipeline.compile import write_package

    write_package(parsed.output)
    log.info("wrote %s", parsed.output)
    return errors.OK


def _run_or_plan(verb: str, words: list[str]) -> int:
    from pipeline import history, package, parameters, plan, runner, tables

    # The package decides which flags there are, so --package is read first.
    first = _run_parser(verb)
    chosen = first.parse_known_args(words)[0].package
    if chosen is None:
        from pipeline.compile import compiled_package

        found = package.read(compiled_package(), "the pipeline")
    else:
        found = package.read(_read_package(chosen), str(chosen))
    parser = _run_parser(verb, add_help=True)
    parameters.add_flags(parser, parameters.fields(found))
    parsed, unknown = parser.parse_known_args(words)
    given = parameters.given_in(parsed)
    root = Path(parsed.root).resolve()
    given["root"] = str(root)
    problems = []
    if "://" in parsed.root:
        problems.append(f"root must be a folder of this machine, got {parsed.root}")
    elif root.exists() and not root.is_dir():
        problems.append(f"root must be a folder, got {parsed.root}, which is a file")
    if verb == "run" and parsed.jobs < 1:
        problems.append(f"jobs must be at least 1, got {parsed.jobs}")
    values = parameters.parse(found, given, unknown, problems)
    if verb == "plan":
        tables.print_plan(plan.plan(found, values, root))
        return errors.OK
    kept = history.History(root, found.text, values)
    log.info("run %d; logs and state in %s", kept.number, kept.folder)
    run = runner.Run(found, values, root, kept, parsed.jobs)
    code = run.execute()
    tables.print_run(run.progress)
    tables.print_places(run.progress, root)
    return code


def _run_parser(verb: str, add_help: bool = False) -> cli.Parser:
    parser = cli.Parser(
        prog=f"wgan {verb}",
        description=f"{_RUN_HELP[verb][0].upper()}{_RUN_HELP[verb][1:]}.",
        allow_abbrev=False,
        add_help=add_help,
    )
    parser.add_argument("--root", default="runs", help="folder that keeps everything made (default: ./runs)")
    parser.add_argument("--package", type=Path, help="compiled package to run (default: this project's pipeline)")
    if verb == "run":
        parser.add_argument("--jobs", type=int, default=1, help="stages that may run side by side (default: 1)")
    return parser


def _read_package(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"package cannot be read: {errors.describe_os_error(error)}") from None


if __name__ == "__main__":
    sys.exit(main())
