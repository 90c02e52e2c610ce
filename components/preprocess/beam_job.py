"""The data's journey as an Apache Beam pipeline: read, decode, gather by shard, write."""

import base64
import contextlib
import io
import json
import logging
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from components import records, storage
from components.errors import ConfigError, DataError, StageError, TransientError
from components.preprocess import shards, survey
from components.preprocess.examples import Example, Original, Plan, Rejected, examples_by_shard
from components.preprocess.shards import ShardFacts
from components.preprocess.survey import Part

log = logging.getLogger(__name__)

_FACTS = "facts.json"
_LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")
_TRACEBACK_LOGGERS = (
    "apache_beam.runners.common",
    "apache_beam.runners.portability.local_job_service",
    "apache_beam.runners.worker.sdk_worker",
)
_CARRIED = re.compile(r"carried-error:([A-Za-z0-9+/=]+):")
_KINDS = {kind.__name__: kind for kind in (ConfigError, DataError, TransientError)}
_SECONDS_BETWEEN_LINES = 5


def make_shards(
    parts: list[Part], plan: Plan, class_count: int, folder: Path, beam_options: str
) -> tuple[list[ShardFacts], list[Rejected]]:
    """Makes the shards of a dataset.

    Args:
        parts: What to read.
        plan: How images become examples.
        class_count: Number of classes; 0 where there are none.
        folder: Where shards are written. Every worker must see it.
        beam_options: Options in Beam's own words. Without a runner among them, Beam runs in this process.

    Returns:
        The facts of each shard, by file name; the images that were set aside, by name.

    Raises:
        ConfigError: Beam does not know an option.
        DataError: A file is damaged or gone.
        OSError: A shard cannot be written.
    """
    options, runner = _options(beam_options)
    with _quiet(), _carried_errors_raised(folder), beam.Pipeline(runner=runner, options=options) as pipeline:
        build(pipeline, parts, plan, class_count, str(folder))
    facts = storage.read_json(folder / _FACTS, "set of shards")
    (folder / _FACTS).unlink()
    found = [ShardFacts(**{**fact, "shard": records.Shard(**fact["shard"])}) for fact in facts["shards"]]
    return found, [Rejected(*rejected) for rejected in facts["rejected"]]


def build(pipeline: beam.Pipeline, parts: list[Part], plan: Plan, class_count: int, folder: str) -> None:
    """Wires the pipeline; everything that it does is a plain function of plain values."""
    examples = (
        pipeline
        | "List" >> beam.Create(parts, reshuffle=True)
        | "Read" >> _steps(survey.read)
        | "Spread" >> beam.Reshuffle()
        | "Decode" >> _steps(_decode, plan).with_outputs("rejected", main="examples")
    )
    written = (
        examples.examples
        | "Gather shards" >> beam.GroupByKey()
        | "Write shards" >> _steps(_write, plan, folder, class_count)
    )
    (
        (written, examples.rejected)
        | beam.Flatten()
        | "Gather facts" >> beam.combiners.ToList()
        | "Write facts" >> _steps(_write_facts, folder)
    )


def _decode(originals: list[Original], plan: Plan) -> Iterator[Any]:
    for found in examples_by_shard(originals, plan):
        yield beam.pvalue.TaggedOutput("rejected", found) if isinstance(found, Rejected) else found
    _progress.add(len(originals))


def _write(
    shard: tuple[tuple[str, int], Iterable[list[Example]]], plan: Plan, folder: str, class_count: int
) -> Iterator[ShardFacts]:
    (split, number), groups = shard
    name = f"{split}-{number:05d}-of-{plan.shard_counts[split]:05d}.tfrecord"
    yield shards.write_shard(split, name, groups, folder, class_count)


def _write_facts(found: list[ShardFacts | Rejected], folder: str) -> Iterator[None]:
    """Leaves the facts in the folder, because that is what a program and its workers on any runner share."""
    facts = sorted((fact for fact in found if isinstance(fact, ShardFacts)), key=lambda fact: fact.shard.file)
    rejected = sorted(fact for fact in found if isinstance(fact, Rejected))
    value = {"shards": [vars(fact) | {"shard": vars(fact.shard)} for fact in facts], "rejected": rejected}
    storage.write_json(Path(folder) / _FACTS, value)
    yield None


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


def _steps(function: Callable[..., Iterator[Any]], *arguments: Any) -> Any:
    """A generator as a Beam step whose errors reach the program that started the pipeline."""
    return beam.FlatMap(_carry_errors, function, *arguments)


def _carry_errors(element: Any, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
    """Runners hand an error over as the text of its traceback; what is meant for the user is put into that text."""
    try:
        yield from function(element, *arguments)
    except (StageError, OSError, MemoryError) as error:
        if isinstance(error, OSError):
            told: list[Any] = ["OSError", error.errno, error.strerror or str(error), error.filename]
        else:
            told = [type(error).__name__, str(error)]
        text = base64.b64encode(json.dumps(told).encode()).decode()
        raise RuntimeError(f"carried-error:{text}:") from None


@contextlib.contextmanager
def _carried_errors_raised(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        carried = _CARRIED.search(str(error))
        if carried is None:
            raise
        kind, *told = json.loads(base64.b64decode(carried[1]))
        if kind == "OSError":
            number, reason, file = told
            raise OSError(number, reason, file or str(folder.parent)) from None
        if kind == "MemoryError":
            raise TransientError("out of memory; take fewer images_per_shard, or a larger machine") from None
        raise _KINDS.get(kind, StageError)(*told) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Beam's remarks to warnings, and leaves out the tracebacks that it logs of errors reported anyway."""
    levels = {"apache_beam": logging.WARNING} | dict.fromkeys(_TRACEBACK_LOGGERS, logging.CRITICAL)
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _options(beam_options: str) -> tuple[PipelineOptions, PipelineRunner]:
    """Options and runner: the one named, else Beam in this process.

    Beam's own default would first try to fetch another runner's program over the network.
    """
    try:
        words = shlex.split(beam_options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {error} in {beam_options!r}") from None
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(words)
            named = options.view_as(StandardOptions).runner
            unknown = _unknown_words(words)
    except SystemExit:
        reason = complaint.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise ConfigError(f"beam_options: {reason}") from None
    if named in _LOCAL_RUNNERS:
        if unknown:
            raise ConfigError(f"beam_options: Beam does not know {' '.join(unknown)}")
        return options, FnApiRunner()
    # Other runners have options that only they know, and check them themselves.
    try:
        return options, create_runner(named)
    except (ValueError, ImportError, AttributeError) as error:
        raise ConfigError(f"beam_options: {error}") from None


def _unknown_words(words: list[str]) -> list[str]:
    unknown = list(words)

    def note(parser: Any) -> None:
        unknown[:] = parser.parse_known_args(words)[1]

    PipelineOptions(words).get_all_options(add_extra_args_fn=note, retain_unknown_options=True)
    return unknown
