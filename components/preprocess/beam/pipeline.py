"""The Beam pipeline: make rows of chunks of the source, group them by shard, write shards, find leaks.

Rows are in files, and Beam carries only their `FilePart`s. Facts for the driver are in files too, beside the rows and
the shards. Each step is given both folders: folders that all workers see, or folders of a bucket.
"""

import functools
import itertools
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam

from components.preprocess import attempt_files, leaks, rows, shards
from components.preprocess.attempt_files import AttemptFiles, FilePart
from components.preprocess.beam import progress, runners
from components.preprocess.decode import pool
from components.preprocess.formats.stacks import Stack
from components.preprocess.formats.survey import Part
from components.preprocess.leaks import ReferenceSet
from components.preprocess.placement import Plan
from components.preprocess.rows import Outcome
from components.preprocess.shards import BuildResult

_CHUNK_IMAGES = 5_000  # seconds of work, so that a runner's cost per element does not matter


def make_shards(
    parts: Iterable[Part], plan: Plan, images: int, rows_at: AttemptFiles, files: AttemptFiles, beam_options: str
) -> BuildResult:
    """Make the shards of a dataset of so many images. All workers reach its files and those of rows."""
    row_bytes = rows.row_type(plan.image).itemsize
    shard_count = sum(plan.shard_counts.values())
    with progress.shown(rows_at, files, row_bytes, images, shard_count), runners.pipeline(beam_options) as pipeline:
        chunks = _write_chunks(parts, rows_at)
        # A runner that can start more workers gives each of them one process that decodes image files.
        decoders = pool.wanted() if runners.is_in_process(pipeline.options) else 1
        training_shards = [name for name in plan.shard_names if name.startswith("train-")]
        (
            pipeline
            | "List chunks" >> beam.Create(chunks, reshuffle=True)
            | "Make rows" >> beam.FlatMap(make_rows, plan, str(rows_at), str(files), decoders)
            | "Group by shard" >> beam.GroupByKey()
            | "Write shards" >> beam.FlatMap(write_shard, plan, str(rows_at), str(files))
            | "When all are written" >> beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
            | "List training shards" >> beam.FlatMap(_training_shards, training_shards)
            | "Spread" >> beam.Reshuffle()
            | "Find leaks" >> beam.FlatMap(find_leaks, str(files))
        )
    attempt_files.raise_failure(files)
    return shards.gather(rows_at, files, len(chunks), plan)


def make_rows(chunk: str, plan: Plan, rows_at: str, location: str, decoders: int) -> list[tuple[str, FilePart]]:
    """Make the rows of a chunk, once: a retry finds their `FilePart`s in the chunk's index."""
    index = f"{Path(chunk).stem}{rows.INDEX}"

    def work(files: AttemptFiles) -> list[tuple[str, FilePart]]:
        # `files` itself if all are in one folder, so that it knows what was written.
        row_files = files if rows_at == location else AttemptFiles(rows_at)
        if not row_files.exists(index):
            lines = row_files.read(chunk).splitlines()
            parts = (attempt_files.from_json(Part, line, f"{row_files}/{chunk}") for line in lines)
            outcome = rows.make(parts, plan, row_files, decoders)
            row_files.leave(index, outcome)
        else:
            outcome = row_files.read_note(index, Outcome)
        return outcome.file_parts

    return attempt_files.results(location, work)


def write_shard(shard: tuple[str, Iterable[FilePart]], plan: Plan, rows_at: str, location: str) -> list[str]:
    """Write a shard; return its name."""
    name, file_parts = shard

    def work(files: AttemptFiles) -> list[str]:
        shards.write_shard(name, file_parts, plan, AttemptFiles(rows_at), files)
        return [name]

    return attempt_files.results(location, work)


def find_leaks(shard: str, location: str) -> list[str]:
    """Look for images of the held-out shards in a training shard, if it holds any, and write the leaks beside it."""

    def work(files: AttemptFiles) -> list[str]:
        signed = f"{shard}{shards.SIGNED}"
        if files.exists(signed):
            pairs = leaks.find(_reference_set(location), shard, files.read_array(signed, leaks.SIGNATURE))
            files.leave(f"{shard}{shards.LEAKS}", pairs)
        return []

    return attempt_files.results(location, work)


def _training_shards(_: int, names: list[str]) -> list[str]:  # no lambda: its pickle has a path of this machine
    return names


@functools.lru_cache(maxsize=1)
def _reference_set(location: str) -> ReferenceSet:
    files = AttemptFiles(location)
    names = [name for name in files.sizes() if name.startswith("test-") and name.endswith(shards.SIGNED)]
    return leaks.hold({name.removesuffix(shards.SIGNED): files.read_array(name, leaks.SIGNATURE) for name in names})


def _write_chunks(parts: Iterable[Part], files: AttemptFiles) -> list[str]:
    """Write each chunk to a file that every worker reads, because the pipeline itself must be small; return names."""
    names, lines, images = list[str](), list[bytes](), 0
    for part in itertools.chain(parts, [None]):  # None at the end
        if part is not None:
            lines.append(attempt_files.to_json({type(part).__name__: part}))
            images += _CHUNK_IMAGES if isinstance(part, Stack) else len(part.images)
        if images >= _CHUNK_IMAGES or (images and part is None):
            names.append(f"parts-{len(names):06d}.jsonl")
            files.write(names[-1], [b"\n".join(lines)])
            lines, images = [], 0
    return names
