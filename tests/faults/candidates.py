"""Models with evaluations for publication: real manifests around a few bytes, which TensorFlow cannot load."""

import dataclasses
from pathlib import Path

from components.core.artifacts import evaluations
from components.core.errors import StageError
from components.core.stage.executor import StageResult
from components.publish import run as publish
from components.publish.config import PublishConfig
from tests.inputs import artifacts

Outcome = int | StageError


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model and the evaluation that promotes it, as folders, and the model's digest."""

    model: str | Path
    evaluation: str | Path
    digest: str = ""

    def publish(self, location: str | Path) -> StageResult:
        return publish.run(
            PublishConfig(model=str(self.model), evaluation=str(self.evaluation), registry=str(location))
        )

    def outcome(self, location: str | Path) -> Outcome:
        """Publish it; return the version, or the failure."""
        try:
            return int(self.publish(location).parameters["version"])
        except StageError as error:
            return error


def at(folder: Path, digest: str = "") -> Candidate:
    """Return the candidate that `candidate` made in a folder."""
    return Candidate(folder / "model", folder / "evaluation", digest)


def candidate(
    folder: Path, step: int, rival: tuple[str, int] = (evaluations.NO_CHAMPION, 0), size: int = 0
) -> Candidate:
    """Make a model of `size` bytes or more, and an evaluation that promotes it over `rival`, a digest and version."""
    dataset = artifacts.dataset()
    trained = {
        "step": step,
        "classes": dataset.classes,
        "dataset_digest": dataset.digest,
        "settings": {"steps": 300, "batch_size": 64},
    }
    origin = artifacts.origin(dataset, trained)
    names = ("saved_model.pb", "fingerprint.pb", "variables/variables.index", "variables/variables.data", "assets/a")
    files = {name: f"{name} of {step}".encode() for name in names}
    files["saved_model.pb"] += bytes(size)
    model = artifacts.write_model(folder / "model", origin, files)
    artifacts.write_evaluation(folder / "evaluation", origin, rival)
    return at(folder, model.digest)


def prepare(folder: Path, count: int, published: int) -> None:
    """Make candidates in `folder/1`, `folder/2`, ..., each compared with the one before, and publish the first ones."""
    rival = (evaluations.NO_CHAMPION, 0)
    for number in range(1, count + 1):
        contender = candidate(folder / str(number), number, rival)
        if number <= published:
            contender.publish(folder / "registry")
        rival = contender.digest, number
