"""`wgan judge`: from a folder of pictures and another of samples to a verdict, by the real command."""

from pathlib import Path

import pytest

from components.core import errors
from tests.inputs.limits import NO_LIMITS
from tests.inputs.sources import write_images
from tests.system.test_end_to_end import states, wgan

pytestmark = pytest.mark.slow


def test_images_of_another_model_are_judged_and_results_are_reused(tmp_path: Path) -> None:
    for number, name in enumerate(("pictures", "samples", "before")):
        write_images(tmp_path / name, 200, classes=(), seed=number)
    limits = [f"--{name}={value}" for name, value in NO_LIMITS.items()]
    words = ["judge", "--source=pictures", "--height=8", "--width=8", "--test-fraction=0.3", *limits]
    cases = [(["--samples=samples"], "PROMOTE"), (["--samples=samples", "--against=before"], "HOLD")]  # no better
    for evaluated, (more, verdict) in enumerate(cases, 1):
        done = wgan(*words, *more, cwd=tmp_path)
        assert done.returncode == errors.OK, done.stderr
        assert states(done) == dict.fromkeys(("preprocess", "embed", "evaluate"), "done")
        assert f"{verdict}: FCD" in done.stdout
        assert (tmp_path / done.stdout.partition("report ")[2].split()[0]).is_file()
        made = [len([*(tmp_path / "runs" / name).iterdir()]) for name in ("datasets", "embeddings", "evaluations")]
        assert made == [1, 1, evaluated]
    assert not (tmp_path / "runs" / "registry").exists()
