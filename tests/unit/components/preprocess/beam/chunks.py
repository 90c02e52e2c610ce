"""The digits as one chunk, made and written step by step."""

from pathlib import Path

from components.core.artifacts.datasets import ImageShape
from components.preprocess import attempt_files
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.beam import pipeline
from components.preprocess.formats import survey
from components.preprocess.placement import Plan
from components.preprocess.rows import FilePart
from tests.inputs.sources import plan

DIGITS: Plan = plan(
    stored=ImageShape(8, 8, 1),
    image=ImageShape(8, 8, 1),
    made_splits={"test": 0.2, "validation": 0.1},
    shard_counts={"train": 3, "validation": 1, "test": 1},
    class_count=10,
)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}


def chunks_of_digits(folder: Path) -> tuple[list[pipeline.Chunk], str, str]:
    """The chunk of the digits, the folder of rows, that of shards."""
    (folder / "rows").mkdir(parents=True)
    attempt_files.begin(str(folder))
    rows_at = AttemptFiles(str(folder / "rows"))
    return pipeline._write_chunks([survey.DIGITS], rows_at), str(rows_at), str(folder)


def write_all(parts: list[tuple[str, FilePart]], rows_at: str, location: str) -> list[str]:
    groups: dict[str, list[FilePart]] = {}
    for shard, part in parts:
        groups.setdefault(shard, []).append(part)
    return [name for group in groups.items() for name in pipeline.write_shard(group, DIGITS, rows_at, location)]


def forget_facts(folder: Path) -> None:
    """As of workers that died before they wrote them."""
    for path in folder.glob("*.facts"):
        path.unlink()
