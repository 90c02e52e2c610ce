"""The preprocess stage: read the source, find an existing dataset, make shards, write the description."""

import contextlib
import dataclasses
import functools
import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.core import settings
from components.core.artifacts import datasets, lineage
from components.core.artifacts.datasets import ImageShape, Manifest, Split
from components.core.artifacts.made_once import made_once
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import printable
from components.core.sources.source_listing import Contents
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage import buckets, digests
from components.core.storage.location import Location, Written
from components.preprocess import attempt_files, download, leaks, reuse
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.beam import attempt
from components.preprocess.config import PreprocessConfig
from components.preprocess.decode import pixels, pool
from components.preprocess.formats.survey import Survey, survey
from components.preprocess.leaks import Leak
from components.preprocess.placement import Plan, made_splits, shard_counts
from components.preprocess.reuse import DatasetCache
from components.preprocess.rows import MOST_QUARANTINED, Outcome
from components.preprocess.shards import ShardFacts

log = logging.getLogger(__name__)

_ENTRIES_KEPT = 100
_REASONS_SHOWN = 5
QUARANTINE = "quarantine.jsonl"
_LARGEST_SHARD = 256 << 20  # bytes of pixels
_SHAPE_OF_FILES = ImageShape(64, 64, 3)  # of images made of files, unless another is requested


def run(config: PreprocessConfig) -> StageResult:
    """Turn a source of images into a dataset.

    Raises:
        ConfigError: The folder belongs to another dataset, or Beam does not know an option.
        DataError: The source is missing, damaged, changed, too small, or has too many images that cannot be decoded.
        TransientError: A download failed.
    """
    is_listed = config.source_fingerprint != ""  # by the decide stage, which logged what is left out
    contents = source_listing.contents(config.source, config.source_index, config.results, verbose=not is_listed)
    if config.source_fingerprint not in ("", contents.fingerprint):
        raise DataError(
            f"source {config.source} changed since it was fingerprinted: it was {config.source_fingerprint} "
            f"and is {contents.fingerprint} now; fingerprint it again, by starting the pipeline again"
        )
    parts = cache_key.key_parts("preprocess", config, source_fingerprint=contents.fingerprint)
    make = functools.partial(_make, config, contents)
    location, manifest, reused = made_once(config.dataset, parts, Manifest, make, whole=False)
    if reused and location.in_bucket:
        attempt_files.sweep(location)
    return _result(location, manifest, reused)


def _make(config: PreprocessConfig, contents: Contents, location: Location) -> None:
    is_downloaded = config.source == source_listing.FASHION_MNIST
    source = str(download.fashion_mnist(config.downloads)) if is_downloaded else config.source
    surveyed = survey(source, contents.listing)
    plan, images = _plan(config, surveyed), sum(surveyed.counts.values())
    log.info("preprocess: %s images of %s to %s", f"{images:,}", config.source, location)
    if surveyed.stored is None and not config.previous_datasets and not config.beam_options:
        pool.start(images)
    with _importing_beam():  # imported here, so that mistakes are reported without waiting for it
        from components.preprocess.beam import pipeline, runners
    with attempt.begun(location, runners.is_in_process(runners.chosen(config.beam_options)[0])) as (files, rows_at):
        plan = dataclasses.replace(plan, cache=_cache(config, plan, contents, rows_at))
        built = pipeline.make_shards(surveyed.parts, plan, images, rows_at, files, config.beam_options)
        written = {name: file for shard in built.shards for name, file in shard.files.items()}
        quarantine, listed = _quarantine(built.outcome, images, config.bad_images_limit, files, location)
        splits = _splits(built.shards, len(surveyed.classes))
        if sum(split.records for split in splits.values()) + quarantine["count"] != images:
            raise AssertionError(f"{splits} and {quarantine['count']} quarantined came of {surveyed.counts}")
        _require_images(splits, surveyed.classes)
        reused = _reused(built.outcome, images) if plan.decoding and config.previous_datasets else {}
        members = {name: file.sha256 for name, file in written.items() if name.endswith(reuse.MEMBERS)}
        manifest = Manifest(
            image=plan.image,
            classes=surveyed.classes,
            splits=splits,
            source={
                "kind": surveyed.kind,
                "fingerprint": contents.fingerprint,
                "images": images,
                **_repeated(built.shards),
                "leaks": _leaks(built.leaks, splits["test"]),
            },
            preprocessing=settings.values_in_key(config),
            quarantine=quarantine,
            made_with=lineage.made_with(
                "preprocess",
                source=printable(config.source),
                **reused,
                **_cropped(built.outcome, images),
                **({datasets.MEMBERS: members} if members else {}),
            ),
        )
        attempt.finish(location, files, manifest, written | listed)


@contextlib.contextmanager
def _importing_beam() -> Iterator[None]:
    """Keep the import of Beam quiet and quick."""
    logging.disable(logging.WARNING)  # Beam would warn of every optional library that is missing
    gc.disable()  # it would scan everything imported, again and again, and free nothing
    try:
        yield
    finally:
        gc.freeze()  # and need not scan it later
        gc.enable()
        logging.disable(logging.NOTSET)


def _plan(config: PreprocessConfig, surveyed: Survey) -> Plan:
    natural = surveyed.stored or _SHAPE_OF_FILES
    channels = {"source": natural.channels, "gray": 1, "rgb": 3}[config.color]
    image = ImageShape(config.height or natural.height, config.width or natural.width, channels)
    shares = made_splits(surveyed.counts, config.test_fraction, config.validation_fraction)
    images_per_shard = min(config.images_per_shard, max(1, _LARGEST_SHARD // image.size))
    return Plan(
        stored=surveyed.stored,
        image=image,
        resize=config.resize,
        made_splits=shares,
        class_count=len(surveyed.classes),
        shard_counts=shard_counts(surveyed.counts, shares, images_per_shard),
        seed=config.seed,
        decoding=reuse.decoding(image, config.resize) if surveyed.stored is None else b"",
    )


def _cache(config: PreprocessConfig, plan: Plan, contents: Contents, rows_at: AttemptFiles) -> DatasetCache | None:
    """Find the source's images in earlier datasets; None for kinds of source that reuse nothing."""
    if not config.previous_datasets or contents.listing is None or contents.listing.kind != source_listing.IMAGES:
        return None
    if rows_at.in_bucket:
        log.warning(
            "all images are decoded again: Beam's workers cannot read the cache of earlier datasets in a bucket"
        )
        return None
    hashes = None if buckets.is_uri(config.source) else (bytes.fromhex(file.sha256) for file in contents.listing.files)
    return reuse.cache_of(config.previous_datasets, plan.decoding, hashes, rows_at.path)


def _reused(outcome: Outcome, images: int) -> dict[str, Any]:
    """Log how many images were reused from earlier datasets; return it for the dataset's description."""
    for shard, count in outcome.damaged.items():
        if count:
            log.warning("%s is damaged or gone; %s images were decoded again", shard, f"{count:,}")
    taken = sum(outcome.reused.values())
    names = sorted({Path(shard).parent.name for shard, count in outcome.reused.items() if count})
    source = f" from {', '.join(names)}" if names else ""
    log.info("%s images: %s new, %s reused%s", f"{images:,}", f"{images - taken:,}", f"{taken:,}", source)
    return {"reused": {"images": taken, "datasets": names}} if taken else {}


def _cropped(outcome: Outcome, images: int) -> dict[str, Any]:
    """Log how many of the images decoded now lose much to cropping; return it for the dataset's description."""
    count, decoded = outcome.cropped_count, images - sum(outcome.reused.values())
    if not count:
        return {}
    message = "%s of %s images lose more than %.0f%% of their area to cropping; resize fit keeps all of them"
    log.warning(message, f"{count:,}", f"{decoded:,}", 100 * pixels.MOST_CROPPED)
    return {"cropped": {"images": count, "of": decoded}}


def _quarantine(
    outcome: Outcome, images: int, limit: float, files: AttemptFiles, location: Location
) -> tuple[dict[str, Any], dict[str, Written]]:
    """Write the list of quarantined images, if any, and describe it. `DataError` if there are too many."""
    quarantined, count = outcome.quarantined, outcome.quarantined_count
    reasons = [f"{entry.name} {entry.reason}" for entry in quarantined[:_REASONS_SHOWN]]
    if count > min(limit * images, MOST_QUARANTINED):
        most = f"the {MOST_QUARANTINED:,} that may be quarantined"
        allowed = f"bad_images_limit {limit:g} allows" if count > limit * images else most
        problem = f"{count:,} of {images:,} images cannot be used, more than {allowed}; "
        raise DataError("\n".join([f"{problem}repair or remove them, or raise the limit. The first:", *reasons]))
    described = {"count": count, "limit": limit, "entries": [entry._asdict() for entry in quarantined[:_ENTRIES_KEPT]]}
    written: dict[str, Written] = {}
    if quarantined:
        listed = f"{files if location.in_bucket else location}/{QUARANTINE}"
        log.warning("%s images cannot be used; all are listed in %s; first: %s", f"{count:,}", listed, reasons[0])
        content = b"".join(digests.canonical_json(entry._asdict()) + b"\n" for entry in quarantined)
        written[QUARANTINE] = file = attempt.written_as(content, files.write(QUARANTINE, [content]))
        described["list"] = {"file": QUARANTINE, "bytes": file.bytes, "sha256": file.sha256}
    return described, written


def _repeated(shards: list[ShardFacts]) -> dict[str, int]:
    """Count and log repeated images of a split. They stay: people decide which label is right."""
    duplicates = sum(facts.duplicates for facts in shards)
    contradictions = sum(facts.contradictions for facts in shards)
    if duplicates:
        first = next((facts.contradicting for facts in shards if facts.contradicting), "")
        labels = f"; {contradictions:,} have different labels, such as that of sha256 {first}" if first else ""
        log.warning("%s images are in the source more than once, and stay%s", f"{duplicates:,}", labels)
    return {"duplicates": duplicates, "contradictions": contradictions}


def _leaks(pairs: list[Leak], test: Split) -> dict[str, Any]:
    """Describe and log images of `test` that are in `train` too. They stay: people decide which of the two goes."""
    described = leaks.describe(pairs, test.records)
    if pairs:
        counts = (f"{number:,}" for number in (described["exact"], test.records, described["near"]))
        first = "%s of %s test images are in train as well, and %s more nearly, such as record %d of %s"
        log.warning(first, *counts, described["first"][0]["record"], described["first"][0]["shard"])
    return described


def _splits(shards: list[ShardFacts], class_count: int) -> dict[str, Split]:
    splits = {}
    for name in datasets.SPLITS:
        split_facts = [facts for facts in shards if facts.split == name]
        counts = [sum(facts.class_counts[label] for facts in split_facts) for label in range(class_count)]
        records = sum(facts.shard.records for facts in split_facts)
        splits[name] = Split(records, counts, [facts.shard for facts in split_facts])
    return splits


def _require_images(splits: dict[str, Split], classes: list[str]) -> None:
    """Refuse an empty split, or classes without an image to train on: chance may give all of a few to other splits."""
    if not (splits["train"].records and splits["test"].records):
        shown = _listed({name: split.records for name, split in splits.items()})
        raise DataError(f"the train or test split is empty ({shown} images); give more images, or change the fractions")
    untrained = [label for label, count in enumerate(splits["train"].class_counts) if not count]
    if untrained:
        counts = _listed({name: split.class_counts[untrained[0]] for name, split in splits.items()})
        raise DataError(
            f"there is no image to train on for {len(untrained):,} of {len(classes):,} classes, such as "
            f"{classes[untrained[0]]} ({counts} images); give more images of them, or remove them, or give the source "
            "splits of its own"
        )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in counts.items())


def _result(location: Location, manifest: Manifest, reused: bool) -> StageResult:
    records = {name: manifest.splits[name].records for name in datasets.SPLITS}
    summary = f"{_listed(records)} images of {manifest.image}"
    summary += f" in {manifest.class_count} classes" if manifest.classes else ""
    quarantined = manifest.quarantine["count"]
    summary += f", {quarantined:,} quarantined" if quarantined else ""
    images = manifest.made_with.get("reused", {}).get("images", 0)
    summary += f", {images:,} reused from earlier datasets" if images else ""
    digest = {"dataset_uri": location.uri, "dataset_digest": manifest.digest}
    return StageResult(parameters={**digest, "summary": summary}, reused=reused)
