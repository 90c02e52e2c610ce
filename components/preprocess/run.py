"""The preprocess stage: read the source, find an existing dataset, make shards, write the manifest."""

import functools
import gc
import logging
from pathlib import Path
from typing import Any

from components.core import settings
from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape, Manifest, Split
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import printable
from components.core.stage import cache_key, provenance
from components.core.stage.executor import StageResult
from components.core.storage import buckets, digests
from components.core.storage.location import Location, Written
from components.preprocess import attempt_files, download, leaks, reuse
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.config import PreprocessConfig
from components.preprocess.decode import pool
from components.preprocess.formats.labels import LabelChoice
from components.preprocess.formats.survey import Survey, survey
from components.preprocess.placement import Plan, divide
from components.preprocess.rows import MOST_QUARANTINED, Outcome
from components.preprocess.shards import BuildResult

log = logging.getLogger(__name__)

_ENTRIES_KEPT = 100
_REASONS_SHOWN = 5
QUARANTINE = "quarantine.jsonl"
Facts = dict[str, Any]  # for the dataset's manifest
_DARK = 64  # of 255, what 14 bits in 16 reach; of photos, some pixel is brighter
_LARGEST_SHARD = 256 << 20  # bytes of pixels
_SHAPE_OF_FILES = ImageShape(64, 64, 3)  # of images made of files, unless another is requested


def run(config: PreprocessConfig) -> StageResult:
    """Turn a source of images into a dataset.

    `ConfigError` if Beam does not know an option; `DataError` if the source is missing, damaged, changed, too small, or
    has too many images that cannot be decoded.
    """
    verbose = config.source_fingerprint == ""  # else the decide stage listed the source, and logged what is left out
    contents = source_listing.contents(config.source, config.source_index, config.results, verbose, config.label_file)
    if config.source_fingerprint not in ("", contents.fingerprint):
        raise DataError(
            f"source {config.source} changed since it was fingerprinted: it was {config.source_fingerprint} "
            f"and is {contents.fingerprint} now; fingerprint it again, by starting the pipeline again"
        )
    parts = cache_key.key_parts("preprocess", config, source_fingerprint=contents.fingerprint)
    make = functools.partial(_make, config, contents)
    location, manifest, reused = Manifest.made_once(config.dataset, parts, make, whole=False)
    if reused:
        location.sweep()
    summary = f"{_listed({name: manifest.splits[name].records for name in datasets.SPLITS})} images of {manifest.image}"
    summary += f" in {len(manifest.classes)} classes" if manifest.classes else ""
    quarantined = manifest.quarantine["count"]
    summary += f", {quarantined:,} quarantined" if quarantined else ""
    images = manifest.made_with.get("reused", {}).get("images", 0)
    summary += f", {images:,} reused from earlier datasets" if images else ""
    digest = {"dataset_uri": location.uri, "dataset_digest": manifest.digest}
    return StageResult(parameters={**digest, "summary": summary}, reused=reused)


def _make(config: PreprocessConfig, contents: source_listing.Contents, location: Location) -> None:
    is_downloaded = config.source == source_listing.FASHION_MNIST
    source = str(download.fashion_mnist(config.downloads)) if is_downloaded else config.source
    listing = contents.listing
    choice = LabelChoice(config.labels_from, config.label_column, listing.label_file if listing else "")
    surveyed = survey(source, listing, choice)
    plan, images = _plan(config, surveyed), sum(surveyed.counts.values())
    log.info("preprocess: %s images of %s to %s", f"{images:,}", config.source, location)
    if surveyed.stored is None and not config.previous_datasets and not config.beam_options:
        pool.start(images)
    logging.disable(logging.WARNING)  # Beam would warn of every optional library that is missing
    gc.disable()  # it would scan everything imported, again and again, and free nothing
    try:  # imported here, so that mistakes are reported without waiting for it
        from components.preprocess.beam import pipeline, runners
    finally:
        gc.freeze()  # and need not scan it later
        gc.enable()
        logging.disable(logging.NOTSET)
    is_in_process = runners.is_in_process(runners.chosen(config.beam_options)[0])
    with attempt_files.new_attempt(location, is_in_process) as files:
        if config.previous_datasets and listing is not None and listing.kind == source_listing.IMAGES:
            if files.in_bucket:
                log.warning("all images are decoded again: Beam's workers cannot read earlier datasets in a bucket")
            else:
                is_hashed = not buckets.is_uri(config.source)
                hashes = (bytes.fromhex(file.sha256) for file in listing.files) if is_hashed else None
                cache = reuse.cache_of(config.previous_datasets, plan.decoding, hashes, files.path)
                plan = plan._replace(cache=cache)
        built = pipeline.make_shards(surveyed.parts, plan, images, files, config.beam_options)
        written = {name: file for shard in built.shards for name, file in shard.files.items()}
        quarantine = _quarantine(built.outcome, images, config.bad_images_limit, files, location, written)
        manifest = _describe(config, contents.fingerprint, surveyed, plan, built, quarantine)
        attempt_files.finish(location, files, manifest, written)


def _plan(config: PreprocessConfig, surveyed: Survey) -> Plan:
    natural = surveyed.stored or _SHAPE_OF_FILES
    channels = {"source": natural.channels, "gray": 1, "rgb": 3, "rgba": 4}[config.color]
    image = ImageShape(config.height or natural.height, config.width or natural.width, channels)
    images_per_shard = min(config.images_per_shard, max(1, _LARGEST_SHARD // image.size))
    shares, shard_counts = divide(surveyed.counts, config.test_fraction, config.validation_fraction, images_per_shard)
    colors = config.background, config.white_level
    return Plan(
        stored=surveyed.stored,
        image=image,
        resize=config.resize,
        colors=colors,
        made_splits=shares,
        class_count=len(surveyed.classes),
        shard_counts=shard_counts,
        seed=config.seed,
        decoding=reuse.decoding(image, config.resize, colors) if surveyed.stored is None else b"",
    )


def _describe(
    config: PreprocessConfig, fingerprint: str, surveyed: Survey, plan: Plan, built: BuildResult, quarantined: Facts
) -> Manifest:
    """Describe the dataset, and log what users should know of it."""
    images, splits = sum(surveyed.counts.values()), {}
    for name in datasets.SPLITS:
        shards = [facts for facts in built.shards if facts.split == name]
        counts = [sum(facts.class_counts[label] for facts in shards) for label in range(len(surveyed.classes))]
        records = sum(facts.shard.records for facts in shards)
        splits[name] = Split(records, counts, [facts.shard for facts in shards])
    if sum(split.records for split in splits.values()) + quarantined["count"] != images:
        raise AssertionError(f"{splits} and {quarantined['count']} quarantined came of {surveyed.counts}")
    brightest, depth = max(facts.brightest for facts in built.shards), "all"
    if 0 <= built.outcome.brightest_of_16 < brightest:
        brightest, depth = built.outcome.brightest_of_16, "16-bit"
    if brightest <= _DARK:
        # The least value that becomes so bright, of 8 or 16 bits; for 16, the largest of as many bits.
        whites = (min(config.white_level or most, most) for most in (255, 65535))
        least, of_16 = (max(1, (2 * brightest - 1) * white // 510 + 1) for white in whites)
        message = "the brightest pixel of %s images is %d of 255; if it is white, set white_level to %d (16 bits: %d)"
        log.warning(message, depth, brightest, least, (1 << of_16.bit_length()) - 1)
    _require_images(splits, surveyed.classes)
    decoding = _reused_and_cropped(built.outcome, images, bool(plan.decoding and config.previous_datasets))
    files = {name: file.sha256 for shard in built.shards for name, file in shard.files.items()}
    if members := {name: sha256 for name, sha256 in files.items() if name.endswith(reuse.MEMBERS)}:
        decoding[datasets.MEMBERS] = members
    source = {"kind": surveyed.kind, "fingerprint": fingerprint, "images": images}
    return Manifest(
        image=plan.image,
        classes=surveyed.classes,
        splits=splits,
        source={**source, **_repeated(built, splits["test"].records)},
        preprocessing=settings.values_in_key(config),
        quarantine=quarantined,
        made_with=provenance.made_with("preprocess", source=printable(config.source), **decoding),
    )


def _reused_and_cropped(outcome: Outcome, images: int, has_earlier: bool) -> Facts:
    """Log and return how many images were reused from earlier datasets, and how many others lose much to cropping."""
    facts: Facts = {}
    taken = sum(outcome.reused.values())
    if has_earlier:
        for shard, count in outcome.damaged.items():
            log.warning("%s is damaged or gone; %s images were decoded again", shard, f"{count:,}")
        names = sorted({Path(shard).parent.name for shard in outcome.reused})
        source = f" from {', '.join(names)}" if names else ""
        log.info("%s images: %s new, %s reused%s", f"{images:,}", f"{images - taken:,}", f"{taken:,}", source)
        if taken:
            facts["reused"] = {"images": taken, "datasets": names}
    if outcome.cropped_count:
        facts["cropped"] = {"images": outcome.cropped_count, "of": images - taken}
        message = "%s of %s images lose more than %.0f%% of their area to cropping; resize fit keeps all of them"
        log.warning(message, f"{outcome.cropped_count:,}", f"{images - taken:,}", 100 * pixels.MOST_CROPPED)
    return facts


def _quarantine(
    outcome: Outcome, images: int, limit: float, files: AttemptFiles, location: Location, written: dict[str, Written]
) -> Facts:
    """Write the list of quarantined images, if any, and describe it. `DataError` if there are too many."""
    quarantined, count = outcome.quarantined, outcome.quarantined_count
    reasons = [f"{entry.name} {entry.reason}" for entry in quarantined[:_REASONS_SHOWN]]
    if count > min(limit * images, MOST_QUARANTINED):
        most = f"the {MOST_QUARANTINED:,} that may be quarantined"
        allowed = f"bad_images_limit {limit:g} allows" if count > limit * images else most
        problem = f"{count:,} of {images:,} images cannot be used, more than {allowed}; "
        raise DataError("\n".join([f"{problem}repair or remove them, or raise the limit. The first:", *reasons]))
    described = {"count": count, "limit": limit, "entries": [entry._asdict() for entry in quarantined[:_ENTRIES_KEPT]]}
    if quarantined:
        message = "%s images cannot be used; %s in %s lists all; first: %s"
        log.warning(message, f"{count:,}", QUARANTINE, location, reasons[0])
        content = b"".join(digests.canonical_json(entry._asdict()) + b"\n" for entry in quarantined)
        written[QUARANTINE] = file = files.put(QUARANTINE, content)
        described["list"] = {"file": QUARANTINE, "bytes": file.bytes, "sha256": file.sha256}
    return described


def _repeated(built: BuildResult, test_images: int) -> Facts:
    """Count and log repeated images, of a split and in `test` and `train`. They stay: people decide which go."""
    duplicates = sum(facts.duplicates for facts in built.shards)
    contradictions = sum(facts.contradictions for facts in built.shards)
    if duplicates:
        first = next((facts.contradicting for facts in built.shards if facts.contradicting), "")
        labels = f"; {contradictions:,} have different labels, such as file or array of sha256 {first}" if first else ""
        log.warning("%s images are in the source more than once, and stay%s", f"{duplicates:,}", labels)
    leaked = leaks.describe(built.leaks, test_images)
    if built.leaks:
        counts = (f"{number:,}" for number in (leaked["exact"], test_images, leaked["near"]))
        message = "%s of %s test images are in train as well, and %s more nearly, such as record %d of %s"
        log.warning(message, *counts, leaked["first"][0]["record"], leaked["first"][0]["shard"])
    return {"duplicates": duplicates, "contradictions": contradictions, "leaks": leaked}


def _require_images(splits: dict[str, Split], classes: list[str]) -> None:
    """Refuse an empty split, or classes without an image to train on: chance may give all of a few to other splits."""
    if not (splits["train"].records and splits["test"].records):
        shown = _listed({name: split.records for name, split in splits.items()})
        raise DataError(f"the train or test split is empty ({shown} images); give more images, or change the fractions")
    if untrained := [label for label, count in enumerate(splits["train"].class_counts) if not count]:
        counts = _listed({name: split.class_counts[untrained[0]] for name, split in splits.items()})
        raise DataError(
            f"there is no image to train on for {len(untrained):,} of {len(classes):,} classes, such as "
            f"{classes[untrained[0]]} ({counts} images); give more images of them, remove them, ignore classes by "
            "--labels-from none, or give the source splits of its own"
        )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in counts.items())
