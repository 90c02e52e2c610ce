"""`wgan compile` and `wgan profiles`: a package for a cluster or for Vertex, and the hardware that it can be for."""

import logging
from pathlib import Path

from components import cli, errors
from components.errors import ConfigError
from pipeline import image_digests, profiles
from pipeline.profiles import KFP, TARGETS, VERTEX

log = logging.getLogger("pipeline")

HELP = {
    "compile": "write the package for Kubeflow or for Vertex",
    "profiles": "list the hardware profiles, and what each stage gets",
}
_DEFAULT_PROFILE = "cpu"


def main(verb: str, words: list[str]) -> int:
    """Writes a package, or lists the profiles, and returns the exit code (see `components.errors`).

    Args:
        verb: A key of `HELP`.
        words: The command line after the verb.

    Raises:
        ConfigError: Nothing was written.
    """
    parser = cli.Parser(
        prog=f"wgan {verb}", description=f"{HELP[verb][0].upper()}{HELP[verb][1:]}.", allow_abbrev=False
    )
    parser.add_argument(
        "--profiles", type=Path, metavar="FILE", help="file of your own profiles, beside ours (docs/profiles.md)"
    )
    if verb == "profiles":
        for profile in profiles.read(parser.parse_args(words).profiles).values():
            print("\n".join(profiles.described(profile)))
        return errors.OK
    _add_flags(parser)
    parsed = parser.parse_args(words)
    profile = profiles.choose(profiles.read(parsed.profiles), parsed.profile, parsed.target)
    given = _parameters(parsed.set)
    if parsed.images is None and not parsed.allow_tags:
        raise ConfigError(
            "images is required, as a tag can be another image tomorrow: give the file that `make push REGISTRY=...` "
            "wrote (--images build/images.json), or name images by tag all the same (--allow_tags)"
        )
    image_of = image_digests.read(parsed.images) if parsed.images else None
    # Kubeflow's package takes a second to import; who has made a mistake so far need not wait for it.
    from pipeline.compile import write_package

    write_package(parsed.output, image_of, profile, given)
    log.info("wrote %s for %s, profile %s", parsed.output, profile.target, profile.name)
    if profile.service_account:
        log.info("start its runs as service account %s, which no package can say", profile.service_account)
    return errors.OK


def _add_flags(parser: cli.Parser) -> None:
    parser.add_argument(
        "--target", default=KFP, choices=TARGETS, help=f"{KFP} for a Kubernetes cluster, {VERTEX} (default: {KFP})"
    )
    parser.add_argument(
        "--profile",
        default=_DEFAULT_PROFILE,
        metavar="NAME",
        help=f"the hardware that stages get; `wgan profiles` lists them (default: {_DEFAULT_PROFILE})",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("pipeline.yaml"), help="file to write (default: pipeline.yaml)"
    )
    parser.add_argument(
        "--images", type=Path, help="file that `make push` wrote: the digest of each image (required, or --allow_tags)"
    )
    parser.add_argument(
        "--allow_tags",
        "--allow-tags",
        action="store_true",
        help="name images by tag, as `make images` does: what runs is then whatever has that name by then",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another default for a parameter of the pipeline (`wgan run --help` lists them); any number of times",
    )


def _parameters(words: list[str]) -> dict[str, str]:
    """The text given for each parameter."""
    problems = [f"set must be NAME=VALUE, got {word!r}" for word in words if not word.partition("=")[1]]
    names = [word.partition("=")[0] for word in words]
    problems += [f"set {name} is given twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise ConfigError(*problems)
    return {name.replace("-", "_"): value for name, _, value in (word.partition("=") for word in words)}
