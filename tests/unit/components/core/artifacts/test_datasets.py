"""The description of a dataset."""

import dataclasses
from pathlib import Path

import pytest

from components.core.artifacts import datasets
from components.core.errors import DataError
from tests import artifacts


def test_description_survives_writing_and_reading(tiny_dataset: Path) -> None:
    manifest = datasets.Manifest.of(str(tiny_dataset))
    value = artifacts.unsealed(tiny_dataset / datasets.MANIFEST)
    assert manifest.to_json() == value
    assert datasets.Manifest.of(str(tiny_dataset), manifest.digest) == manifest
    assert dataclasses.replace(manifest, classes=["a", "b", "c"]).digest != manifest.digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no dataset at"),
        ("{", "does not describe a dataset"),
        ("[]", "does not describe the dataset"),
        ("3", "does not describe the dataset"),
        ("{}", "does not describe the dataset: KeyError"),
        ('{"schema_version": 99}', "has schema version 99, expected 1"),
        ('{"schema_version": 1, "image": {"height": 3}}', "does not describe the dataset: TypeError"),
    ],
)
def test_what_is_no_description(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / datasets.MANIFEST).write_text(content)
    with pytest.raises(DataError, match=message):
        datasets.Manifest.of(str(tmp_path))
