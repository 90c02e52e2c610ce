"""`wgan run` and `wgan plan`: their flags, which the package decides, and everything that is checked before a run."""

import argparse
import logging
from pathlib import Path
from typing import Any

from components import cli, errors, places
from components.errors import ConfigError
from components.images import TRAIN_IMAGES
from pipeline import (
    container_settings,
    containers,
    extras,
    history,
    package,
    parameters,
    plan,
    profiles,
    runner,
    session,
    tables,
    yaml_files,
)
from pipeline.container_settings import ContainerSettings
from pipeline.containers import Containers
from pipeline.docker_client import Docker
from pipeline.package import Package
from pipeline.processes import Processes

log = logging.getLogger("pipeline")

HELP = {
    "run": "run the pipeline on this machine, from the first stage that is not finished",
    "plan": "print which stages a run would run, and why, without running them",
}
# The pipeline, compiled for CPUs: `make goldens` writes it.
SHIPPED_PACKAGE = Path(__file__).with_name("package.yaml")
_PROCESS, _DOCKER = "process", "docker"
# As components/sources.py calls it; to import that would make this command heavy.
_FETCHED_BY_NAME = ("fashion-mnist",)


def main(verb: str, words: list[str]) -> int:
    """Runs or plans the pipeline and returns the exit code (see `components.errors`).

    Args:
        verb: A key of `HELP`.
        words: The command line after the verb.

    Raises:
        StageError: It was not begun.
    """
    # The package decides which flags there are, so --package and --train_image are read first.
    first = _parser(verb).parse_known_args(words)[0]
    if first.runner == _PROCESS:
        extras.require("local", verb)
    found = _package(first, verb)
    parser = _parser(verb, add_help=True)
    container_settings.add_flags(parser)
    parameters.add_flags(parser, parameters.fields(found))
    parsed, unknown = parser.parse_known_args(words)
    given = parameters.given_in(parsed)
    # Of a run in a bucket, history and what was kept of results lie on this machine all the same.
    root = places.local(parsed.root).resolve()
    given["root"] = places.given(root)
    problems = [*_problems(parsed, root), *parameters.unknown_flags(unknown, parsed)]
    settings = container_settings.read(
        container_settings.given_in(parsed), [task.name for task in found.tasks], problems
    )
    values = parameters.parse(found, given, problems)
    place = Processes() if parsed.runner == _PROCESS else _containers(found, settings, root, values, parsed.dev)
    own = places.beside(root)
    if verb == "plan":  # which leaves nothing at the root
        with session.session(places.private("plans"), Docker().program) as opened:
            place.begin(opened)
            tables.print_plan(plan.plan(found, values, own, place))
        return errors.OK
    kept = history.History(root, found.text, values)
    log.info("run %d; logs and state in %s", kept.number, kept.folder)
    run = runner.Run(found, values, own, kept, place, parsed.jobs)
    with session.session(own, Docker().program) as opened:
        place.begin(opened)
        code = run.execute()
    tables.print_run(run.progress)
    tables.print_places(run.progress, root)
    return code


def _parser(verb: str, add_help: bool = False) -> cli.Parser:
    parser = cli.Parser(
        prog=f"wgan {verb}",
        description=f"{HELP[verb][0].upper()}{HELP[verb][1:]}.",
        allow_abbrev=False,
        add_help=add_help,
    )
    parser.add_argument(
        "--root", default="runs", help="folder, or gs://BUCKET/FOLDER, that keeps everything made (default: ./runs)"
    )
    parser.add_argument("--package", type=Path, help="compiled package to run (default: this project's pipeline)")
    parser.add_argument(
        *("--train_image", "--train-image"),
        default="cpu",
        choices=TRAIN_IMAGES,
        help="hardware that the train stage's image is for (default: cpu)",
    )
    parser.add_argument(
        "--runner", default=_PROCESS, choices=(_PROCESS, _DOCKER), help="what stages run as (default: process)"
    )
    parser.add_argument(
        "--dev", action="store_true", help="with --runner docker: run the code of this working tree, not the images'"
    )
    if verb == "run":
        parser.add_argument("--jobs", type=int, default=1, help="stages that may run side by side (default: 1)")
    return parser


def _package(parsed: argparse.Namespace, verb: str) -> Package:
    if parsed.package is not None:
        return package.read(_read_package(parsed.package), str(parsed.package))
    if parsed.train_image == "cpu":
        return package.read(SHIPPED_PACKAGE.read_bytes(), "the pipeline")
    extras.require("pipeline", verb)
    # To import kfp takes two seconds, so that only this case does.
    from pipeline.compile import compiled_package

    return package.read(compiled_package(profile=profiles.local(parsed.train_image)), "the pipeline")


def _read_package(path: Path) -> bytes:
    try:
        return yaml_files.read_bytes(path)
    except OSError as error:
        raise ConfigError(f"package cannot be read: {errors.describe_os_error(error)}") from None


def _problems(parsed: argparse.Namespace, root: Path) -> list[str]:
    """What is wrong with the flags that are not the pipeline's own."""
    problems = []
    if places.in_bucket(root) and parsed.runner == _DOCKER:
        problems.append(f"root must be a folder of this machine for --runner docker, got {parsed.root}")
    elif root.exists() and not root.is_dir():
        problems.append(f"root must be a folder, got {parsed.root}, which is a file")
    if getattr(parsed, "jobs", 1) < 1:
        problems.append(f"jobs must be at least 1, got {parsed.jobs}")
    if parsed.runner == _PROCESS:
        only = [*container_settings.given_in(parsed), *(["dev"] if parsed.dev else [])]
        problems += [f"{name} is for containers: give --runner docker as well" for name in only]
    return problems


def _containers(
    found: Package, settings: dict[str, ContainerSettings], root: Path, values: dict[str, Any], dev: bool
) -> Containers:
    places = [
        values[name] for name, field in parameters.fields(found).items() if field.setting.place and name in values
    ]
    for place in places:
        if _is_fetched(place) and all(each.network == container_settings.NO_NETWORK for each in settings.values()):
            log.warning("%s is fetched over a network, and stages have none: --network preprocess=bridge", place)
    read = [container_settings.where_it_is(place) for place in places if place and Path(place).exists()]
    return containers.prepare(found, settings, root, read, dev)


def _is_fetched(place: str) -> bool:
    return place in _FETCHED_BY_NAME or places.in_bucket(place)
