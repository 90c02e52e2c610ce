"""Each stage of this checkout against the same stage of an earlier commit: whole processes, in turns.

    python -m benchmarks.previous_commit --base COMMIT --source FASHION_MNIST --rounds 5

Start and imports included. Each side first makes its own inputs. Then the two take turns at one stage after another,
every other round in reverse. A ratio is the earlier commit's figure over ours, the median over the rounds; below 1,
this checkout takes more.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.data.preprocess import write_files
from benchmarks.lib import tables
from benchmarks.lib.processes import Turn, measured
from tests.proofs.stages import command

_ROOT = Path(__file__).parents[1]
_FILES = 6000  # PNG and JPEG files


def _stages(source: Path, files: Path, inputs: Path, location: Path) -> dict[str, list[str]]:
    """The command line of each measured stage, which reads `inputs` and writes to `place`."""
    dataset, embedding, checkpoints = inputs / "dataset", inputs / "embedding", inputs / "checkpoints"
    checkpoint = checkpoints / "step-0000000300"
    small = {"steps": 300, "checkpoint_every": 100, "sample_every": 100}
    return {
        "preprocess, IDX files": command("preprocess", source=source, dataset=location / "dataset"),
        f"preprocess, {_FILES:,} PNG and JPEG files": command("preprocess", source=files, dataset=location / "files"),
        "embed": command("embed", dataset=dataset, embedding=location / "embedding", classifier_epochs=1),
        "train": command("train", dataset=dataset, checkpoints=location / "checkpoints", **small),
        "evaluate": command(
            "evaluate",
            checkpoint=checkpoint,
            dataset=dataset,
            embedding=embedding,
            evaluation=location / "evaluation",
            registry=inputs / "registry",
        ),
        "export": command("export", checkpoint=checkpoint, model=location / "model"),
    }


def _make_inputs(source: Path, files: Path, inputs: Path, code: Path) -> None:
    for name, words in _stages(source, files, inputs, inputs).items():
        if name in ("preprocess, IDX files", "embed", "train"):
            measured(words, code)


def main() -> None:
    """Measure both and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--source", required=True, type=Path, help="folder of Fashion-MNIST's four files")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        files, base = Path(temporary, "files"), Path(temporary, "base")
        write_files(files, _FILES)
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", base, options.base], cwd=_ROOT, check=True)
        try:
            turns = _measure(options.source.resolve(), files, {"base": base, "ours": _ROOT}, options.rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", base], cwd=_ROOT, check=True)
    rows = []
    for name, sides in turns.items():
        pairs = list(zip(sides["base"], sides["ours"], strict=True))
        ratios = [
            statistics.median(getattr(then, field) / getattr(now, field) for then, now in pairs)
            for field in Turn._fields
        ]
        seconds = statistics.median(now.cpu for _, now in pairs)
        rows.append([name, f"{seconds:.1f}", *(f"{ratio:.2f}" for ratio in ratios)])
    columns = ["stage", "CPU seconds", "x by the clock", "x CPU seconds", "x memory"]
    tables.show(f"This checkout against {options.base}", columns, rows, ["x: the earlier commit's over ours"])
    tables.keep("previous_commit", {"base": options.base, "turns": turns})


def _measure(source: Path, files: Path, sides: dict[str, Path], rounds: int) -> dict[str, dict[str, list[Turn]]]:
    """Return the turns of each stage and side."""
    turns: dict[str, dict[str, list[Turn]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for side, code in sides.items():
            print(f"inputs of {side}", file=sys.stderr)
            _make_inputs(source, files, Path(temporary, side), code)
        location = Path(temporary, "made")
        for name in _stages(source, files, location, location):
            turns[name] = {side: [] for side in sides}
            for number in range(rounds):
                print(f"{name}, round {number + 1} of {rounds}", file=sys.stderr)
                for side in sides if number % 2 == 0 else reversed(sides):
                    shutil.rmtree(location, ignore_errors=True)
                    words = _stages(source, files, Path(temporary, side), location)[name]
                    turns[name][side].append(measured(words, sides[side]))
    return turns


if __name__ == "__main__":
    main()
