"""`wgan models`: what the registry holds, why a version was promoted, how to make it again; and its upkeep."""

import argparse
import contextlib
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.artifacts import datasets, evaluations, lineage
from components.core.artifacts.lineage import Lineage
from components.core.errors import DataError
from components.core.registry import registry
from components.core.registry.registry import Champion, Version
from components.core.reporting.markdown import plain
from components.core.stage import cache_key, cli
from components.core.storage import atomic_files
from pipeline.cli import tables
from pipeline.models import reproduction, upkeep

_DIGEST_SHOWN = 12
_HELP = {
    "list": "list the versions, and which of them is the champion",
    "why": "tell where a version came from, and why it was promoted",
    "reproduce": "print the commands that make a version's model again, as a shell script",
    "verify": "compute every digest of the versions again, and name what is damaged",
    "promote": "make a version champion that was published before",
    "rollback": "make the champion before this one champion again",
    "gc": "remove versions that are not needed; prints which, unless --yes is given",
}
_EXAMPLES = """examples:
  wgan models list --registry runs/demo/registry
  wgan models why 2 --registry gs://bucket/runs/registry
  wgan models verify
  wgan models rollback
  wgan models gc --keep 5 --yes
"""


def main(words: list[str]) -> int:
    """Run `wgan models ...` and return its exit code.

    Raises:
        ConfigError: The command line is not understood.
        DataError: The registry or the version is missing, damaged, or from before there was lineage.
        Superseded: Another process changed the champion meanwhile.
        TransientError: The bucket does not answer.
    """
    parsed = _parser().parse_args(words)
    if parsed.verb == "verify":
        upkeep.verify(parsed.registry, parsed.version)
    elif parsed.verb == "promote":
        upkeep.promote(parsed.registry, parsed.version)
    elif parsed.verb == "rollback":
        upkeep.rollback(parsed.registry)
    elif parsed.verb == "gc":
        upkeep.gc(parsed.registry, parsed.keep, parsed.uncommitted, parsed.yes)
    elif parsed.verb == "list":
        _list(parsed.registry, _read_champion(parsed.registry))
    else:
        _tell(parsed)
    return errors.OK


def _tell(parsed: argparse.Namespace) -> None:
    champion = _read_champion(parsed.registry)
    version = registry.read_version(parsed.registry, parsed.version, champion)
    folder = registry.evaluation_folder(registry.version_folder(parsed.registry, parsed.version))
    found = lineage.read(folder, version.evaluation)
    try:
        if parsed.verb == "why":
            _tell_why(version, found, champion, atomic_files.read_json(folder / evaluations.METRICS, "evaluation"))
        else:
            initial = _version_of(parsed.registry, champion, reproduction.initial_digest(found))
            print("\n".join(reproduction.script(version, found, Path(parsed.root), parsed.source, initial)))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(
            f"{folder} lacks what is told of a version ({error!r}): restore it, or evaluate and publish anew"
        ) from None


def _parser() -> argparse.ArgumentParser:
    shared = cli.Parser(add_help=False)
    shared.add_argument(
        "--registry",
        default="runs/registry",
        help="folder of the registry, here or gs://BUCKET/FOLDER (default: runs/registry)",
    )
    parser = cli.Parser(
        prog="wgan models",
        description="Tell what was published, and look after it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan models VERB --help)")
    for name, text in _HELP.items():
        description = f"{text[0].upper()}{text[1:]}."
        verb = verbs.add_parser(name, help=text, description=description, parents=[shared], allow_abbrev=False)
        if name in ("why", "reproduce", "promote"):
            verb.add_argument("version", type=int, metavar="N", help="number of the version")
        if name == "verify":
            verb.add_argument("version", type=int, nargs="?", metavar="N", help="one version alone (default: all)")
        if name == "reproduce":
            verb.add_argument(
                "--root", default="reproduced", help="folder that the commands make (default: ./reproduced)"
            )
            verb.add_argument(
                "--source", default="", help="where the source of the dataset lies now (default: the place on record)"
            )
        if name == "gc":
            _add_flags_of_gc(verb)
    return parser


def _add_flags_of_gc(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--keep",
        type=_at_least_1,
        default=3,
        metavar="K",
        help="keep the newest K versions, besides the champion and the one before it (default: 3)",
    )
    verb.add_argument(
        "--uncommitted",
        action="store_true",
        help="remove too what publications left that were never finished; one that is at work now has to begin anew",
    )
    verb.add_argument("--yes", action="store_true", help="remove them; without it they are printed only")


def _at_least_1(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return int(text)


def _read_champion(place: str) -> Champion | None:
    registry.require_there(place)
    champion = registry.read_champion(place)
    if champion is None and not registry.versions(place):
        raise DataError(f"nothing has been published in {place} yet; run the pipeline with this registry")
    return champion


def _list(place: str, champion: Champion | None) -> None:
    rows, damaged = [], []
    for number in registry.versions(place, champion):
        try:
            rows.append(_row(place, number, champion))
        except DataError as error:
            damaged.append(str(error))
            rows.append((str(number), "damaged", "", "", "", "", ""))
    tables.print_rows(("version", "state", "step", "images", "distance / real", "model", "feature space"), rows)
    if damaged:
        raise DataError("\n".join([*damaged, "restore the damaged versions, and do not serve them"]))


def _row(place: str, number: int, champion: Champion | None) -> tuple[str, ...]:
    version = registry.read_version(place, number, champion)
    folder = registry.evaluation_folder(registry.version_folder(place, number))
    try:
        numbers = atomic_files.read_json(folder / evaluations.METRICS, "evaluation")
        ratio = numbers["model"][f"{evaluations.distance_name(numbers)}_ratio"]
    except (KeyError, TypeError, IndexError):
        ratio = None
    state = "champion" if champion is not None and champion.version == number else ""
    model = version.model
    space = f"uncertified: {version.evaluation.uncertified}" if version.evaluation.uncertified else "certified"
    digest = model.digest[:_DIGEST_SHOWN]
    return (str(number), state, f"{model.step:,}", str(model.image), _number(ratio), digest, plain(space))


def _version_of(place: str, champion: Champion | None, checkpoint_digest: str) -> int:
    """Return the version whose model comes from a checkpoint; 0 for none that is whole."""
    for number in registry.versions(place, champion) if checkpoint_digest else []:
        with contextlib.suppress(DataError):
            if registry.read_version(place, number, None).model.checkpoint_digest == checkpoint_digest:
                return number
    return 0


def _tell_why(version: Version, found: Lineage, champion: Champion | None, numbers: dict[str, Any]) -> None:
    is_champion = champion is not None and champion.version == version.number
    rival = version.evaluation.champion_version
    beaten = f"it was compared with version {rival}, the champion then" if rival else "none was there to compare with"
    facts = {
        "version": f"{version.number}, the champion" if is_champion else f"{version.number}, not the champion",
        "model": version.model.digest,
        "checkpoint": f"of {version.model.step:,} generator updates, of {found.checkpoint['settings']['steps']:,}",
        "data": _data(found),
        "embedding": f"certificate: {found.embedding['certificate']['outcome']}",
        "verdict": f"{version.evaluation.verdict}: {'; '.join(version.evaluation.reasons)}",
        "champion": beaten,
        "distance": _distance(numbers),
    }
    width = max(map(len, facts))
    for name, text in facts.items():
        print(f"{name:<{width}}  {plain(text)}")
    print()
    tables.print_rows(
        ("rule", "value", "low", "high", "expected", "outcome"), [_rule(rule) for rule in version.evaluation.rules]
    )
    print()
    rows = [*found.rows(), lineage.row("model", version.model.digest, version.model.made_with)]
    tables.print_rows(("came from", "digest", "code", "container image"), [_link(row) for row in rows])


def _data(found: Lineage) -> str:
    dataset = found.dataset
    image, classes = dataset["image"], len(dataset["classes"])
    splits = ", ".join(f"{dataset['splits'][name]['records']:,} {name}" for name in datasets.SPLITS)
    shape = f"{image['height']}x{image['width']}x{image['channels']}"
    return f"{dataset['source']['kind']}: {splits} images of {shape}" + (f" in {classes} classes" if classes else "")


def _distance(numbers: dict[str, Any]) -> str:
    model, champion, name = numbers["model"], numbers["champion"], evaluations.distance_name(numbers)
    shown = "FCD" if name == "fcd" else name
    text = f"{shown} {_number(model[name])}, {_number(model[f'{name}_ratio'])} x real against real"
    return f"{text}; the champion's {_number(champion[name])}" if champion else text


def _rule(rule: dict[str, Any]) -> tuple[str, ...]:
    numbers = (_number(rule[name]) for name in ("value", "low", "high"))
    return (plain(rule["rule"]), *numbers, plain(rule["limit"]), plain(rule["outcome"]))


def _link(row: lineage.Row) -> tuple[str, ...]:
    stage = reproduction.STAGES.get(row.what, "")
    code = row.code
    if stage and code != lineage.UNKNOWN:
        code = "as here" if code == cache_key.source_digest(stage) else "another than here"
    return (plain(row.what), plain(row.digest), plain(code), plain(row.image))


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else plain(value)
