"""The checkpoints of a training, scored alike and compared with each other, and the best of them.

They are compared on validation images: the test images are the verdict's, and what was chosen by them would seem better
there than it is.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.stage import cache_key
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location
from components.evaluate.judging import contestants
from components.evaluate.report import scores_table
from components.evaluate.report.scores_table import Comparison, Row
from components.evaluate.scoring import scores

log = logging.getLogger(__name__)

SPLIT = "validation"
_LOCK = ".scores"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The best of a training's checkpoints, and the rows of all that it was chosen among, by step."""

    chosen: Row
    rows: list[Row]

    @property
    def digest(self) -> str:
        """sha256 that names the checkpoints that there were."""
        return digests.digest_of([row.checkpoint_digest for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """The JSON value for `metrics.json`."""
        candidates = [
            {"step": row.step, "checkpoint_digest": row.checkpoint_digest, "distance": row.distance}
            for row in self.rows
        ]
        comparison = self.chosen.comparison
        return {"split": comparison.split, "compared": comparison.compared, "candidates": candidates}

    @property
    def reason(self) -> str:
        """Which step was chosen among which, and why, in a sentence."""
        first, last = self.rows[0], self.rows[-1]
        if first is last:
            return f"step {last.step:,} is judged: it is the only checkpoint"
        among = f"of the {len(self.rows)} checkpoints from step {first.step:,} to {last.step:,}"
        distance, others, name = self.chosen.distance, last.distance, self.chosen.comparison.distance
        if distance is None:
            return f"step {last.step:,} is judged as the last {among}, as none has a distance to {SPLIT} images"
        text = (
            f"step {self.chosen.step:,} is judged as the best {among}: its {name} to {SPLIT} images is {distance:.3g}"
        )
        return text if last is self.chosen or others is None else f"{text}, the last's {others:.3g}"


class Scorer:
    """Scores checkpoints against the validation images of a dataset in the spaces of an embedding.

    What they are compared with is made when the first is scored, and kept.

    Args:
        dataset: The dataset's folder.
        manifest: What it says of itself.
        embedding: The embedding's folder.
        description: What it says of itself.
        sample_count: Samples drawn of each checkpoint.
        seed: Decides the samples, and which real images are taken.

    Raises:
        DataError: There are too few validation images.
    """

    def __init__(
        self,
        dataset: Location,
        manifest: datasets.Manifest,
        embedding: Location,
        description: embeddings.Description,
        sample_count: int,
        seed: int,
    ) -> None:
        self._dataset, self._manifest, self._embedding = dataset, manifest, embedding
        splits, spaces = manifest.splits, [space.name for space in description.spaces]
        self.comparison = Comparison(
            dataset_digest=manifest.digest,
            split=SPLIT,
            compared=scores.image_count(sample_count, splits["train"].records, splits[SPLIT].records, SPLIT),
            embedding_digest=description.digest,
            samples=sample_count,
            seed=seed,
            distance=scores.name_of("fcd", spaces[0], spaces),
            code=cache_key.source_digest("evaluate"),
        )

    def score_all(self, training: Location, last_step: int | None = None) -> list[Row]:
        """Scores every checkpoint of a training that its table does not hold yet, and adds it there at once.

        Args:
            training: The folder of its checkpoints.
            last_step: Later checkpoints do not count; all do when None.

        Returns:
            The rows of its checkpoints, by step. What is damaged is reported and passed over.

        Raises:
            DataError: The real images or the embedding are damaged.
        """
        found = [entry for entry in checkpoints.all_whole(training) if self._fits(training, *entry, last_step)]
        with atomic_files.only_one(training.path / _LOCK):
            rows = {row.checkpoint_digest: row for row in scores_table.read(training, self.comparison)}
            missing = [entry for entry in found if entry[1].digest not in rows]
            log.info("evaluate: %d of %d checkpoints of %s are to be scored", len(missing), len(found), training)
            for row in self._score(missing):
                scores_table.append(training, row)
                rows[row.checkpoint_digest] = row
        return [rows[description.digest] for _, description in found if description.digest in rows]

    def choose(self, training: Location, last_step: int) -> Choice:
        """The best of a training's checkpoints up to a step; the last if none has a distance.

        Raises:
            DataError: None could be scored, or as of `score_all`.
        """
        rows = self.score_all(training, last_step)
        if not rows:
            raise DataError(f"there is no checkpoint in {training} that could be scored")
        return Choice(chosen=scores_table.best(rows) or rows[-1], rows=rows)

    def _fits(
        self, training: Location, folder: Location, description: checkpoints.Description, last_step: int | None
    ) -> bool:
        """Whether a checkpoint is one of those to score; a stranger among them is reported."""
        if description.dataset_digest != self.comparison.dataset_digest:
            log.error("passed over: checkpoint %s was made of another dataset than %s", folder, self._dataset)
            return False
        if folder != checkpoints.step_folder(training, description.step):
            log.error("passed over: checkpoint %s is of step %d", folder, description.step)
            return False
        return last_step is None or description.step <= last_step

    @functools.cached_property
    def _real(self) -> tuple[np.ndarray, scores.Reference]:
        """The training images, and what samples are compared with."""
        train, _ = dataset_reader.load_split(self._dataset, self._manifest, "train")
        held_out, _ = dataset_reader.load_split(self._dataset, self._manifest, SPLIT)
        embedding, compared = feature_spaces.load(self._embedding), self.comparison.compared
        return train, scores.make_reference(embedding, train, held_out, compared, self.comparison.seed)

    def _score(self, found: list[tuple[Location, checkpoints.Description]]) -> Iterator[Row]:
        """The row of each checkpoint; one that cannot be read is reported and passed over."""
        if not found:
            return
        train, reference = self._real
        for folder, description in found:
            try:
                generator = contestants.averaged(folder, description)
            except DataError as error:
                log.error("passed over: %s", error)
                continue
            what = f"samples of step {description.step}"
            judged = contestants.score(generator, reference, train, self._manifest, self.comparison.samples, what)
            yield Row(
                step=description.step,
                checkpoint_digest=description.digest,
                comparison=self.comparison,
                scores=judged.scores,
                settings=description.settings,
            )
