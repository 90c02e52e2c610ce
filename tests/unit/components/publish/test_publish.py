"""Tests for publish and its registry: real models in a real folder, real processes."""

import dataclasses
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.core.artifacts import evaluations, models
from components.core.errors import ConfigError, DataError, Superseded
from components.core.registry import registry
from components.core.storage import atomic_files, digests
from components.publish import run as publish
from components.publish.config import PublishConfig
from tests import artifacts


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory, make_model: Callable[..., Path]) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [make_model(root / str(seed), seed) for seed in (0, 1)]


def _config(model: Path, evaluation: Path, folder: Path) -> PublishConfig:
    return PublishConfig(model=str(model), evaluation=str(evaluation), registry=str(folder))


def _champion(folder: Path) -> tuple[str, int]:
    champion = registry.read_champion(folder)
    assert champion is not None
    return champion.model_digest, champion.version


def test_the_first_version_is_a_servable_copy_with_its_evaluation(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    result = publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))
    assert result.parameters["version"] == 1
    version = registry.version_folder(tmp_path / "registry", 1)
    assert (version / "saved_model.pb").is_file()
    digest = models.Description.of(two_models[0]).digest
    assert models.Description.of(version).digest == digest
    described = evaluations.Description.of(evaluation)
    assert evaluations.Description.of(version / "evaluation").digest == described.digest
    champion = registry.read_champion(tmp_path / "registry")
    assert champion == registry.Champion(
        version=1,
        model_digest=digest,
        checkpoint_digest=described.checkpoint_digest,
        evaluation_digest=described.digest,
    )


def test_the_card_of_a_version_tells_what_was_found_and_is_guarded(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))
    version = registry.version_folder(tmp_path / "registry", 1)
    card = (version / models.CARD).read_text()
    assert "| Fréchet distance | fcd | 1.25 | 0.5 | 30 |" in card
    assert "Verdict: **PROMOTE**: the test says so." in card
    assert f"| checkpoint | `{models.Description.of(two_models[0]).checkpoint_digest}` |" in card
    (version / models.CARD).write_text(card.replace("| 1.25 |", "| 0.25 |"))
    with pytest.raises(DataError, match=r"CARD\.md is not the file"):
        registry.read_champion(tmp_path / "registry")


def test_versions_are_counted_and_the_champion_moves_on(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "registry"
    first = _config(two_models[0], make_evaluation(tmp_path / "e1", two_models[0]), folder)
    publish.run(first)
    publish.run(
        _config(two_models[1], make_evaluation(tmp_path / "e2", two_models[1], champion=_champion(folder)), folder)
    )
    assert registry.versions(folder) == [1, 2]
    assert _champion(folder)[1] == 2
    again = publish.run(first)  # published before: its version is told, the champion does not move back
    assert again.parameters["version"] == 1
    assert "already published as version 1" in str(again.parameters["summary"])
    assert registry.versions(folder) == [1, 2]
    assert _champion(folder)[1] == 2


@pytest.mark.parametrize("verdict", ["HOLD", "REJECT", "promote", ""])
def test_nothing_but_promote_is_published(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path, verdict: str
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0], verdict)
    with pytest.raises(ConfigError, match="only PROMOTE"):
        publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))
    assert not (tmp_path / "registry").exists()


def test_the_verdict_on_another_checkpoint_does_not_count(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[1])
    with pytest.raises(ConfigError, match="judges checkpoint"):
        publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))


def test_a_verdict_against_a_former_champion_is_out_of_date(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "registry"
    publish.run(_config(two_models[0], make_evaluation(tmp_path / "e1", two_models[0]), folder))
    with pytest.raises(DataError, match="compared with no champion, but the champion is version 1 now"):
        publish.run(_config(two_models[1], make_evaluation(tmp_path / "e2", two_models[1]), folder))
    assert registry.versions(folder) == [1]


def test_a_publication_that_was_interrupted_before_the_champion_moved_is_finished(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "registry"
    config = _config(two_models[0], make_evaluation(tmp_path / "e1", two_models[0]), folder)
    publish.run(config)
    (folder / registry.CHAMPION).unlink()
    assert registry.read_champion(folder) is None
    again = make_evaluation(tmp_path / "e2", two_models[0])  # made anew meanwhile; the copy is of the first
    value = artifacts.unsealed(again / evaluations.MANIFEST)
    atomic_files.write_json(again / evaluations.MANIFEST, {**value, "reasons": ["another"]})
    assert publish.run(dataclasses.replace(config, evaluation=str(again))).parameters["version"] == 1
    assert registry.versions(folder) == [1]
    assert _champion(folder)[1] == 1
    assert registry.read_version(folder, 1, registry.read_champion(folder)).evaluation.reasons == ["the test says so"]


def test_two_processes_that_publish_one_model_make_one_version(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    command = [sys.executable, "-m", "components.publish", "--model", two_models[0], "--evaluation", evaluation]
    started = [
        subprocess.Popen([*map(str, command), "--registry", str(tmp_path / "registry")], stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert registry.versions(tmp_path / "registry") == [1]
    assert _champion(tmp_path / "registry")[1] == 1


def test_a_damaged_model_or_evaluation_is_not_published(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    broken = tmp_path / "broken"
    shutil.copytree(two_models[0], broken)
    (broken / "variables" / "variables.index").write_bytes(b"")
    with pytest.raises(DataError, match="is damaged"):
        publish.run(_config(broken, evaluation, tmp_path / "registry"))
    (evaluation / evaluations.METRICS).write_text("[]")
    with pytest.raises(DataError, match="is damaged"):
        publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))


def test_an_evaluation_that_was_changed_is_not_published(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    """A changed verdict.json: noticed by the digest that evaluate told, and where it contradicts its own rules."""
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0], evaluations.HOLD)
    digest = evaluations.Description.of(evaluation).digest
    path = evaluation / evaluations.MANIFEST
    held = artifacts.unsealed(path)
    rule = {"rule": "fcd_corrected", "value": 1.0, "low": 0.5, "high": 1.5, "limit": "at most 0.055"}
    config = _config(two_models[0], evaluation, tmp_path / "registry")
    atomic_files.write_json(path, {**held, "verdict": evaluations.PROMOTE})
    with pytest.raises(DataError, match=f"expected {digest}"):
        publish.run(dataclasses.replace(config, evaluation_digest=digest))
    for outcome in (evaluations.HELD, evaluations.FAILED, "of no name"):
        rules = [{**rule, "outcome": outcome}]
        atomic_files.write_json(path, {**held, "verdict": evaluations.PROMOTE, "rules": rules})
        with pytest.raises(DataError, match=r"its rules did not pass \(fcd_corrected\)"):
            publish.run(config)
    atomic_files.write_json(path, {**held, "schema_version": 1})
    with pytest.raises(DataError, match=r"has schema version \d, expected 2: make the evaluation again"):
        publish.run(config)
    atomic_files.write_json(path, {**held, "verdict": evaluations.PROMOTE, "rules": ["x"]})
    with pytest.raises(DataError, match="does not describe the evaluation"):
        publish.run(config)
    atomic_files.write_json(path, {**held, "verdict": evaluations.PROMOTE, "dataset_digest": "e" * 64})
    with pytest.raises(DataError, match=r"the lineage in .* is of dataset"):
        publish.run(config)
    assert not registry.versions(tmp_path / "registry")


@pytest.mark.parametrize("name", [evaluations.LINEAGE, evaluations.METRICS])
def test_an_evaluation_from_before_there_were_cards_is_not_published(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    value = artifacts.unsealed(evaluation / evaluations.MANIFEST)
    atomic_files.write_json(evaluation / name, {})
    value["files"][name] = digests.sha256_of_file(evaluation / name)
    if name == evaluations.LINEAGE:
        del value["files"][name]
    atomic_files.write_json(evaluation / evaluations.MANIFEST, value)
    with pytest.raises(DataError, match="an earlier version of this program"):
        publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))
    assert not registry.versions(tmp_path / "registry")


@pytest.mark.parametrize(("name", "value"), [("step", 7), ("dataset_digest", "e" * 64), ("classes", ["a"])])
def test_a_model_that_contradicts_its_checkpoint_is_not_published(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path, name: str, value: object
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    changed = tmp_path / "changed"
    shutil.copytree(two_models[0], changed)
    manifest = json.loads((changed / models.MANIFEST).read_text())
    atomic_files.write_json(changed / models.MANIFEST, {**manifest, name: value})
    with pytest.raises(DataError, match=f"says that its {name} is"):
        publish.run(_config(changed, evaluation, tmp_path / "registry"))


def test_a_champion_that_cannot_be_read_is_never_taken_for_none(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "registry"
    publish.run(_config(two_models[0], make_evaluation(tmp_path / "e1", two_models[0]), folder))
    publish.run(
        _config(two_models[1], make_evaluation(tmp_path / "e2", two_models[1], champion=_champion(folder)), folder)
    )
    whole = (folder / registry.CHAMPION).read_text()
    for text in ("", "[]", "{}", whole.replace('"version": 2', '"version": "2"'), whole.replace(": 2", ": 3")):
        (folder / registry.CHAMPION).write_text(text)
        with pytest.raises(DataError):
            registry.read_champion(folder)
    (folder / registry.CHAMPION).unlink()
    with pytest.raises(DataError, match="champion"):
        registry.read_champion(folder)
    (folder / registry.CHAMPION).write_text(whole)
    (registry.version_folder(folder, 2) / "saved_model.pb").unlink()
    with pytest.raises(DataError, match="is damaged"):
        registry.read_champion(folder)


def test_a_registry_that_is_a_file_is_refused(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    evaluation = make_evaluation(tmp_path / "evaluation", two_models[0])
    atomic_files.write_json(tmp_path / "registry", {})
    with pytest.raises(DataError, match="is a file"):
        publish.run(_config(two_models[0], evaluation, tmp_path / "registry"))
    with pytest.raises(DataError, match="is a file"):
        registry.read_champion(tmp_path / "registry")


def test_who_waits_for_a_folder_and_finds_another_champion_then_has_lost(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path
) -> None:
    """As in a bucket: what began with a verdict that counted ends with an exit code of its own, and adds nothing."""
    folder = tmp_path / "registry"
    late = _config(two_models[1], make_evaluation(tmp_path / "e1", two_models[1]), folder)
    with ThreadPoolExecutor() as pool:
        with registry.held(folder):
            waiting = pool.submit(publish.run, late)
            while not waiting.done() and not _waits_for(folder / ".lock"):
                time.sleep(0.01)
            with tempfile.TemporaryDirectory() as aside:
                first = _config(two_models[0], make_evaluation(tmp_path / "e2", two_models[0]), Path(aside, "registry"))
                publish.run(first)
                shutil.copytree(Path(aside, "registry", "versions"), folder / "versions")
                shutil.copy(Path(aside, "registry", registry.CHAMPION), folder)
        with pytest.raises(Superseded, match="compared with no champion, but the champion is version 1 now"):
            waiting.result()
    assert registry.versions(folder) == [1]
    assert _champion(folder)[1] == 1


def _waits_for(path: Path) -> bool:
    """Whether anybody waits for a lock, as the kernel lists it."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_where_the_lock_holds_nobody_off_no_version_is_lost(
    two_models: list[Path], make_evaluation: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some shared volumes: another process takes the number between the look and the rename."""
    folder = tmp_path / "registry"
    publish.run(_config(two_models[0], make_evaluation(tmp_path / "e1", two_models[0]), folder))
    prepared = Path(shutil.copytree(registry.version_folder(folder, 1), tmp_path / "prepared"))
    other = models.Description.of(two_models[1]).digest
    fill = functools.partial(shutil.copytree, two_models[1], dirs_exist_ok=True)
    looked = registry.versions
    monkeypatch.setattr(registry, "versions", lambda place: [])
    assert registry.add(folder, fill, other, None) == 2
    monkeypatch.setattr(registry, "versions", looked)
    assert registry.versions(folder) == [1, 2]
    assert models.Description.of(registry.version_folder(folder, 1)) == models.Description.of(prepared)
