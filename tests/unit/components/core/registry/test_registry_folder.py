"""A registry in a folder: its lock, interruptions, and several processes."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from components.core.artifacts import evaluations
from components.core.errors import Superseded
from components.core.registry import registry
from components.core.storage.location import Location
from tests.faults import candidates
from tests.faults.candidates import Candidate
from tests.inputs import artifacts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "registry"


@pytest.fixture
def two_candidates(tmp_path: Path) -> list[Candidate]:
    return [candidates.candidate(tmp_path / f"candidate {step}", step) for step in (100, 200)]


def champion_of(folder: Path) -> int:
    return registry.read_champion(folder).version


def test_a_publication_that_was_interrupted_before_the_champion_moved_ends(
    two_candidates: list[Candidate], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(location: str, pointer: registry.Pointer, champion: registry.Champion) -> None:
        if pointer.content is not None:
            raise OSError(errno.EIO, "cut off")
        move(location, pointer, champion)

    move = registry.move_champion
    monkeypatch.setattr(registry, "move_champion", cut)
    with pytest.raises(OSError, match="cut off"):
        two_candidates[0].publish(folder)
    monkeypatch.setattr(registry, "move_champion", move)
    assert registry.versions(folder) == [1]
    assert registry.read_champion(folder).version == 0
    manifest = Path(two_candidates[0].evaluation, evaluations.MANIFEST)  # made anew meanwhile; the copy is of the first
    artifacts.seal(manifest, artifacts.unsealed(manifest), reasons=["another"])
    assert two_candidates[0].publish(folder).parameters["version"] == 1
    assert registry.versions(folder) == [1]
    assert champion_of(folder) == 1
    assert registry.read_version(folder, 1, registry.read_champion(folder)).evaluation.reasons == ["the test says so"]


def test_processes_that_publish_one_model_make_one_version(two_candidates: list[Candidate], folder: Path) -> None:
    model, evaluation = two_candidates[0].model, two_candidates[0].evaluation
    flags = [f"--model={model}", f"--evaluation={evaluation}", f"--registry={folder}"]
    command = [sys.executable, "-m", "components", "publish", *flags]
    started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert registry.versions(folder) == [1]
    assert champion_of(folder) == 1


@pytest.mark.parametrize("name", ["claims/00000001", "versions/1/saved_model.pb", "versions/1/MANIFEST.json"])
def test_of_two_publications_the_later_one_to_move_the_champion_has_lost(
    two_candidates: list[Candidate], folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As in a bucket: a publication with an outdated verdict ends with its own exit code, and harms nothing."""
    first, late = two_candidates
    create = Location.create

    def create_after_first(location: Location, sources: dict[str, Path]) -> None:
        if name in sources:
            monkeypatch.setattr(Location, "create", create)
            first.publish(folder)
        create(location, sources)

    monkeypatch.setattr(Location, "create", create_after_first)
    with pytest.raises(Superseded, match=r"no champion, .* version [12] "):
        late.publish(folder)
    champion = registry.read_champion(folder)
    assert champion.model_digest == first.digest
    assert [registry.damage(folder, number, champion) for number in registry.versions(folder)] == [[], []]
