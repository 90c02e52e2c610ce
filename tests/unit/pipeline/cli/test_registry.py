"""`wgan registry`: its output on a registry made by `publish`, and its errors."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.core import container_images
from components.core.artifacts import evaluations, models
from components.core.registry import registry
from components.core.stage import provenance
from components.core.storage import digests
from pipeline import step_table
from pipeline.local import overview
from pipeline.local.history import DONE, History, TaskState
from pipeline.package import config_file
from tests.faults import candidates
from tests.inputs import artifacts
from tests.unit.pipeline.conftest import ended

PICTURES = "my pictures; rm -rf * # $(date) é\\'"
HOSTILE = "bad\x1b[31m\nname"


def publish_version(
    folder: Path, location: Path, step: int, code: str = "", distance: str = "fcd", initial: str = "", **changes: Any
) -> None:
    """Publish a model of a few bytes, which is judged as good beside whoever is champion now.

    `code` is the digest of the code that trained it (empty: that of here), `distance` what it was judged by, `initial`
    the digest of the checkpoint that its training began with, `changes` other values of the evaluation's manifest.
    """
    course = {"log_every": 50, "checkpoint_every": step, "when_unhealthy": "warn"}
    maker = provenance.made_with("train", accelerator="cpu", replicas=2, precision="bfloat16", threads=3, **course)
    dataset = artifacts.dataset(
        classes=["dark", HOSTILE],
        preprocessing={"height": 8, "width": 8, "resize": "fill"},
        made_with=provenance.made_with("preprocess"),
    )
    settings = {"steps": 300, "batch_size": 64, "critic_learning_rate": 0.0012, "beta_1": 0.25, "precision": "auto"}
    checkpoint = {
        "step": step,
        "classes": dataset.classes,
        "dataset_digest": dataset.digest,
        "settings": settings | ({"initial_checkpoint_digest": initial} if initial else {}),
        "made_with": {**maker, "code": code or maker["code"]},
    }
    origin = artifacts.origin(
        dataset, checkpoint, settings={"seed": 3}, made_with=provenance.made_with("embed", threads=4)
    )
    champion = registry.read_champion(location)
    rival = (champion.model_digest, champion.version)
    files = {"saved_model.pb": b"%d" % step}
    artifacts.write_model(folder / "model", origin, files, made_with=provenance.made_with("export"))
    numbers = artifacts.metrics(champion.version > 0, distance)
    manifest = {"reasons": ["better than ever", HOSTILE], "rules": [artifacts.RULE], "source": PICTURES, **changes}
    manifest |= {"settings": {"sample_count": 500}}
    artifacts.write_evaluation(folder / "evaluation", origin, rival, numbers, **manifest)
    candidates.at(folder).publish(location)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with two versions: one judged in a custom space, and one trained by other code than there is here."""
    folder = tmp_path_factory.mktemp("models")
    publish_version(folder / "1", folder / "registry", 300, distance="mine_fd")
    uncertified = "34 test images, 2,000 needed"
    publish_version(folder / "2", folder / "registry", 200, code="c" * 64, source="", uncertified=uncertified)
    return folder / "registry"


@pytest.fixture
def own_registry(location: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(location, tmp_path / "registry"))


def ask(*words: object, fails: bool = False) -> str:
    """Return the output of `wgan registry ...`, or its error if it `fails`."""
    done = ended("registry", *words)
    assert done.code in ((64, 65) if fails else (0,))
    return done.logged if fails else done.out


def test_list_names_every_version_and_the_champion(location: Path) -> None:
    rows = [line.split() for line in ask("list", "--registry", location).splitlines()]
    digest = [models.Manifest.of(registry.version_location(location, number).path).digest[:12] for number in (1, 2)]
    assert rows[1] == ["1", "300", "8x8x1", "2.5", digest[0], "certified"]
    uncertified = ["uncertified:", "34", "test", "images,", "2,000", "needed"]
    assert rows[2] == ["2", "champion", "200", "8x8x1", "2.5", digest[1], *uncertified]


def test_why_tells_where_a_version_came_from_and_whom_it_beat(location: Path) -> None:
    text = ask("why", 2, "--registry", location)
    facts = dict(line.split(maxsplit=1) for line in text.split("\n\n")[0].splitlines())
    model = models.Manifest.of(registry.version_location(location, 2).path)
    assert facts["checkpoint"] == "of 200 generator updates, of 300"
    assert facts["data"] == "test: 20 train, 20 validation, 20 test images of 8x8x1 in 2 classes"
    assert facts["verdict"] == r"PROMOTE: better than ever; bad\x1b[31m\nname"
    assert re.findall(r"[\d.]+", facts["distance"]) == ["1.25", "2.5", "1.75"]
    assert facts["distance"].startswith("FCD ")
    lines = [line.split() for line in text.splitlines()]
    assert ["fcd_corrected", "0.02", "0.01", "0.03", "at", "most", "0.055", "passed"] in lines
    came_from = {words[0]: " ".join(words[1:]) for words in lines if words}
    assert came_from["checkpoint"] == f"{model.checkpoint_digest} another than here {container_images.NO_IMAGE}"
    assert "as here" in came_from["dataset"]
    assert "\x1b" not in text
    first = ask("why", 1, "--registry", location)
    assert first.startswith("version     1, not the champion\n")
    assert "distance    mine_fd 1.25, 2.5 x " in first


def test_reproduce_prints_settings_that_are_no_defaults_and_the_digests_to_expect(
    location: Path, tmp_path: Path
) -> None:
    text = ask("reproduce", 1, "--registry", location, "--root", "a folder")
    manifest = evaluations.Manifest.of(registry.version_location(location, 1).path / registry.EVALUATION)
    (tmp_path / "again.yaml").write_text(text)
    problems: list[str] = []
    assert config_file.read(tmp_path / "again.yaml", step_table.PARAMETERS, problems) == {
        "source": PICTURES,
        "root": "a folder",
        "height": "8",
        "width": "8",
        "accelerator": "cpu",
        "replicas": "2",
        "checkpoint_every": "300",
        "when_unhealthy": "warn",
        "steps": "300",
        "beta_1": "0.25",
        "precision": "auto",
        "seed": "3",
        "sample_count": "500",
    }
    assert not problems
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    digest = models.Manifest.of(registry.version_location(location, 1).path).digest
    assert {f"# source {'f' * 64}", f"# dataset {manifest.dataset_digest}", f"# model {digest}"} <= {*comments}
    assert [re.findall(r"[A-Z_]+=\d", comment) for comment in comments if "threads: " in comment] == [
        ["TF_NUM_INTRAOP_THREADS=3"],
        ["TF_NUM_INTRAOP_THREADS=4"],
    ]
    assert any("bfloat16" in comment for comment in comments)
    assert "WARNING" not in text


def test_reproduce_warns_of_other_code_and_of_what_is_not_on_record(location: Path) -> None:
    text = ask("reproduce", 2, "--registry", location)
    (warning,) = (line for line in text.splitlines() if "WARNING" in line)
    assert "the code of train " in warning
    assert "c" * 64 in warning
    assert "  source: SOURCE\n" in text
    assert "beside version 1" in text
    assert "  source: a place\n" in ask("reproduce", 2, "--registry", location, "--source", "a place")


def test_what_a_training_began_with_is_reported_and_must_be_there_to_reproduce_it(tmp_path: Path) -> None:
    location = tmp_path / "registry"
    publish_version(tmp_path / "1", location, 100)
    first = models.Manifest.of(registry.version_location(location, 1).path).checkpoint_digest
    publish_version(tmp_path / "2", location, 200, initial=first)
    publish_version(tmp_path / "3", location, 300, initial="e" * 64)  # what it began with was never published
    assert "initial" not in ask("why", 1, "--registry", location)
    assert "start_from" not in ask("reproduce", 1, "--registry", location)
    rows = [line.split() for line in ask("why", 2, "--registry", location).splitlines()]
    assert ["initial", "checkpoint", first] in rows
    for number, digest, published in ((2, first, True), (3, "e" * 64, False)):
        text = ask("reproduce", number, "--registry", location)
        assert f" checkpoint {digest}" in text
        assert ("`wgan registry reproduce 1`" in text) == published
        assert "  start_from: champion\n" in text


def test_what_cannot_be_reported_is_an_error(own_registry: Path, tmp_path: Path) -> None:
    def complaint(*words: object) -> str:
        return ask(*words, "--registry", own_registry, fails=True)

    for words in (("why", 7), ("reproduce", -1)):
        assert "1, 2" in complaint(*words)
    assert "'one'" in complaint("why", "one")
    assert "'who'" in complaint("who")
    assert complaint("why")

    first = registry.version_location(own_registry, 1).path
    verdict = first / registry.EVALUATION / evaluations.MANIFEST
    artifacts.seal(verdict, artifacts.unsealed(verdict), checkpoint_digest="d" * 64)
    assert "version 1 of" in complaint("why", 1)


def test_a_model_that_lists_a_file_elsewhere_is_not_exported(own_registry: Path, tmp_path: Path) -> None:
    version = registry.version_location(own_registry, 1).path
    evil = version.parent / "evil.sh"
    evil.write_text("rm -rf /")
    value = artifacts.unsealed(version / models.MANIFEST)
    value["files"]["../evil.sh"] = {"bytes": 8, "sha256": digests.sha256_of_file(evil)}
    artifacts.seal(version / models.MANIFEST, value)
    for words in (["verify"], ["export", 1, tmp_path / "hub" / "mine", "--license", "mit"]):
        assert "'../evil.sh'" in ask(*words, "--registry", own_registry, fails=True)
    assert not (tmp_path / "hub").exists()


def test_links_and_page_of_a_root_follow_its_champion(own_registry: Path) -> None:
    root = own_registry.parent
    History(root, {}).write_state(0, {"publish": TaskState(DONE, seconds=1.0, outputs={"version": 1})})
    ask("rollback", "--registry", own_registry)
    assert (root / "champion" / "model").resolve() == registry.version_location(own_registry, 1).path
    assert "no report, champion" in (root / overview.PAGE).read_text()
    ask("promote", 2, "--registry", own_registry)
    assert (root / "champion" / "model").resolve() == registry.version_location(own_registry, 2).path
    assert ", champion" not in (root / overview.PAGE).read_text()
