"""The evaluation artifact: metrics, samples, report, lineage, curves of the training; `verdict.json` comes last."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

from components.core.artifacts import manifest
from components.core.errors import DataError
from components.core.storage import atomic_files
from components.core.storage.json_values import typed

MANIFEST = "verdict.json"
METRICS, SAMPLES, REPORT, LINEAGE = "metrics.json", "samples.png", "report.html", "lineage.json"
TRAINING = "training.json"
# Not part of the digest: they show the training's speed, which varies, and the images and libraries of stages, which
# differ between a container and a process.
_FOR_THE_RECORD = (REPORT, TRAINING, LINEAGE)
PROMOTE, HOLD, REJECT = "PROMOTE", "HOLD", "REJECT"
PASSED, HELD, FAILED = "passed", "held", "failed"  # outcomes of a rule
NO_CHAMPION = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    FILE = MANIFEST
    KIND = "evaluation"
    VERSION = 2
    NOT_IN_DIGEST = ("source",)
    LEFT_OUT_IF_EMPTY = ("samples_digest",)

    verdict: str  # `PROMOTE`, `HOLD` or `REJECT`
    reasons: list[str]  # sentences
    rules: list[dict[str, Any]]  # `rule`, `value`, `low` and `high` (its confidence interval), `limit`, `outcome`
    checkpoint_digest: str  # empty if images of another model were judged
    dataset_digest: str
    embedding_digest: str
    champion_digest: str  # of the champion's model then, or of other images in its place; `NO_CHAMPION` for none
    champion_version: int  # 0 if there was none
    settings: dict[str, Any]  # that decide the result
    files: dict[str, str]  # sha256 of every other file, by name
    uncertified: str = ""  # why the embedding has no certificate, such as `34 test images, 2,000 needed`
    source: str = ""  # location of the images
    samples_digest: str = ""  # of the images of another model, if these were judged

    @property
    def content(self) -> dict[str, Any]:
        """The part of the JSON value that decides the digest: without the informative files."""
        decisive = {name: sha256 for name, sha256 in self.files.items() if name not in _FOR_THE_RECORD}
        return {**super().content, "files": decisive}


def subject(step: int | None) -> str:
    """Return what was judged, in words: a step of a training, or images of another model."""
    return "samples of another model" if step is None else f"step {step:,}"


def distance_ratio(folder: Path) -> float | None:
    """Return the distance of an evaluation divided by that of real images; None if it has none or is damaged."""
    with contextlib.suppress(DataError, OSError, KeyError, TypeError, IndexError, ValueError):
        numbers = atomic_files.read_json(folder / METRICS, "evaluation")
        return float(typed(float, numbers["model"][f"{numbers['distance']}_ratio"], "ratio"))
    return None
