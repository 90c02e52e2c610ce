"""The inputs of an evaluation: the artifacts given, and the champion to compare with."""

import dataclasses
import logging
from collections.abc import Mapping

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, models, training_log
from components.core.errors import ConfigError, DataError
from components.core.registry import registry
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location
from components.evaluate.config import EvaluateConfig

log = logging.getLogger(__name__)

_LOOKED_THROUGH = 2048  # records of a split that is not loaded
_BYTES_LOOKED_THROUGH = 1 << 27  # of pixels of these


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedChampion:
    """The published champion, as far as it is readable."""

    digest: str = "unreadable"  # of its model
    version: int = 0  # in the registry; 0 if unreadable
    model: models.Manifest | None = None  # None if unreadable
    problem: str = ""  # why it cannot be read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    checkpoint: checkpoints.Manifest | None  # None if images of another model are judged
    manifest: datasets.Manifest
    embedding: embeddings.Manifest
    champion: PublishedChampion | None  # None if absent
    images: Mapping[str, str]  # digests of the images of other models, by the setting that gives them

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the inputs, by the name of the field in the evaluation's manifest."""
        return {
            "checkpoint_digest": self.checkpoint.digest if self.checkpoint else "",
            "samples_digest": self.images.get("samples", ""),
            "dataset_digest": self.manifest.digest,
            "embedding_digest": self.embedding.digest,
            "champion_digest": self.images.get("against", evaluations.NO_CHAMPION),
            **({"champion_digest": self.champion.digest} if self.champion else {}),
        }

    @property
    def uncertified(self) -> str:
        """Why the embedding has no certificate, such as `34 test images, 2,000 needed`; empty if it has one."""
        if self.embedding.certificate["outcome"] == embeddings.PASSED:
            return ""
        kind = min(("test", "train"), key=lambda split: self.manifest.splits[split].records)
        name = "training" if kind == "train" else kind
        return f"{self.manifest.splits[kind].records:,} {name} images, {embeddings.CERTIFIABLE:,} needed"


def read_inputs(config: EvaluateConfig) -> Inputs:
    """Read the inputs, and refuse those that do not belong together."""
    checkpoint = checkpoints.Manifest.fetch(config.checkpoint, config.checkpoint_digest) if config.checkpoint else None
    manifest = datasets.Manifest.fetch(config.dataset, config.dataset_digest, whole=False)
    embedding = embeddings.Manifest.fetch(config.embedding, config.embedding_digest)
    made_of = {f"checkpoint {config.checkpoint}": checkpoint.dataset_digest} if checkpoint else {}
    made_of[f"embedding {config.embedding}"] = embedding.dataset_digest
    strangers = [
        f"{name} was made of dataset {digest}, but {config.dataset} is {manifest.digest}; give one made of it"
        for name, digest in made_of.items()
        if digest != manifest.digest
    ]
    if strangers:
        raise ConfigError(*strangers)
    _require_certified(config.embedding, embedding)
    champion = read_champion(config.registry) if config.registry else None
    images = {  # of a folder over names and content
        name: digests.digest_of(atomic_files.files_in(path)) if path.is_dir() else digests.sha256_of_file(path)
        for name, path in config.images.items()
    }
    return Inputs(checkpoint=checkpoint, manifest=manifest, embedding=embedding, champion=champion, images=images)


def looked_through(image: datasets.ImageShape) -> int:
    """Return how many records of a split that is not loaded are read for the report, at most."""
    return min(_LOOKED_THROUGH, max(1, _BYTES_LOOKED_THROUGH // image.size))


class LocalFiles:
    """What an evaluation reads, fetched to this machine; the mirror of the training is left alone."""

    def __init__(self, config: EvaluateConfig, inputs: Inputs) -> None:
        from components.evaluate.report import training_folder  # here, so that a finished evaluation is found at once
        from components.evaluate.scoring import samples

        checkpoint, manifest = Location.of(config.checkpoint), inputs.manifest
        self.checkpoint, self.embedding = checkpoint.path, Location.of(config.embedding).path
        # All shards but those of which the report shows nothing.
        shown = manifest.splits["validation"].first_shards(looked_through(manifest.image))
        self.dataset = datasets.fetch(config.dataset, [*manifest.shards("train", "test"), *shown])
        self.images = {
            setting: samples.read(setting, path, manifest, config.sample_count, config.seed)
            for setting, path in config.images.items()
        }
        self.timeline = []
        if inputs.checkpoint:
            sheets = checkpoint.parent / training_log.SAMPLES
            self.timeline = training_folder.timeline(sheets.files(), sheets.content, inputs.checkpoint.step)


def _require_certified(location: str, embedding: embeddings.Manifest) -> None:
    """Raise `DataError` for an embedding that failed its certificate, with the checks that failed."""
    if embedding.certificate["outcome"] == embeddings.FAILED:
        failed = [check["check"] for check in embedding.certificate["checks"] if not check["passed"]]
        is_custom = embedding.custom_embedding_digest
        remedy = "with another custom_embedding" if is_custom else "with more classifier_epochs"
        raise DataError(
            f"embedding {location} failed its certificate and cannot be used to judge: {'; '.join(failed)}; "
            f"make another, {remedy} or of more images"
        )


def read_champion(location: str) -> PublishedChampion | None:
    """Describe the champion; one that cannot be read is returned with its problem."""
    try:
        pointed = registry.read_champion(location)
        if not pointed.version:
            return None
        model = models.Manifest.of(registry.version_location(location, pointed.version))
    except (DataError, OSError) as error:
        return unreadable_champion(location, error)
    return PublishedChampion(digest=pointed.model_digest, version=pointed.version, model=model)


def unreadable_champion(location: str, error: Exception) -> PublishedChampion:
    log.error("evaluate: the champion of %s cannot be read: %s", location, error)
    folder = Location.of(location)
    problem = str(error).replace(folder.uri, "the registry").replace(str(folder.path), "the registry")
    return PublishedChampion(problem=problem)
