"""One artifact of each kind: bytes and digests never change unless the schema version grows."""

import hashlib
import json
import ntpath
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components.core.artifacts import checkpoints, datasets, lineage, models, recipes
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.registry import registry
from components.core.stage import provenance
from components.core.storage import buckets, location
from tests.inputs import artifacts

_IMAGES = np.arange(2 * 8 * 8, dtype=np.uint8).reshape(2, 8, 8, 1)


def _checkpoint(folder: Path) -> Manifest:
    state = {"average/kernel": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), "step": np.array(7)}
    return checkpoints.save(folder, artifacts.checkpoint(7), state)


def _embedding(folder: Path) -> Manifest:
    manifest = artifacts.embedding()
    manifest.write(folder)
    return manifest


def _origin() -> lineage.Lineage:
    return artifacts.origin(artifacts.dataset(), artifacts.checkpoint(7).to_json())


@pytest.mark.parametrize(
    ("make", "digest", "content"),
    [
        (
            lambda folder: artifacts.write_dataset(folder, {"train": (_IMAGES, [0, 1])}, artifacts.CLASSES),
            "7396287452d0339ccf6db4dd15670ab03c99693066caa20fdbe7979be2e3fdc2",
            "ee305c5e67c7dc461ebca7974e42171cd03b3fd77c787e492066e2667a9284f0",
        ),
        (
            _checkpoint,
            "a316916c18420ba27fda85bc6b1043ecef4bc7257c1db6a1934b71872eba8214",
            "8d03665c75158dd51f6a31f00e71880ffac8ccc4578da9154730c233261b3658",
        ),
        (
            _embedding,
            "e26b77bfa99f3c59eb92162a52a8c2e32cea624570bf78c4a82b21c93d64fe41",
            "4adc4e47790138f4dfcaf3c24e161ca433f918dc4647630ecfd3e843ee279c34",
        ),
        (
            lambda folder: artifacts.write_evaluation(folder, _origin()),
            "cf1f5d12de2c617aca105f6717f309fa4212227daeedbed87fd8a75a4857a31c",
            "f217e6a57261fb469942c24ab92e12e3fbfa29b20dce489290bfd661a936e49f",
        ),
        (
            lambda folder: artifacts.write_model(folder, _origin(), {"saved_model.pb": b"graph"}),
            "cea94c24f5dd080b3ebd0d5a52c25f41e3fa1bf4c240bd7dd32d990cbd5b25c8",
            "76529c887905b88ae3c7580192c3bc4a9401b1a6d8050b023228e0c91555bdd4",
        ),
    ],
)
def test_the_bytes_and_the_digest_of_an_artifact_stay(
    make: Callable[[Path], Manifest], digest: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "made_with", lambda stage: {})
    manifest = make(tmp_path)
    assert (manifest.digest, _sha256_of_all(tmp_path)) == (digest, content)


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
    "model": lambda name: models.Manifest(files={name: {"bytes": 0, "sha256": ""}}, **MODEL),
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
            with mock.patch.object(buckets, "read", return_value=(json.dumps(value).encode(), None)):
                location.Location("gs://b/a", Path()).committed()
        else:
            manifest = LISTS[kind](name)
            type(manifest).from_json(manifest.to_json(), "there")
    except DataError:
        return False
    return True


def _is_within(system: Any, folder: str, name: str) -> bool:
    return "\0" not in name and system.normpath(system.join(folder, name)).startswith(folder + system.sep)


def _sha256_of_all(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
