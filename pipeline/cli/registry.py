"""`wgan registry`: list the registry, explain, reproduce and export a version, and maintain it."""

import argparse
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.core.artifacts import datasets, evaluations, lineage
from components.core.errors import DataError
from components.core.registry import registry
from components.core.registry.registry import Champion, Version
from components.core.stage import cache_key, cli
from components.core.storage import atomic_files
from components.core.storage.location import Location
from pipeline import tables, verbs
from pipeline.local import overview
from pipeline.registry import hub, reproduction, upkeep

_LOCATION = "runs/registry"
_EXAMPLES = """examples:
  wgan registry list --registry runs/demo/registry
  wgan registry why 2 --registry gs://bucket/runs/registry
  wgan registry export 2 my-generator --license mit
  wgan registry verify
  wgan registry rollback
  wgan registry gc --keep 5 --yes
"""


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    parser = command.add_parser(
        "registry",
        help="list published versions, explain, verify, roll back, reproduce, export and remove them",
        description="List, explain, export, verify, move and remove published versions.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    title = "verbs (wgan registry VERB --help)"
    actions = parser.add_subparsers(dest="action", required=True, metavar="VERB", title=title)

    def add(name: str, text: str, run: Callable[..., None]) -> cli.Parser:
        verb = verbs.add(actions, name, text, functools.partial(_run, run))
        help_text = f"folder of the registry, local or gs://BUCKET/FOLDER (default: {_LOCATION})"
        verb.add_argument("--registry", dest="location", default=_LOCATION, help=help_text)
        if name in ("why", "reproduce", "export", "promote"):
            verb.add_argument("number", type=int, metavar="N", help="number of the version")
        return verb

    add("list", "list the versions and the champion", _list)
    add("why", "explain a version: its origin, verdict and rules", _why)
    verb = add("reproduce", "print a file for `wgan run --config` that makes a version's model again", _reproduce)
    verb.add_argument("--root", default="reproduced", help="folder that the run makes (default: ./reproduced)")
    verb.add_argument("--source", default="", help="current location of the source (default: the recorded one)")
    verb = add("export", "write a version to a new folder that is ready to upload to the Hugging Face Hub", _export)
    verb.add_argument("folder", type=Path, metavar="FOLDER", help="folder to make; its name is the model's")
    help_text = "the Hub's identifier of your license, such as mit"
    verb.add_argument("--license", required=True, metavar="ID", help=help_text)
    help_text = "dataset of yours on the Hub; repeat for several"
    verb.add_argument("--dataset", action="append", default=[], metavar="NAME", help=help_text)
    verb = add("verify", "verify the digests of all versions, and name damaged files", upkeep.verify)
    verb.add_argument("number", type=int, nargs="?", metavar="N", help="one version alone (default: all)")
    add("promote", "make a published version the champion", upkeep.promote)
    add("rollback", "make the previous champion the champion again", upkeep.rollback)
    verb = add("gc", "list versions that are not needed; with --yes remove them", upkeep.gc)
    help_text = "keep the newest K versions, besides the champion and the one before it (default: 3)"
    verb.add_argument("--keep", type=verbs.positive_int, default=3, metavar="K", help=help_text)
    help_text = "also remove unfinished publications; one that is running has to start again"
    verb.add_argument("--uncommitted", action="store_true", help=help_text)
    verb.add_argument("--yes", action="store_true", help="remove them instead of only listing them")


def _run(run: Callable[..., None], parsed: argparse.Namespace) -> None:
    cli.set_umask()
    registry.require_there(parsed.location)
    run(**{name: getattr(parsed, name) for name in inspect.signature(run).parameters})
    if parsed.action in ("promote", "rollback"):
        overview.write(overview.read(Location.of(parsed.location).parent))


def _read_champion(location: str) -> Champion:
    champion = registry.read_champion(location)
    if not champion.version and not registry.versions(location):
        raise upkeep.nothing_published(location)
    return champion


@contextlib.contextmanager
def _version_details(location: str, number: int) -> Iterator[tuple[Version, lineage.Lineage, Champion, Path]]:
    """Yield a version, its lineage, the champion, and the folder of its evaluation; name a missing value."""
    champion = _read_champion(location)
    version = registry.read_version(location, number, champion)
    folder = registry.version_location(location, number).path / registry.EVALUATION
    origin = lineage.read(folder, version.evaluation)
    try:
        yield version, origin, champion, folder
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(
            f"{folder} lacks values that describe a version ({error!r}): restore it, or evaluate and publish again"
        ) from None


def _reproduce(location: str, number: int, root: str, source: str) -> None:
    with _version_details(location, number) as (version, origin, champion, _):

        def version_of(checkpoint_digest: str) -> int:
            """Return the version whose model comes from a checkpoint; 0 if there is no whole one."""
            for other in registry.versions(location, champion):
                with contextlib.suppress(DataError):
                    if registry.read_version(location, other).model.checkpoint_digest == checkpoint_digest:
                        return other
            return 0

        print(reproduction.config(version, origin, root, Location.of(location).parent, source, version_of), end="")


def _export(location: str, number: int, folder: Path, license: str, dataset: list[str]) -> None:
    with _version_details(location, number) as (version, origin, _, _):
        hub.export(version, origin, registry.version_location(location, number).path, folder, license, dataset)
    print(f"version {number} is in {folder}: look through {folder / hub.CARD}, then upload the folder")


def _list(location: str) -> None:
    champion = _read_champion(location)
    rows, damaged = [], []
    for number in registry.versions(location, champion):
        state = "champion" if champion.version == number else ""
        try:
            version = registry.read_version(location, number, champion)
            ratio = evaluations.distance_ratio(registry.version_location(location, number).path / registry.EVALUATION)
        except DataError as error:
            damaged.append(str(error))
            rows.append((str(number), "damaged", "", "", "", "", ""))
            continue
        model, uncertified = version.model, version.evaluation.uncertified
        numbers = (f"{model.step:,}", str(model.image), tables.number(ratio))
        space = f"uncertified: {uncertified}" if uncertified else "certified"
        rows.append((str(number), state, *numbers, model.digest[:12], space))
    tables.print_rows(("version", "state", "step", "images", "distance / real", "model", "feature space"), rows)
    if damaged:
        raise DataError("\n".join([*damaged, "copy the damaged versions back from a backup, and do not serve them"]))


def _why(location: str, number: int) -> None:
    with _version_details(location, number) as (version, origin, champion, folder):
        metrics = atomic_files.read_json(folder / evaluations.METRICS, "evaluation")
        comparison = "there was no champion to compare with"
        if rival := version.evaluation.champion_version:
            comparison = f"compared with version {rival}, the champion at that time"
        facts = {
            "version": f"{number}, {'the champion' if champion.version == number else 'not the champion'}",
            "model": version.model.digest,
            "checkpoint": f"of {version.model.step:,} generator updates, of {origin.checkpoint['settings']['steps']:,}",
            "data": _data(origin.dataset),
            "embedding": f"certificate: {origin.embedding['certificate']['outcome']}",
            "verdict": f"{version.evaluation.verdict}: {'; '.join(version.evaluation.reasons)}",
            "champion": comparison,
            "distance": _distance(metrics),
        }
        tables.print_facts(facts)
        print()
        rules = []
        for rule in version.evaluation.rules:
            numbers = (tables.number(rule[name]) for name in ("value", "low", "high"))
            rules.append((rule["rule"], *numbers, rule["limit"], rule["outcome"]))
        tables.print_rows(("rule", "value", "low", "high", "expected", "outcome"), rules)
        print()
        rows = []
        model_row = lineage.row("model", version.model.digest, version.model.made_with)
        for row in (*lineage.rows(origin), model_row):
            stage, code = reproduction.STAGES.get(row.artifact, ""), row.code
            if stage and code != lineage.UNKNOWN:
                code = "as here" if code == cache_key.source_digest(stage) else "another than here"
            rows.append((row.artifact, row.digest, code, row.image))
        tables.print_rows(("came from", "digest", "code", "container image"), rows)


def _data(dataset: dict[str, Any]) -> str:
    image, classes = datasets.ImageShape(**dataset["image"]), len(dataset["classes"])
    splits = ", ".join(f"{dataset['splits'][name]['records']:,} {name}" for name in datasets.SPLITS)
    return f"{dataset['source']['kind']}: {splits} images of {image}" + (f" in {classes} classes" if classes else "")


def _distance(numbers: dict[str, Any]) -> str:
    model, champion, name = numbers["model"], numbers["champion"], numbers["distance"]
    shown = "FCD" if name == "fcd" else name
    text = f"{shown} {tables.number(model[name])}, {tables.number(model[f'{name}_ratio'])} x real against real"
    return f"{text}; the champion's {tables.number(champion[name])}" if champion else text
