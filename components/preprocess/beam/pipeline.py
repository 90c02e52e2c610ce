"""The Beam pipeline: make rows of chunks of the source, group them by shard, write shards, find leaks.

Rows are in files of the attempt, and Beam carries only their `FilePart`s. Facts for the driver are in files too.
"""

import itertools
from collections.abc import Iterable

import apache_beam as beam

from components.preprocess import rows, shards
from components.preprocess.attempt_files import AttemptFiles, FilePart, raise_failure, results
from components.preprocess.beam import progress, runners
from components.preprocess.decode import pool
from components.preprocess.formats.stacks import Stack
from components.preprocess.formats.survey import Part
from components.preprocess.placement import Plan
from components.preprocess.shards import BuildResult

_CHUNK_IMAGES = 5_000  # seconds of work, so that a runner's cost per element does not matter


def make_shards(parts: Iterable[Part], plan: Plan, images: int, files: AttemptFiles, beam_options: str) -> BuildResult:
    """Make the shards of a dataset of so many images. All workers reach its files."""
    with progress.shown(files, plan, images), runners.pipeline(beam_options) as pipeline:
        chunks = _write_chunks(parts, files)
        # A runner that can start more workers gives each of them one process that decodes image files.
        decoders = pool.wanted() if runners.is_in_process(pipeline.options) else 1
        make_rows = beam.FlatMap(results, rows.make, str(files), plan, decoders)
        (
            pipeline
            | "List chunks" >> beam.Create(chunks, reshuffle=True)
            | "Make rows" >> make_rows.with_output_types(tuple[str, FilePart])
            | "Group by shard" >> beam.GroupByKey()
            | "Write shards" >> beam.FlatMap(results, shards.write, str(files), plan)
            | "When all are written" >> beam.CombineGlobally(beam.combiners.ToListCombineFn()).without_defaults()
            | "List shards" >> beam.FlatMap()
            | "Spread" >> beam.Reshuffle()
            | "Find leaks" >> beam.FlatMap(results, shards.find_leaks, str(files))
        )
    raise_failure(files)
    return shards.gather(files, len(chunks))


def _write_chunks(parts: Iterable[Part], files: AttemptFiles) -> list[str]:
    """Write each chunk to a file that every worker reads, because the pipeline itself must be small; return names."""
    names, chunk, images = list[str](), list[dict[str, Part]](), 0
    for part in itertools.chain(parts, [None]):  # None at the end
        if part is not None:
            chunk.append({type(part).__name__: part})
            images += _CHUNK_IMAGES if isinstance(part, Stack) else len(part.images)
        if images >= _CHUNK_IMAGES or (images and part is None):
            names.append(f"parts-{len(names):06d}.json")
            files.leave(names[-1], chunk)
            chunk, images = [], 0
    return names
