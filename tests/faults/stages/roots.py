"""Roots of whole runs that are copied, moved, cleaned and damaged; in the end they are as after an undisturbed run.

No model here is promoted, so that a repeated run looks at every artifact.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, models
from components.core.artifacts.manifest import Manifest
from tests.faults.counts import Counts
from tests.system import whole_runs

_KINDS: dict[str, type[Manifest]] = {
    "datasets/*": datasets.Manifest,
    "embeddings/*": embeddings.Manifest,
    "checkpoints/*/step-*": checkpoints.Manifest,
    "evaluations/*": evaluations.Manifest,
    "models/*": models.Manifest,
}
# One that is damaged is passed over when it is needed, and not made again after the end.
_EARLIER = checkpoints.step_folder(Path(), 20).name
_SMALL: dict[str, Any] = {"steps": 40, "checkpoint_every": 20, "classifier_epochs": 1, "sample_count": 100}
_SMALL["distance_limit"] = 1e-9  # of which nothing is promoted


class Roots:
    """Roots below a folder, and what an undisturbed run leaves."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self._folder, self._count = random.Random(seed), folder, 0
        self.reference = folder / "reference"
        began = time.monotonic()
        whole_runs.run(self.reference, **_SMALL)
        self.seconds = time.monotonic() - began
        self.wanted = _results(self.reference)

    def new(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}"

    def copy(self, root: Path) -> Path:
        """Copy a root, perhaps while a run writes to it, as `cp` does: what vanishes meanwhile is left out."""
        copy = self.new()
        subprocess.run(["cp", "-a", str(root), str(copy)], capture_output=True, check=False)
        return copy

    def start(self, root: Path, **changes: object) -> "subprocess.Popen[str]":
        return whole_runs.start(root, **{**_SMALL, **changes})

    def problem(self, root: Path, named: str = "") -> str:
        """Finish a run in a root; return how its end differs from that of the reference, and what its log lacks."""
        process = self.start(root)
        _, error = process.communicate()
        if process.returncode:
            return f"{root}: the run ended with {process.returncode}: {error[-2000:]}"
        results = _results(root)
        differing = sorted(name for name in self.wanted if results[name] != self.wanted[name])
        lacking = f"; {named} is not named in {error}" if named not in error else ""
        return f"{root}: other {differing}{lacking}" if differing or lacking else ""

    def lives_for_a_while(self, process: "subprocess.Popen[str]") -> bool:
        """Wait for some time that a run may take; return whether this one is still at work."""
        time.sleep(self.chance.uniform(0, self.seconds))
        return process.poll() is None


def _results(root: Path) -> dict[str, Any]:
    """Return the results of the newest run of a root, whose artifacts must be whole, but for the earlier checkpoint."""
    records = sorted((root / "records").glob("*/record.json"))
    results = whole_runs.outputs(json.loads(records[-1].read_bytes()))
    for kind, manifest in _KINDS.items():
        for folder in (path for path in root.glob(kind) if path.name != _EARLIER):
            results[f"{folder.relative_to(root)}"] = manifest.of(folder).digest
    return results


def copied_while_a_run_writes(roots: Roots) -> tuple[bool, str]:
    """The copy is run to its end without the original."""
    root = roots.new()
    process = roots.start(root)
    is_running = roots.lives_for_a_while(process)
    copy = roots.copy(root) if root.exists() else roots.new()
    _, log = process.communicate()
    root.rename(roots.new())
    return is_running, log[-2000:] if process.returncode else roots.problem(copy)


def moved_between_stages(roots: Roots) -> tuple[bool, str]:
    root, moved = roots.new(), roots.new()
    process = roots.start(root)
    is_running = roots.lives_for_a_while(process)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    if root.exists():
        root.rename(moved)
    return is_running, roots.problem(moved)


def cleaned(roots: Roots) -> tuple[bool, str]:
    """`wgan runs gc` begins at any moment of a run, and removes what an earlier one made."""
    root = roots.copy(roots.reference)
    process = roots.start(root, steps=30)
    is_running = roots.lives_for_a_while(process)
    done = subprocess.run(_gc(root), capture_output=True, text=True, check=False)
    _, log = process.communicate()
    if done.returncode or process.returncode:
        return is_running, f"{root}: ended with {done.returncode} and {process.returncode}: {done.stderr}{log}"
    subprocess.run(_gc(root), capture_output=True, check=True)  # the other may have come before the run
    kept = [kind for kind in ("checkpoints", "evaluations", "models") if len([*root.glob(f"{kind}/*")]) != 1]
    return is_running, f"{root}: results of the earlier run stay in {kept}" if kept else roots.problem(root)


def killed_cleaning(roots: Roots) -> tuple[bool, str]:
    root = roots.copy(roots.reference)
    (root / "records").rename(root / "no records")  # so that nothing is needed
    process = subprocess.Popen(_gc(root), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    count = len([*root.glob("*/*")])
    while process.poll() is None and len([*root.glob("*/*")]) == count:
        time.sleep(0.0005)
    time.sleep(roots.chance.uniform(0, 0.01))
    process.kill()
    return process.wait() == -signal.SIGKILL, roots.problem(root)


def damaged(roots: Roots) -> tuple[bool, str]:
    """A file of an artifact is deleted, cut, flipped, or replaced by one of another artifact."""
    root = roots.copy(roots.reference)
    files = {
        folder / name
        for kind, manifest in _KINDS.items()
        for folder in root.glob(kind)
        for name in (manifest.FILE, *manifest.of(folder).listed)
    }
    path, other = roots.chance.sample(sorted(files), 2)
    content, at = path.read_bytes(), roots.chance.randrange(path.stat().st_size)
    flipped = content[:at] + bytes([content[at] ^ 1 << roots.chance.randrange(8)]) + content[at + 1 :]
    left = roots.chance.choice([None, content[:at], flipped, other.read_bytes()])
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    named = path.name if left != content and path.parent.name != _EARLIER else ""
    return left != content, roots.problem(root, named=named)


def _gc(root: Path) -> list[str]:
    return [sys.executable, "-m", "pipeline", "runs", "gc", f"--root={root}", "--keep=1", "--yes"]


TRIALS: dict[str, Callable[[Roots], tuple[bool, str]]] = {
    "copied while a run writes": copied_while_a_run_writes,
    "moved between stages": moved_between_stages,
    "cleaned at any moment of a run": cleaned,
    "killed while it is cleaned": killed_cleaning,
    "a file damaged or replaced": damaged,
}


def disturb(folder: Path, trials: int, seed: int) -> dict[str, Counts]:
    """Try each kind so often; return the counts by kind."""
    folder.mkdir(exist_ok=True)
    roots, counts = Roots(folder, seed), {name: Counts() for name in TRIALS}
    for name, trial in TRIALS.items():
        for _ in range(trials):
            counts[name].add(*trial(roots))
            for path in {*folder.iterdir()} - {roots.reference}:
                shutil.rmtree(path)
    return counts
