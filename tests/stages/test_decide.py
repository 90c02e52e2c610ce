"""When a run continues and when it is skipped; where a training starts, on real registries; what the source holds."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from components.core.artifacts import checkpoints, models
from components.core.artifacts.recipes import Recipe
from components.core.errors import ConfigError, DataError
from components.core.registry import registry
from components.core.sources import source_listing
from components.core.stage import inputs
from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location
from components.decide import run as decide
from components.decide.config import DecideConfig
from components.publish import run as publish
from components.publish.config import PublishConfig
from pipeline.registry import upkeep
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts
from tests.inputs.stages import make_evaluation, make_model

SETTINGS = "steps=20\ncritic_learning_rate=0.0001"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("judged")
    model = make_model(folder / "model", 0)
    return model, make_evaluation(folder / "evaluation", model)


@pytest.fixture
def location(tmp_path: Path, judged: tuple[Path, Path]) -> Path:
    """A registry with one version, of the recipe of `config`."""
    checkpoint = tmp_path / "checkpoints" / "step-0000000020"
    atomic_files.write_file(checkpoint / checkpoints.MANIFEST, b"{}")
    published(judged, tmp_path / "registry", checkpoint)
    return tmp_path / "registry"


def published(judged: tuple[Path, Path], registry: Path | str, checkpoint: Path | str) -> None:
    """Publish in a registry with the recipe of `config`."""
    recipe = str(decide.run(config(registry)).parameters["recipe"])
    inputs = {"model": judged[0], "evaluation": judged[1], "registry": registry, "checkpoint": checkpoint}
    publish.run(PublishConfig(recipe=recipe, **{name: str(value) for name, value in inputs.items()}))


def config(folder: Path | str, **changes: str) -> DecideConfig:
    return DecideConfig(**{"source": "digits", "registry": str(folder), "settings": SETTINGS, **changes})


def decided(folder: Path | str, **changes: str) -> tuple[str, str]:
    parameters = decide.run(config(folder, **changes)).parameters
    return str(parameters["decision"]), str(parameters["summary"]).partition("; the source holds ")[0]


def test_without_a_champion_it_runs_and_says_what_the_source_holds(tmp_path: Path) -> None:
    parameters = decide.run(config(tmp_path / "none", start_from="champion")).parameters
    names = ("decision", "initial_checkpoint", "initial_checkpoint_digest", "custom_embedding_digest")
    assert [parameters[name] for name in names] == ["RUN", "", "", ""]
    assert parameters["source_fingerprint"] == source_listing.contents("digits").fingerprint
    assert str(parameters["summary"]).endswith(" 1,797 digits of scikit-learn")


def test_a_root_that_cannot_be_written_is_refused_unless_the_run_is_skipped(location: Path) -> None:
    with mock.patch.object(Location, "require_writable", side_effect=OSError("no space for a file")):
        assert decided(location)[0] == "SKIP"
        with pytest.raises(OSError, match="no space"):
            decided(location, refresh="yes")


def test_the_same_recipe_is_skipped_unless_a_refresh_is_asked_for(location: Path) -> None:
    decision, why = decided(location)
    assert (decision, "version 1" in why) == ("SKIP", True)
    assert decided(location, settings="critic_learning_rate=1e-4\nsteps=20.0")[0] == "SKIP"
    decision, why = decided(location, refresh="yes")
    assert (decision, "refresh" in why) == ("RUN", True)


@pytest.mark.parametrize(
    ("changes", "logged"),
    [
        ({"source": "pets"}, "the source changed (a684d5bf -> 37e11eee)"),
        ({"custom_embedding": "embedding"}, "custom_embedding changed"),
        ({"settings": "steps=30\nnovel=1"}, "critic_learning_rate: 0.0001 -> none; novel: none -> 1; steps: 20 -> 30"),
    ],
)
def test_what_is_new_is_reported(
    location: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], logged: str
) -> None:
    for path in ("pets/1.png", f"embedding/{inputs.GRAPH}"):
        atomic_files.write_file(tmp_path / path, b"x")
    monkeypatch.chdir(tmp_path)
    assert decided(location, **changes) == ("RUN", f"runs: since version 1, {logged}")


def test_other_code_is_new_and_a_version_without_a_recipe_is_no_reason_to_skip(location: Path) -> None:
    published = registry.read_recipe(location, 1)
    assert published is not None
    version = registry.version_location(location, 1).path
    manifest = version / models.MANIFEST
    artifacts.seal(manifest, artifacts.unsealed(manifest), recipe_sha256="")
    dataclasses.replace(published, code={**published.code, "train": "0" * 64}).write(version)
    assert decided(location) == ("RUN", "runs: since version 1, the code of train changed")
    (version / Recipe.FILE).unlink()
    assert decided(location)[0] == "RUN"
    with pytest.raises(ConfigError, match=r"version 1 .* start_from scratch"):
        decide.run(config(location, start_from="champion"))


def test_a_recipe_that_is_changed_or_lost_is_damage(location: Path) -> None:
    path = registry.version_location(location, 1).path / Recipe.FILE
    artifacts.seal(path, artifacts.unsealed(path), settings={})
    for _ in range(2):
        for refused in (lambda: decide.run(config(location)), lambda: upkeep.verify(str(location), None)):
            with pytest.raises(DataError, match=r"is damaged: recipe\.json"):
                refused()
        path.unlink(missing_ok=True)


def test_a_training_starts_from_the_champions_checkpoint_also_under_a_moved_root(location: Path) -> None:
    root = location.parent / "moved"
    root.mkdir()
    for name in ("registry", "checkpoints"):
        location.with_name(name).rename(root / name)
    location = root / "registry"
    parameters = decide.run(config(location, start_from="champion", source="fashion-mnist")).parameters
    checkpoint = root / "checkpoints" / "step-0000000020"
    assert parameters["initial_checkpoint"] == str(checkpoint)
    champion = registry.read_champion(location)
    assert parameters["initial_checkpoint_digest"] == champion.checkpoint_digest
    assert "starts from version 1; " in str(parameters["summary"])
    # A skipped run trains nothing.
    assert decide.run(config(location, start_from="champion")).parameters["initial_checkpoint"] == ""

    (checkpoint / checkpoints.MANIFEST).unlink()
    with pytest.raises(ConfigError, match=f"version 1 is gone from {checkpoint}; "):
        decide.run(config(location, start_from="champion", source="fashion-mnist"))


def test_a_version_that_was_published_without_its_checkpoint_starts_no_training(
    judged: tuple[Path, Path], tmp_path: Path
) -> None:
    published(judged, tmp_path / "registry", "")
    with pytest.raises(ConfigError, match="version 1 has no recorded checkpoint; give start_from scratch"):
        decide.run(config(tmp_path / "registry", start_from="champion", refresh="yes"))


def test_a_registry_and_a_checkpoint_in_a_bucket(judged: tuple[Path, Path], bucket: Server) -> None:
    location, checkpoint = "gs://b/runs/registry", "gs://b/runs/checkpoints/step-0000000020"
    assert decided(location)[0] == "RUN"
    published(judged, location, checkpoint)
    assert decided(location)[0] == "SKIP"
    asked = config(location, start_from="champion", refresh="yes")
    with pytest.raises(ConfigError, match=f"version 1 is gone from {checkpoint}; "):
        decide.run(asked)
    buckets.create(f"{checkpoint}/{checkpoints.MANIFEST}", b"{}")
    assert decide.run(asked).parameters["initial_checkpoint"] == checkpoint


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"an image")
    text = (
        "import sys; from components.decide.run import run; from components.decide.config import *; "
        "run(DecideConfig(source=sys.argv[1], registry='none')); "
        "heavy = {'numpy', 'apache_beam', 'tensorflow', 'sklearn'}; print(sorted(heavy & sys.modules.keys()))"
    )
    for source in (str(tmp_path), "digits"):
        done = subprocess.run([sys.executable, "-c", text, source], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"
