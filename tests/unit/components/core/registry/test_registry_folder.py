"""A registry in a folder: its lock, interruptions, and several processes."""

import errno
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.core.artifacts import evaluations, models
from components.core.errors import Superseded
from components.core.registry import registry
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
    champion = registry.read_champion(folder)
    return champion.version if champion else 0


def test_a_publication_that_was_interrupted_before_the_champion_moved_ends(
    two_candidates: list[Candidate], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(location: str, pointer: registry.Pointer, champion: registry.Champion) -> None:
        if pointer.generation:
            raise OSError(errno.EIO, "cut off")
        move(location, pointer, champion)

    move = registry.move_champion
    monkeypatch.setattr(registry, "move_champion", cut)
    with pytest.raises(OSError, match="cut off"):
        two_candidates[0].publish(folder)
    monkeypatch.setattr(registry, "move_champion", move)
    assert registry.versions(folder) == [1]
    assert registry.read_champion(folder) is None
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


def test_who_waits_for_a_folder_and_then_finds_another_champion_has_lost(
    two_candidates: list[Candidate], folder: Path
) -> None:
    """As in a bucket: a publication with an outdated verdict ends with its own exit code, and adds nothing."""
    first, late = two_candidates
    with ThreadPoolExecutor() as pool:
        with registry.locked(folder):
            waiting = pool.submit(late.publish, folder)
            while not waiting.done() and not _waits_for(folder / ".lock"):
                time.sleep(0.01)
            with tempfile.TemporaryDirectory() as aside:
                first.publish(f"{aside}/registry")
                shutil.copytree(Path(aside, "registry", "versions"), folder / "versions")
                shutil.copy(Path(aside, "registry", registry.CHAMPION), folder)
        with pytest.raises(Superseded, match=r"no champion, .* version 1 "):
            waiting.result()
    assert registry.versions(folder) == [1]
    assert champion_of(folder) == 1


def _waits_for(path: Path) -> bool:
    """Return whether anybody waits for a lock, from the kernel's list."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_where_the_lock_holds_nobody_off_no_version_is_lost(
    two_candidates: list[Candidate], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some shared volumes: another process takes the number between the check and the rename."""
    two_candidates[0].publish(folder)
    prepared = Path(shutil.copytree(registry.version_folder(folder, 1), tmp_path / "prepared"))
    fill = functools.partial(shutil.copytree, two_candidates[1].model, dirs_exist_ok=True)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "versions", lambda location: [])
        assert registry.add(str(folder), fill, two_candidates[1].digest, None) == 2
    assert registry.versions(folder) == [1, 2]
    assert models.Manifest.of(registry.version_folder(folder, 1)) == models.Manifest.of(prepared)
