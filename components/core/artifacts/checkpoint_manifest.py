"""The manifest of a checkpoint, without NumPy, for programs that read no state."""

import dataclasses
from typing import Any

from components.core.artifacts import manifest

MANIFEST = "checkpoint.json"
STATE = "state.npz"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest(manifest.Manifest):
    FILE = MANIFEST
    KIND = "checkpoint"
    VERSION = 1
    LEFT_OUT_IF_EMPTY = ("class_counts",)

    step: int  # generator updates done
    network: dict[str, Any]  # a `gan.NetworkConfig`
    settings: dict[str, Any]  # that decide the result
    classes: list[str]
    dataset_digest: str
    state_sha256: str
    made_with: dict[str, Any]  # code, image, libraries, hardware, and settings that decide no weight
    class_counts: list[int] = dataclasses.field(default_factory=list)  # of training images; empty if unconditional

    @property
    def conditioning(self) -> str:
        """`class`, `cluster` or `none`: what the networks distinguish. Fixed features stand for clusters alone."""
        if not self.network.get("classes"):
            return "none"
        return "cluster" if self.network.get("label_features") else "class"

    @property
    def listed(self) -> dict[str, str]:
        return {STATE: self.state_sha256}
