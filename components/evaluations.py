"""The evaluation artefact: metrics, samples, report, lineage, curves of the training; `verdict.json` comes last."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from components.manifest import Manifest

MANIFEST = "verdict.json"
METRICS, SAMPLES, REPORT, LINEAGE = "metrics.json", "samples.png", "report.html", "lineage.json"
TRAINING = "training.json"
# They tell how fast a training was, which is never the same twice, and in which image with which libraries each stage
# ran, which differs between a container and a process that make the same.
_FOR_THE_RECORD = (REPORT, TRAINING, LINEAGE)
PROMOTE, HOLD, REJECT = "PROMOTE", "HOLD", "REJECT"
PASSED, HELD, FAILED = "passed", "held", "failed"  # outcomes of a rule
NO_CHAMPION = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description(Manifest):
    """What `verdict.json` says.

    Attributes:
        verdict: `PROMOTE`, `HOLD` or `REJECT`.
        reasons: Why, in sentences.
        rules: Every rule with `rule`, `value`, `low` and `high` (its confidence interval), `limit` and `outcome`.
        checkpoint_digest: The checkpoint that was judged.
        dataset_digest: The dataset that its samples were compared with.
        embedding_digest: The space in which they were compared.
        champion_digest: Digest of the model that was champion then; `NO_CHAMPION` if there was none.
        champion_version: Its version in the registry; 0 if there was none.
        settings: The settings that decide the result.
        files: sha256 of every other file of the artefact, by name.
        uncertified: Why the feature space has no certificate, such as `34 test images, 2,000 needed`; empty if it has.
        candidates_digest: Names the checkpoints of which that one was the best; empty if the last was judged, and not
            written.
        source: Where the images lay, as it was given when the dataset was made; empty if that is not known. For the
            record; not part of the digest.
    """

    FILE = MANIFEST
    WHAT = "evaluation"
    VERSION = 2
    NOT_IN_DIGEST = ("source",)
    LEFT_OUT_IF_EMPTY = ("candidates_digest",)

    verdict: str
    reasons: list[str]
    rules: list[dict[str, Any]]
    checkpoint_digest: str
    dataset_digest: str
    embedding_digest: str
    champion_digest: str
    champion_version: int
    settings: dict[str, Any]
    files: dict[str, str]
    uncertified: str = ""
    candidates_digest: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        _ = follows(rule["outcome"] for rule in self.rules)

    @property
    def content(self) -> dict[str, Any]:
        """The JSON value of what decides the digest, without the files that only show how it came to be."""
        decisive = {name: sha256 for name, sha256 in self.files.items() if name not in _FOR_THE_RECORD}
        return {**super().content, "files": decisive}

    @property
    def listed(self) -> dict[str, str]:
        """sha256 of every other file."""
        return self.files

    @property
    def identity(self) -> dict[str, Any]:
        """What the evaluation was made of: its settings and the digests of its inputs."""
        return {
            **self.settings,
            "checkpoint_digest": self.checkpoint_digest,
            "dataset_digest": self.dataset_digest,
            "embedding_digest": self.embedding_digest,
            "champion_digest": self.champion_digest,
            **({"candidates_digest": self.candidates_digest} if self.candidates_digest else {}),
        }


def follows(outcomes: Iterable[str]) -> str:
    """The verdict that follows from the outcomes of the rules; an outcome of no known name is a failure."""
    found = set(outcomes)
    if not found <= {PASSED, HELD}:
        return REJECT
    return HOLD if HELD in found else PROMOTE


def distance_name(numbers: dict[str, Any]) -> str:
    """Name of the Fréchet distance in the first space among the scores of a `metrics.json`.

    With `_ratio` behind it, it names that distance in multiples of real against real.

    Raises:
        KeyError: It names no scores.
    """
    # Where it is from before there was such a field, the distance is the first of its scores.
    return numbers["distance"] if "distance" in numbers else numbers["names"][0][0]
