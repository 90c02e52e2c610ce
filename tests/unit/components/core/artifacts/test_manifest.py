"""One artifact of each kind: bytes and digests never change unless the schema version grows."""

import hashlib
import json
import ntpath
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components.core.artifacts import checkpoints, datasets, lineage, models, recipes
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.registry import registry
from components.core.storage import location
from tests.inputs import artifacts

_IMAGES = np.arange(2 * 8 * 8, dtype=np.uint8).reshape(2, 8, 8, 1)


def _dataset(folder: Path) -> Manifest:
    return artifacts.write_dataset(folder, {"train": (_IMAGES, [0, 1])}, artifacts.CLASSES)


def _checkpoint(folder: Path) -> Manifest:
    state = {"average/kernel": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), "step": np.array(7)}
    return checkpoints.save(folder, artifacts.checkpoint(7), state)


def _embedding(folder: Path) -> Manifest:
    description = artifacts.embedding()
    description.write(folder)
    return description


def _evaluation(folder: Path) -> Manifest:
    origin = artifacts.origin(artifacts.dataset(), artifacts.checkpoint(7).to_json())
    return artifacts.write_evaluation(folder, origin)


def _model(folder: Path) -> Manifest:
    origin = artifacts.origin(artifacts.dataset(), artifacts.checkpoint(7).to_json())
    return artifacts.write_model(folder, origin, {"saved_model.pb": b"graph"})


@pytest.mark.parametrize(
    ("make", "digest", "content"),
    [
        (
            _dataset,
            "10a4cc19e2a7a1b728dc8dee2b1d272138fa6591995a2916981788e99096c2b8",
            "f43a4c0f4cd1334b2c73d4141ea85ed8b51ddc788e006003a447e2e5dda8a32d",
        ),
        (
            _checkpoint,
            "a316916c18420ba27fda85bc6b1043ecef4bc7257c1db6a1934b71872eba8214",
            "8d03665c75158dd51f6a31f00e71880ffac8ccc4578da9154730c233261b3658",
        ),
        (
            _embedding,
            "fe5819528af500c79b36b13b7c53e74914ac9ffbd380fccd8f90ce7920684fe4",
            "c6af615f5c815c4e8f2f58581713b0048df8412631128619975b771436c6d406",
        ),
        (
            _evaluation,
            "35865f8b1f97d5103fc1a86ad6044c2a30ac8ffdc5419059133d13a537aaf51b",
            "25de69a6f25cab906713091298a7d37f405d989f4ac9baa89c924211f4c669fb",
        ),
        (
            _model,
            "3503236cc970630e9f3b71682980a9281f7ce419f31c77da64ac0c66485c37e5",
            "6b765f0302ac2dde432f6e3e4a15acd456f41ad5dc6c6207173b0ed45f999aff",
        ),
    ],
)
def test_the_bytes_and_the_digest_of_an_artifact_stay(
    make: Callable[[Path], Manifest],
    digest: str,
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lineage, "made_with", lambda stage: {})
    description = make(tmp_path)
    assert (description.digest, _sha256_of_all(tmp_path)) == (digest, content)


def test_the_bytes_of_a_registry_stay(tmp_path: Path) -> None:
    champion = registry.Champion(
        version=2, model_digest="a" * 64, checkpoint_digest="b" * 64, evaluation_digest="c" * 64, previous=(1,)
    )
    champion.write(tmp_path)
    recipe = recipes.Recipe(
        source_fingerprint="f" * 64,
        custom_embedding_digest="",
        settings={"steps": "2"},
        code={"train": "e" * 64},
        checkpoint_uri="checkpoints/7",
    )
    recipe.write(tmp_path)
    assert _sha256_of_all(tmp_path) == "b92637e50fd8b1a75e18ffd26a769aa698124fa641f73d2b71698894e1feaa30"


# Descriptions that list one file.
LISTS: dict[str, Callable[[str], Manifest]] = {
    "model": lambda name: models.Description(files={name: {"bytes": 0, "sha256": ""}}, **MODEL),
    "evaluation": lambda name: artifacts.evaluation(files={name: ""}),
    "embedding": lambda name: artifacts.embedding(files={name: ""}),
    "dataset": lambda name: artifacts.dataset(
        splits=dict.fromkeys(datasets.SPLITS, datasets.Split(0, [], [datasets.Shard(name, 0, 0, "")]))
    ),
    "quarantine": lambda name: artifacts.dataset(quarantine={"list": {"file": name, "bytes": 0, "sha256": ""}}),
}
MODEL: dict[str, Any] = {
    **dict.fromkeys(("checkpoint_digest", "dataset_digest"), ""),
    **{"step": 1, "image": artifacts.SHAPE, "latent_size": 1, "classes": []},
}
PARTS = st.sampled_from(
    ["", ".", "..", "a", "...", "C:", "c:a", "é b", "\\", "..\\", "a\\b", "\0", ".hidden"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@pytest.mark.parametrize("kind", [*LISTS, "committed.json"])
@given(st.lists(PARTS, max_size=4).map("/".join))
@example("../evil.sh")
@example("/etc/passwd")
def test_a_listed_file_is_within_the_folder_on_any_system_or_refused(kind: str, name: str) -> None:
    parts, accepted = name.split("/"), _is_accepted(kind, name)
    if accepted:
        assert _is_within(posixpath, "/runs/model", name)
        assert _is_within(ntpath, "C:\\runs\\model", name)
    assert accepted or any(part in ("", ".", "..") or set(part) & set("\\:\0") for part in parts)


def _is_accepted(kind: str, name: str) -> bool:
    try:
        if kind == "committed.json":
            files = {name: {"bytes": 0, "sha256": "", "crc32c": ""}}
            value = {"schema_version": location.SCHEMA_VERSION, "folder": "x", "files": files}
            location._read_committed("gs://b/a", json.dumps(value).encode())
        else:
            described = LISTS[kind](name)
            type(described).from_json(described.to_json(), "there")
    except DataError:
        return False
    return True


def _is_within(system: Any, folder: str, name: str) -> bool:
    return "\0" not in name and system.normpath(system.join(folder, name)).startswith(folder + system.sep)


def _sha256_of_all(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
