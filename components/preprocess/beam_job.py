"""The data's journey as an Apache Beam pipeline: read, decode, gather by shard, write."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

from components import records, sources, storage
from components.errors import ConfigError, DataError, StageError, TransientError
from components.preprocess import runners, shards, survey
from components.preprocess.examples import (
    Damaged,
    Example,
    Original,
    Plan,
    Rejected,
    Taken,
    TakenOver,
    examples_by_shard,
    taken_by_shard,
    with_pixels,
)
from components.preprocess.shards import Made, ShardFacts
from components.preprocess.survey import ImagesPart, Part

log = logging.getLogger(__name__)

_FACTS = "facts.json"
_STAGE_ERRORS = {kind.__name__: kind for kind in (ConfigError, DataError, TransientError)}
_SECONDS_BETWEEN_LINES = 5


def make_shards(parts: list[Part], plan: Plan, class_count: int, folder: Path, beam_options: str) -> Made:
    """Makes the shards of a dataset.

    Args:
        parts: What to read.
        plan: How images become examples.
        class_count: Number of classes; 0 where there are none.
        folder: Where shards are written. Every worker must see it.
        beam_options: Options in Beam's own words. Without a runner among them, Beam runs in this process.

    Raises:
        ConfigError: Beam does not know an option.
        DataError: A file is damaged or gone.
        OSError: A shard cannot be written.
    """
    with _quiet(), runners.pipeline(beam_options) as pipeline:
        build(pipeline, parts, plan, class_count, str(folder))
    if not (folder / _FACTS).exists():
        raise TransientError(f"nothing can be written to {folder.parent}: it is full, or Beam's workers do not see it")
    facts = storage.read_json(folder / _FACTS, "set of shards")
    for failure in facts["failures"]:
        raise _error(Failure(*failure), folder.parent)
    found = [ShardFacts(**{**fact, "shard": records.Shard(**fact["shard"])}) for fact in facts["shards"]]
    return Made(
        found,
        [Rejected(*rejected) for rejected in facts["rejected"]],
        _added(facts["taken_over"]),
        _added(facts["damaged"]),
    )


def build(pipeline: beam.Pipeline, parts: list[Part], plan: Plan, class_count: int, folder: str) -> None:
    """Wires the pipeline; everything that it does is a plain function of plain values."""
    read = pipeline | "List" >> beam.Create(parts, reshuffle=True) | "Read" >> _step(_read, plan)
    decoded = read.done | "Spread" >> beam.Reshuffle() | "Decode" >> _step(_decode, plan)
    written = (
        (decoded.done, read.taken)
        | "Add what is taken over" >> beam.Flatten()
        | "Gather shards" >> beam.GroupByKey()
        | "Write shards" >> _step(_write, plan, folder, class_count)
    )
    (
        (written.done, decoded.rejected, read.failed, decoded.failed, written.failed)
        | beam.Flatten()
        | "Gather facts" >> beam.combiners.ToList()
        | "Write facts" >> beam.Map(_write_facts, folder)
    )


class Failure(NamedTuple):
    """An error for the user, as a plain value: class, message, and for an `OSError` its number and file.

    Steps yield it like a result. An exception would reach the user as a page of Beam's tracebacks, whose form and
    place depend on the runner.
    """

    kind: str
    message: str
    number: int = 0
    file: str = ""


def _step(function: Callable[..., Iterator[Any]], *arguments: Any) -> Any:
    """A generator as a Beam step with four outputs: done, taken, rejected, failed."""
    return beam.FlatMap(_failures_yielded, function, *arguments).with_outputs(
        "taken", "rejected", "failed", main="done"
    )


def _failures_yielded(element: Any, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
    try:
        yield from function(element, *arguments)
    except OSError as error:
        reason = error.strerror or str(error)
        file = "" if error.filename is None else sources.printable(str(error.filename))
        yield beam.pvalue.TaggedOutput("failed", Failure("OSError", reason, error.errno or 0, file))
    except (StageError, MemoryError) as error:
        yield beam.pvalue.TaggedOutput("failed", Failure(type(error).__name__, str(error)))


def _error(failure: Failure, place: Path) -> Exception:
    if failure.kind == "OSError":
        return OSError(failure.number, failure.message, failure.file or str(place))
    if failure.kind == "MemoryError":
        return TransientError("out of memory; give fewer images_per_shard, or take a larger machine")
    return _STAGE_ERRORS.get(failure.kind, StageError)(failure.message)


def _read(part: Part, plan: Plan) -> Iterator[Any]:
    """Reads a part, but for files that are known to be in an earlier dataset."""
    if plan.former is not None and isinstance(part, ImagesPart):
        groups, found = taken_by_shard(part.images, plan)
        for group in groups:
            yield beam.pvalue.TaggedOutput("taken", group)
        places = {file.place for file in found}
        part = ImagesPart(tuple(image for image in part.images if image[0].place not in places))
    yield from survey.read(part)


def _decode(originals: list[Original], plan: Plan) -> Iterator[Any]:
    for found in examples_by_shard(originals, plan):
        yield beam.pvalue.TaggedOutput("rejected", found) if isinstance(found, Rejected) else found
    _progress.add(len(originals))


def _write(
    shard: tuple[tuple[str, int], Iterable[list[Example | Taken]]], plan: Plan, folder: str, class_count: int
) -> Iterator[ShardFacts | TakenOver | Damaged]:
    (split, number), groups = shard
    name = f"{split}-{number:05d}-of-{plan.shard_counts[split]:05d}.tfrecord"
    examples, facts = with_pixels((each for group in groups for each in group), plan)
    yield shards.write_shard(split, name, examples, folder, class_count, plan.recipe)
    yield from facts


def _write_facts(found: list[ShardFacts | TakenOver | Damaged | Rejected | Failure], folder: str) -> None:
    """Leaves the facts in the folder, because that is what a program and its workers on any runner share."""
    facts = sorted((fact for fact in found if isinstance(fact, ShardFacts)), key=lambda fact: fact.shard.file)
    value = {
        "shards": [vars(fact) | {"shard": vars(fact.shard)} for fact in facts],
        "taken_over": sorted(fact for fact in found if isinstance(fact, TakenOver)),
        "damaged": sorted(fact for fact in found if isinstance(fact, Damaged)),
        "rejected": sorted(fact for fact in found if isinstance(fact, Rejected)),
        "failures": sorted(fact for fact in found if isinstance(fact, Failure)),
    }
    with contextlib.suppress(OSError):  # the absence of the file tells
        storage.write_json(Path(folder) / _FACTS, value)


def _added(counts: list[tuple[str, int]]) -> dict[str, int]:
    """The sum of the counts of each name."""
    found: dict[str, int] = {}
    for name, count in counts:
        found[name] = found.get(name, 0) + count
    return found


class _Progress:
    """Images decoded by this process, told every few seconds."""

    def __init__(self) -> None:
        self._count = 0
        self._started = self._told = 0.0

    def add(self, images: int) -> None:
        now = time.monotonic()
        if not self._started:
            self._started = self._told = now
        self._count += images
        if now - self._told > _SECONDS_BETWEEN_LINES:
            log.info("decoded %d images, %d images/s", self._count, self._count / (now - self._started))
            self._told = now


_progress = _Progress()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Beam's remarks to warnings."""
    logger = logging.getLogger("apache_beam")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
