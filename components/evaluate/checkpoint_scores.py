"""Score the checkpoints of a training alike.

They are compared on validation images: the test images are for the verdict, and would flatter a checkpoint that was
chosen by them.
"""

import dataclasses
import logging
from collections.abc import Iterator

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.data import dataset_reader
from components.core.errors import DataError
from components.core.metrics import feature_spaces
from components.core.stage import cache_key
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.evaluate.report import scores_table
from components.evaluate.report.scores_table import Comparison, Row
from components.evaluate.scoring import candidates, scores

log = logging.getLogger(__name__)

SPLIT = "validation"
_LOCK = ".scores"


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Scores checkpoints against the validation images of a dataset in the spaces of an embedding."""

    dataset: Location
    manifest: datasets.Manifest
    embedding: Location
    description: embeddings.Description
    sample_count: int
    seed: int  # decides the samples and the real images

    def score_all(self, training: Location) -> list[Row]:
        """Score the checkpoints of a training that have no row in its table yet.

        Each row is added to the table at once. Return the rows of all, by step; log and skip damaged ones.
        """
        comparison = self._comparison()
        found = [
            (folder, description)
            for folder, description in checkpoints.all_whole(training)
            if self._fits(training, folder, description)
        ]
        with atomic_files.only_one(training.path / _LOCK):
            rows = {row.checkpoint_digest: row for row in scores_table.read(training, comparison)}
            missing = [entry for entry in found if entry[1].digest not in rows]
            log.info("evaluate: scoring %d of %d checkpoints of %s", len(missing), len(found), training)
            for row in self._score(comparison, missing):
                scores_table.append(training, row)
                rows[row.checkpoint_digest] = row
        scored = [rows[description.digest] for _, description in found if description.digest in rows]
        if not scored:
            raise DataError(f"there is no checkpoint in {training} that could be scored")
        return scored

    def _comparison(self) -> Comparison:
        splits, spaces = self.manifest.splits, [space.name for space in self.description.spaces]
        return Comparison(
            dataset_digest=self.manifest.digest,
            split=SPLIT,
            compared=scores.image_count(self.sample_count, splits["train"].records, splits[SPLIT].records, SPLIT),
            embedding_digest=self.description.digest,
            samples=self.sample_count,
            seed=self.seed,
            distance=scores.name_of("fcd", spaces[0], spaces),
            code=cache_key.source_digest("evaluate"),
        )

    def _fits(self, training: Location, folder: Location, description: checkpoints.Description) -> bool:
        """Return whether a checkpoint belongs to the training; log one that does not."""
        if description.dataset_digest != self.manifest.digest:
            log.error("skipped: checkpoint %s was made of another dataset than %s", folder, self.dataset)
            return False
        if folder != checkpoints.step_folder(training, description.step):
            log.error("skipped: checkpoint %s is of step %d", folder, description.step)
            return False
        return True

    def _score(self, comparison: Comparison, found: list[tuple[Location, checkpoints.Description]]) -> Iterator[Row]:
        """Yield the row of each checkpoint; log and skip unreadable ones."""
        if not found:
            return
        dataset_reader.fetch(self.dataset, self.manifest, "train", SPLIT)
        train, _ = dataset_reader.load_split(self.dataset, self.manifest, "train")
        held_out, _ = dataset_reader.load_split(self.dataset, self.manifest, SPLIT)
        embedding = feature_spaces.load(self.embedding)
        reference = scores.make_reference(embedding, train, held_out, comparison.compared, self.seed)
        for folder, description in found:
            try:
                generator = candidates.averaged(folder, description)
            except DataError as error:
                log.error("skipped: %s", error)
                continue
            what = f"samples of step {description.step}"
            judged = candidates.score(generator, reference, train, self.manifest, self.sample_count, what)
            yield Row(
                step=description.step,
                checkpoint_digest=description.digest,
                comparison=comparison,
                scores=judged.scores.values,
                settings=description.settings,
            )
