"""The data's journey as an Apache Beam pipeline: read and decode, gather by shard, write.

What Beam passes on is a run of rows for some shard, or where one lies: its cost by element is paid some thousand images
at a time. A step that fails yields its failure as a fact, and the others then do nothing more.
"""

import contextlib
import functools
import itertools
import logging
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from components import records, storage
from components.errors import TransientError, naming
from components.preprocess import batches, examples, failures, leaks, rows, runners, shard_order, shards
from components.preprocess.examples import Begun, Found, Rejected
from components.preprocess.facts import Gather
from components.preprocess.failures import Failure, failure_of
from components.preprocess.leaks import Held, Leak
from components.preprocess.plan import Plan
from components.preprocess.progress import Tally, told_progress
from components.preprocess.rows import Gathering, Key, Rows, Spilled
from components.preprocess.shards import Made, ShardFacts
from components.preprocess.survey import ImageParts, Part

log = logging.getLogger(__name__)

_FACTS = "facts.json"
_PARTS = "parts.pickle"
_FAILED = "failed"
_HELD_BYTES = 4 << 20  # of rows, by each worker, until they are passed on
_BLOCK_BYTES = 1 << 20  # of rows, which are written together

Piece = tuple[int, int]  # offset and bytes of some parts in the file of parts


def make_shards(
    parts: Iterable[Part], plan: Plan, class_count: int, images: int, folder: Path, beam_options: str
) -> Made:
    """Makes the shards of a dataset.

    Args:
        parts: What to read.
        plan: How images become examples.
        class_count: Number of classes; 0 where there are none.
        images: How many the parts have together, to tell how far it is.
        folder: Where shards are written. Every worker must see it.
        beam_options: Options in Beam's own words. Without a runner among them, Beam runs in this process.

    Raises:
        ConfigError: Beam does not know an option.
        DataError: A file is damaged or gone.
        OSError: A shard cannot be written.
    """
    shard_count = sum(plan.shard_counts.values())
    with _quiet(), told_progress(folder, images, shard_count), runners.pipeline(beam_options) as pipeline:
        spilled, decoders = runners.keeps_in_memory(pipeline.options), runners.decoders(pipeline.options)
        with naming(folder / _PARTS), open(folder / _PARTS, "wb") as file:
            if isinstance(parts, ImageParts) and parts.are_hashed():
                ordered = shard_order.in_shards(parts, plan)
                whole = [(shard, _write_parts(files, file)) for shard, files in ordered]
                made = make_whole_shards(pipeline, whole, plan, class_count, str(folder), decoders)
            else:
                pieces = [_write_parts([part], file) for part in parts]
                made = make_shards_of_rows(pipeline, pieces, plan, class_count, str(folder), spilled, decoders)
        gather_facts(*made, plan, str(folder))
    if not (folder / _FACTS).exists():
        raise TransientError(f"nothing can be written to {folder.parent}: it is full, or Beam's workers do not see it")
    found = storage.read_json(folder / _FACTS, "set of shards")
    for failure in found["failures"]:
        raise failures.error_of(Failure(*failure), folder.parent)
    return Made(
        [ShardFacts(**{**fact, "shard": records.Shard(**fact["shard"])}) for fact in found["shards"]],
        [Rejected(*rejected) for rejected in found["rejected"]],
        found["rejected_count"],
        found["taken_over"],
        found["damaged"],
        [Leak(*leak) for leak in found["leaks"]],
    )


def make_whole_shards(
    pipeline: beam.Pipeline,
    shards_of_files: list[tuple[Key, Piece]],
    plan: Plan,
    class_count: int,
    folder: str,
    decoders: int,
) -> tuple[beam.PCollection, beam.PCollection]:
    """Wires the way of image files whose order is known: each shard is made by itself, and nothing is gathered.

    Args:
        pipeline: Where the steps are added.
        shards_of_files: Where the parts of each shard lie in the file of parts.
        plan: How images become examples.
        class_count: Number of classes.
        folder: The folder that is being made.
        decoders: How many processes decode image files for each worker.

    Returns:
        The facts of each shard; those of images.
    """
    made = (
        pipeline
        | "List" >> beam.Create(shards_of_files, reshuffle=True)
        | "Make shards"
        >> beam.ParDo(MakeShards(plan, folder, class_count, decoders)).with_outputs("facts", main="shards")
    )
    return made.shards, made.facts


def make_shards_of_rows(
    pipeline: beam.Pipeline,
    pieces: list[Piece],
    plan: Plan,
    class_count: int,
    folder: str,
    spilled: bool,
    decoders: int,
) -> tuple[beam.PCollection, beam.PCollection]:
    """Wires the way of all else, where an image has to be read to know its shard.

    Args:
        pipeline: Where the steps are added.
        pieces: Where the parts lie in the file of parts.
        plan: How images become examples.
        class_count: Number of classes.
        folder: The folder that is being made.
        spilled: Whether rows wait for their shard in files rather than in the runner.
        decoders: How many processes decode image files for each worker.

    Returns:
        The facts of each shard; those of images.
    """
    made = (
        pipeline
        | "List" >> beam.Create(pieces, reshuffle=True)
        | "Make examples"
        >> beam.ParDo(MakeExamples(plan, folder, spilled, decoders)).with_outputs("facts", main="groups")
    )
    written = (
        made.groups
        | "Gather shards" >> beam.GroupByKey()
        | "Write shards" >> beam.ParDo(WriteShards(plan, folder, class_count))
    )
    return written, made.facts


def gather_facts(written: beam.PCollection, facts: beam.PCollection, plan: Plan, folder: str) -> None:
    """Wires what comes once all shards are written: the search for leaks, and the facts of everything, in a file.

    Args:
        written: The facts of each shard.
        facts: Those of images.
        plan: How images become examples.
        folder: The folder that is being made.
    """
    leaking = (
        written
        | "When all are written" >> beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
        | "List training shards" >> beam.FlatMap(_training_shards, plan.shard_counts["train"])
        | "Spread" >> beam.Reshuffle()
        | "Find leaks" >> beam.FlatMap(_find_leaks, plan, folder)
    )
    (
        (written, facts, leaking)
        | beam.Flatten()
        | "Gather facts" >> beam.CombineGlobally(Gather())
        | "Write facts" >> beam.Map(_write_facts, folder)
    )


def _write_parts(parts: Iterable[Part], file: BinaryIO) -> Piece:
    """Leaves parts where every worker finds them, as what a pipeline is made of has to be small."""
    start = file.tell()
    for part in parts:
        pickle.dump(part, file)
    return start, file.tell() - start


def _read_parts(folder: str, piece: Piece) -> Iterator[Part]:
    offset, size = piece
    with open(Path(folder) / _PARTS, "rb") as file:
        file.seek(offset)
        while file.tell() < offset + size:
            yield pickle.load(file)  # noqa: S301 - written by this stage, in a folder of its own


class MakeExamples(beam.DoFn):
    """Makes examples of parts; yields rows by shard as soon as some have come together, and facts.

    Args:
        plan: How images become examples.
        folder: The folder that is being made.
        spilled: Whether to yield where rows lie rather than rows.
        decoders: How many processes decode image files for this one.
    """

    def __init__(self, plan: Plan, folder: str, spilled: bool, decoders: int) -> None:
        self._plan, self._folder, self._spilled, self._decoders = plan, folder, spilled, decoders

    def start_bundle(self) -> None:
        """Begins with nothing held."""
        self._begun: list[Begun] = []
        self._held: list[Rows] = []
        self._bytes = 0
        self._tally = Tally(self._folder)

    def process(self, piece: Piece) -> Iterator[Any]:
        """Makes examples of one part, and of what was begun before, until others are begun that can wait."""
        if _is_over(self._folder):
            return
        try:
            for part in _read_parts(self._folder, piece):
                for begun in batches.begun_of(part, self._plan):
                    self._begun.append(begun)
                    yield from self._done(self._decoders - 1)
        except failures.EXPECTED as error:
            yield beam.pvalue.TaggedOutput("facts", _noted(error, self._folder))

    def finish_bundle(self) -> Iterator[Any]:
        """Passes on what is left."""
        try:
            for made in itertools.chain(self._done(0), self._passed_on()):
                yield _of_all_time(made)
        except failures.EXPECTED as error:
            yield _of_all_time(beam.pvalue.TaggedOutput("facts", _noted(error, self._folder)))
        self._tally.close()

    def _done(self, left: int) -> Iterator[Any]:
        """What came of all that was begun, but for so many."""
        while len(self._begun) > left:
            begun = examples.first_done(self._begun)
            self._begun.remove(begun)
            for found in begun.found():
                if isinstance(found, Rows):
                    self._tally.add(images=len(found.rows))
                    self._held.append(found)
                    self._bytes += found.rows.nbytes
                else:
                    self._tally.add(set_aside=isinstance(found, Rejected))
                    yield beam.pvalue.TaggedOutput("facts", found)
            if self._bytes >= _HELD_BYTES:
                yield from self._passed_on()

    def _passed_on(self) -> Iterator[tuple[Key, bytes | Spilled]]:
        if self._held:
            groups = rows.by_shard(self._held)
            self._held, self._bytes = [], 0
            if self._spilled:
                yield from rows.spill(groups, Path(self._folder)).items()
            else:
                yield from ((key, rows.as_bytes(pieces)) for key, pieces in groups.items())


def _of_all_time(value: Any) -> Any:
    """As Beam wants what comes at the end of a bundle."""
    if isinstance(value, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(value.tag, _of_all_time(value.value))
    return WindowedValue(value, MIN_TIMESTAMP, (GlobalWindow(),))


class MakeShards(beam.DoFn):
    """Makes whole shards of image files whose order is known; yields the facts of each, and those of images.

    Args:
        plan: How images become examples.
        folder: The folder that is being made.
        class_count: Number of classes.
        decoders: How many processes decode image files for this one.
    """

    def __init__(self, plan: Plan, folder: str, class_count: int, decoders: int) -> None:
        self._plan, self._folder, self._class_count, self._decoders = plan, folder, class_count, decoders

    def setup(self) -> None:
        """Begins to count what it does."""
        self._tally = Tally(self._folder)

    def process(self, shard: tuple[Key, Piece]) -> Iterator[Any]:
        """Makes one shard, written while the images that come next are decoded; none where all are set aside."""
        (split, number), piece = shard
        if _is_over(self._folder):
            return
        plan, name = self._plan, _shard_name(split, number, self._plan.shard_counts[split])
        facts: list[Found] = []
        try:
            blocks = self._blocks(piece, facts)
            if (first := next(blocks, None)) is not None:
                found = itertools.chain([first], blocks)
                yield shards.write_shard(split, name, found, self._folder, self._class_count, plan.image, plan.recipe)
        except failures.EXPECTED as error:
            yield beam.pvalue.TaggedOutput("facts", _noted(error, self._folder))
        for fact in facts:
            yield beam.pvalue.TaggedOutput("facts", fact)
        self._tally.close()

    def _blocks(self, piece: Piece, facts: list[Found]) -> Iterator[np.ndarray]:
        """The rows of a shard, some at a time; what is no row is added to the facts."""
        held, size = [], 0
        for found in batches.in_order(_read_parts(self._folder, piece), self._plan, self._decoders):
            for each in found:
                if isinstance(each, Rows):
                    self._tally.add(images=len(each.rows))
                    held.append(each.rows)
                    size += each.rows.nbytes
                else:
                    self._tally.add(set_aside=isinstance(each, Rejected))
                    facts.append(each)
            if size >= _BLOCK_BYTES:
                yield np.concatenate(held)
                held, size = [], 0
        if held:
            yield np.concatenate(held)


class WriteShards(beam.DoFn):
    """Writes shards of rows; yields the facts of each.

    Args:
        plan: How images become examples.
        folder: The folder that is being made.
        class_count: Number of classes.
    """

    def __init__(self, plan: Plan, folder: str, class_count: int) -> None:
        self._plan, self._folder, self._class_count = plan, folder, class_count

    def start_bundle(self) -> None:
        """Begins with no memory."""
        self._gathering = Gathering()

    def process(self, shard: tuple[Key, Iterable[bytes | Spilled]]) -> Iterator[ShardFacts | Failure]:
        """Writes one shard."""
        (split, number), groups = shard
        if _is_over(self._folder):
            return
        plan, name = self._plan, _shard_name(split, number, self._plan.shard_counts[split])
        try:
            found = self._gathering.gathered(groups, rows.row_type(plan.image))
            blocks = rows.blocks_in_order(found, max(1, _BLOCK_BYTES // found.itemsize))
            yield shards.write_shard(split, name, blocks, self._folder, self._class_count, plan.image, plan.recipe)
        except failures.EXPECTED as error:
            yield _noted(error, self._folder)


def _shard_name(split: str, number: int, count: int) -> str:
    return f"{split}-{number:05d}-of-{count:05d}.tfrecord"


def _training_shards(written: int, count: int) -> list[str]:
    return [_shard_name("train", number, count) for number in range(count)]


def _find_leaks(shard: str, plan: Plan, folder: str) -> Iterator[Leak | Failure]:
    """Looks for images of the held-out shards in a training shard, if it holds any."""
    if _is_over(folder):
        return
    try:
        for train in leaks.read_signed(Path(folder), shard):
            held = _held(folder)
            yield from leaks.verified(held, train, leaks.candidates(held, train), Path(folder), plan.image)
    except failures.EXPECTED as error:
        yield _noted(error, folder)


@functools.lru_cache(maxsize=1)
def _held(folder: str) -> Held:
    return leaks.hold(leaks.read_signed(Path(folder), "test-"))


def _is_over(folder: str) -> bool:
    """Whether nobody needs what a worker would do: another one failed, or whoever waits was ended, and the folder went
    with it, which a worker that some runner keeps at work must not make again.
    """
    return not Path(folder).is_dir() or (Path(folder) / _FAILED).exists()


def _noted(error: BaseException, folder: str) -> Failure:
    """An error as a value. A file says that there is one, so that nobody works for nothing."""
    with contextlib.suppress(OSError):
        (Path(folder) / _FAILED).touch()
    return failure_of(error)


def _write_facts(found: dict[str, Any], folder: str) -> None:
    """Leaves the facts in the folder, because that is what a program and its workers on any runner share."""
    with contextlib.suppress(OSError):  # the absence of the file tells
        storage.write_json(Path(folder) / _FACTS, found)


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
