"""`wgan registry verify`, `promote`, `rollback` and `gc`: check versions, move the champion, remove versions."""

import dataclasses

from components.core.artifacts import evaluations
from components.core.errors import DataError, Superseded
from components.core.registry import registry
from components.core.storage.buckets import Conflict
from pipeline import tables


def verify(location: str, number: int | None) -> None:
    """Compute every digest of one version, or of all, again; print the whole versions, raise if one is damaged."""
    problems: list[str] = []
    champion = registry.NOBODY
    try:
        champion = registry.read_pointer(location).champion
    except DataError as error:
        problems.append(str(error))
    versions = registry.versions(location, champion)
    if number is not None and number not in versions:
        raise registry.no_version(location, number, versions)
    lost = champion.been.difference([0], champion.removed, versions)
    problems += [f"version {number} of {location} is lost: copy it back from a backup" for number in sorted(lost)]
    problems += [f"versions/{name} of {location} is no version: remove it" for name in registry.strays(location)]
    history = registry.damage_of_history(location)
    problems += [f"champions/{name} of {location} is damaged or lost: copy it back from a backup" for name in history]
    if not versions and not problems:
        raise nothing_published(location)
    rows: list[tuple[str, ...]] = []
    for version in versions if number is None else [number]:
        if damage := registry.damage(location, version, champion):
            remedy = "copy it back from a backup, and serve another until then"
            problems.append(f"version {version} of {location} is damaged: {', '.join(damage)}; {remedy}")
        is_champion = champion.version == version
        rows.append((str(version), "champion" if is_champion else "", "damaged" if damage else "whole"))
    tables.print_rows(("version", "state", "files"), rows)
    if problems:
        raise DataError("\n".join(problems))


def promote(location: str, number: int) -> None:
    """Make a published version champion without a comparison, also to write a lost `champion.json` again."""
    pointer = registry.read_pointer(location, rebuild=True)
    version = registry.read_version(location, number, pointer.champion)
    if (verdict := version.evaluation.verdict) != evaluations.PROMOTE:
        raise DataError(f"the verdict on version {number} of {location} is {verdict}: it was changed")
    if pointer.champion.version == number and not pointer.is_rebuilt:
        print(f"version {number} is the champion already")
        return
    _move(location, pointer, registry.crowned(pointer.champion, version))
    print(f"version {number} is the champion")


def rollback(location: str) -> None:
    """Make the previous champion champion again; publishing the rolled-back model again does not undo that."""
    pointer = registry.read_pointer(location)
    champion = pointer.champion
    if not champion.version:
        raise nothing_published(location)
    if not champion.previous:
        raise DataError(f"champion.json of {location} names none before version {champion.version}; promote a version")
    number = champion.previous[-1]
    if number not in registry.versions(location, champion):
        raise DataError(f"version {number}, the champion before, is gone from {location}; promote another version")
    crowned = registry.crowned(champion, registry.read_version(location, number))
    rolled_back = tuple(sorted({*champion.rolled_back, champion.version} - {number}))
    crowned = dataclasses.replace(crowned, previous=champion.previous[:-1], rolled_back=rolled_back)
    _move(location, pointer, crowned)
    print(f"version {number} is the champion again, instead of version {champion.version}")


def gc(location: str, keep: int, uncommitted: bool, yes: bool) -> None:
    """Remove versions that are not needed, or print which would be removed.

    Kept are the champion, the previous one, and the newest `keep`, at least 1, so that no number is used twice.
    `champion.json` lists removals first, so that a concurrent promotion sees them or is seen. `uncommitted` also
    removes unfinished publications, dead or active.
    """
    pointer = registry.read_pointer(location)
    champion = pointer.champion
    versions = registry.versions(location, champion)
    kept = {champion.version, *champion.previous[-1:], *versions[-keep:]}
    rows = [(number, "not needed") for number in versions if number not in kept]
    rows += [(number, "never finished") for number in registry.uncommitted(location, champion) if uncommitted]
    left_over = registry.begun(location).keys() & {*champion.removed}
    rows += [(number, "removed before, with files left") for number in sorted(left_over)]
    if not rows:
        print("nothing to remove")
        return
    tables.print_rows(("version", "why"), [(str(number), why) for number, why in rows])
    if not yes:
        print("\nnothing was removed; --yes removes them")
        return
    if gone := {number for number, _ in rows} - {*champion.removed}:
        removed = tuple(sorted({*champion.removed, *gone}))
        _move(location, pointer, dataclasses.replace(champion, revision=champion.revision + 1, removed=removed))
    for number, _ in rows:
        registry.remove(location, number)
    print(f"\nremoved: {len(rows)}")


def nothing_published(location: str) -> DataError:
    return DataError(f"nothing has been published in {location} yet; run the pipeline with this registry")


def _move(location: str, pointer: registry.Pointer, champion: registry.Champion) -> None:
    try:
        registry.move_champion(location, pointer, champion)
    except Conflict:
        raise Superseded(
            f"another process changed the champion of {location} meanwhile; look again (wgan registry list)"
        ) from None
