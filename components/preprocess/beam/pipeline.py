"""The Beam pipeline: make rows of chunks of the source, group them by shard, write shards, find leaks.

Rows lie in files, and Beam carries where they are. What the driver has to know lies in files as well, beside the rows
and beside the shards. Where both are is a value that each step is given.
"""

import functools
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import apache_beam as beam

from components.core.errors import naming
from components.preprocess import leaks, rows, shards
from components.preprocess.beam import attempt, progress, runners
from components.preprocess.formats.stacks import Stack
from components.preprocess.formats.survey import Part
from components.preprocess.leaks import Held
from components.preprocess.plan import Plan
from components.preprocess.rows import Outcome, Place
from components.preprocess.shards import Made

ROWS_FOLDER = "rows"  # within the attempt's, as every worker sees that one
_PARTS = "parts.pickle"
_CHUNK_IMAGES = 5_000  # seconds of work, so that what a runner costs by element is nothing

Chunk = tuple[int, int]  # offset and bytes of some parts in the file of parts


def make_shards(parts: Iterable[Part], plan: Plan, images: int, folder: Path, beam_options: str) -> Made:
    """Make the shards of a dataset of so many images in a folder that every worker sees."""
    rows_at, row_bytes = folder / ROWS_FOLDER, rows.row_type(plan.image).itemsize
    rows_at.mkdir()
    shard_count = sum(plan.shard_counts.values())
    with (
        progress.shown(rows_at, folder, row_bytes, images, shard_count),
        runners.pipeline(beam_options) as pipeline,
    ):
        chunks = _write_chunks(parts, rows_at / _PARTS)
        wire(pipeline, chunks, plan, str(rows_at), str(folder), runners.decoders(pipeline.options))
    attempt.raise_failure(folder)
    return shards.gather(rows_at, folder, len(chunks), plan)


def wire(
    pipeline: beam.Pipeline, chunks: list[Chunk], plan: Plan, rows_at: str, place: str, decoders: int
) -> beam.PCollection:
    """Add all steps to a pipeline, whose workers see the folder of rows and that of shards."""
    training_shards = [plan.shard_name("train", number) for number in range(plan.shard_counts["train"])]
    made = (
        pipeline
        | "List chunks" >> beam.Create(chunks, reshuffle=True)
        | "Make rows" >> beam.FlatMap(make_rows, plan, rows_at, place, decoders)
        | "Group by shard" >> beam.GroupByKey()
        | "Write shards" >> beam.FlatMap(write_shard, plan, rows_at, place)
    )
    return (
        made
        | "When all are written" >> beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
        | "List training shards" >> beam.FlatMap(lambda _: training_shards)
        | "Spread" >> beam.Reshuffle()
        | "Find leaks" >> beam.FlatMap(find_leaks, place)
    )


def make_rows(chunk: Chunk, plan: Plan, rows_at: str, place: str, decoders: int) -> list[tuple[str, Place]]:
    """Make the rows of a chunk, once: a retry finds in the chunk's index where they are."""
    folder = Path(rows_at)
    index = folder / f"{chunk[0]:012d}{rows.INDEX}"

    def work() -> list[tuple[str, Place]]:
        if not index.exists():
            attempt.write(index, rows.make(_read_parts(chunk, folder / _PARTS), plan, folder, decoders))
        found: Outcome = attempt.read(index)
        return [(shard, place) for shard, places in found.places.items() for place in places]

    return attempt.results(place, work)


def write_shard(shard: tuple[str, Iterable[Place]], plan: Plan, rows_at: str, place: str) -> list[str]:
    """Write a shard; return its name."""
    return attempt.results(place, lambda: [shards.write_shard(*shard, plan, Path(rows_at), Path(place))])


def find_leaks(shard: str, place: str) -> list[str]:
    """Look for images of the held-out shards in a training shard, if it holds any, and leave them beside it."""
    signed = Path(place, f"{shard}{shards.SIGNED}")

    def work() -> list[str]:
        if signed.exists():
            attempt.write(signed.with_suffix(shards.LEAKS), leaks.find(_held(place), attempt.read(signed)))
        return []

    return attempt.results(place, work)


@functools.lru_cache(maxsize=1)
def _held(place: str) -> Held:
    return leaks.hold(map(attempt.read, Path(place).glob(f"test-*{shards.SIGNED}")))


def _write_chunks(parts: Iterable[Part], path: Path) -> list[Chunk]:
    """Write parts to a file that every worker reads, since the pipeline itself has to be small."""
    chunks, start, images = [], 0, 0
    with naming(path), open(path, "wb") as file:
        for part in parts:
            pickle.dump(part, file)
            images += _CHUNK_IMAGES if isinstance(part, Stack) else len(part.images)
            if images >= _CHUNK_IMAGES:
                chunks.append((start, file.tell() - start))
                start, images = file.tell(), 0
        if images:
            chunks.append((start, file.tell() - start))
    return chunks


def _read_parts(chunk: Chunk, path: Path) -> Iterator[Part]:
    offset, size = chunk
    with open(path, "rb") as file:
        file.seek(offset)
        while file.tell() < offset + size:
            yield pickle.load(file)  # noqa: S301 - written by this stage, in a folder of its own
