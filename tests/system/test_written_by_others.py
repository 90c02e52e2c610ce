"""Sources that the libraries which define their formats wrote: the images, splits and classes that these read back."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from components.preprocess.formats.survey import read, survey

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-formats" / "bin" / "python"
COUNT = 6


@pytest.mark.skipif(not PYTHON.exists(), reason="no datasets and webdataset: make .venv-formats/installed")
def test_sources_are_read_as_by_the_libraries_that_wrote_them(tmp_path: Path) -> None:
    command = [PYTHON, ROOT / "tests" / "system" / "other_writers.py", tmp_path]
    written = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert len(written) == COUNT
    for name, expected in written.items():
        source = survey(str(tmp_path / name))
        images = []
        for part in source.parts:
            for original in read(part):
                label = source.classes[original.label] if source.classes else ""
                images.append([original.split, hashlib.sha256(original.content).hexdigest(), label])
        assert sorted(images) == expected, name
