"""Compare what the pipeline makes with what an earlier commit makes of the same images, artifact by artifact.

    make prove NAME=previous_commit BASE=COMMIT
    make prove NAME=previous_commit BASE=COMMIT TURNS=5    # instead, the time and memory of each stage

Both run the whole pipeline for 300 steps, on `digits` and on Fashion-MNIST. Files must have the same bytes. JSON files
must hold the same values, but for those that describe the run rather than its result (`RUN_FIELDS`). Folder names hold
keys, which cover the code: each key is replaced by its stage's name.

For the speed each side makes its own inputs. Then the two take turns at one stage after another, every other round in
reverse: whole processes, start and imports included.
"""

import argparse
import contextlib
import difflib
import fnmatch
import functools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.data.preprocess import write_files
from benchmarks.lib import tables
from benchmarks.lib.processes import Turn, measured
from components.core.storage import digests
from tests.proofs.stages import command
from tests.system import whole_runs

ROOT = Path(__file__).parents[2]
_FILES = 6000  # PNG and JPEG files
FOLDERS = ("datasets", "checkpoints", "embeddings", "evaluations", "models", "registry")
# Code, libraries and speed; and checksums of manifests, reports and cards, which contain them.
RUN_FIELDS = {"made_with", "code", "images_per_second", "card_sha256", "recipe_sha256"}
RUN_FILES = {"lineage.json", "report.html", "training.json"}
NOT_COMPARED = ("*/tensorboard/*", "*/.lock", "*.pb.lock", "*/saved_model.pb.tmp")


def contents(root: Path, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the content of each artifact file of a run, by its path, with names replaced: by default a commit's.

    JSON is parsed, without the fields of the run. Other text is lines. Anything else is its sha256.
    """
    names = names_of_commit(root) if names is None else names
    files: dict[str, Any] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = _renamed(path.relative_to(root).as_posix(), names)
            if path.is_file() and not any(fnmatch.fnmatch(name, pattern) for pattern in NOT_COMPARED):
                files[name] = _content(path, names)
    return files


def names_of_commit(root: Path) -> dict[str, str]:
    """Return the names in the artifacts of a run that depend on its folder and code, with words that stand for them."""
    names = {str(root): "ROOT"}
    names |= {code: "CODE" for path in root.rglob("*.json") for code in _codes(json.loads(path.read_text()))}
    return names | {
        path.name: "KEY" for folder in FOLDERS if folder != "registry" for path in (root / folder).glob("*")
    }


def _codes(value: Any) -> list[str]:
    """Return the digests of code that a JSON value notes, at any depth."""
    if isinstance(value, dict):
        codes = [value["code"]] if isinstance(value.get("code"), str) and value["code"] else []
        return codes + [code for item in value.values() for code in _codes(item)]
    return [code for item in value for code in _codes(item)] if isinstance(value, list) else []


def _content(path: Path, names: Mapping[str, str]) -> Any:
    if path.suffix not in (".json", ".jsonl", ".md", ".html"):
        return digests.sha256_of_file(path)
    text = _renamed(path.read_text(), names)
    if path.suffix == ".json":
        return _without_run_fields(json.loads(text))
    return [_without_run_fields(json.loads(line)) if path.suffix == ".jsonl" else line for line in text.splitlines()]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return functools.reduce(lambda text, name: text.replace(name, names[name]), names, text)


def _without_run_fields(value: Any, top: bool = True) -> Any:
    if isinstance(value, dict):
        left_out = RUN_FIELDS | RUN_FILES | ({"sha256"} if top else set())  # a manifest's own is its seal
        return {name: _without_run_fields(item, top=False) for name, item in value.items() if name not in left_out}
    return [_without_run_fields(item, top=False) for item in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        changes = []
        for name in sorted({*before, *after}):
            inner = f"{where}: {name}" if where else name
            if name in before and name in after:
                changes += differences(before[name], after[name], inner)
            else:
                changes.append(f"{inner}: {'gone' if name in before else 'new'}")
        return changes
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            change
            for at, pair in enumerate(zip(before, after, strict=True))
            for change in differences(*pair, f"{where}[{at}]")
        ]
    if isinstance(before, list) and isinstance(after, list):
        lines = difflib.unified_diff([*map(str, before)], [*map(str, after)], n=0, lineterm="")
        return [f"{where}: {line[:200]}" for line in lines if not line.startswith(("---", "+++", "@@"))]
    return [] if before == after else [f"{where}: {str(before)[:80]!r} became {str(after)[:80]!r}"]


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "base")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, commit], cwd=ROOT, check=True)
        try:
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)


def run_pipeline(python: str, code: Path, root: Path, **settings: object) -> None:
    words = [python, *whole_runs.command(root, **settings)[1:]]
    with open(f"{root}.log", "wb") as log:
        ended = subprocess.run(words, cwd=code, stdout=log, stderr=log, check=False)
    if ended.returncode:
        raise SystemExit(f"wgan run in {code} ended with exit code {ended.returncode}: see {root}.log")


def prove(options: argparse.Namespace) -> list[str]:
    """Print the differences; those that no `--announced` pattern matches are wrong."""
    source = str(Path(options.source).resolve()) if Path(options.source).is_dir() else options.source
    with checkout(options.base) as base, tempfile.TemporaryDirectory() as temporary:
        if options.turns:
            _compare_speed(options, {"base": base, "ours": ROOT}, source, Path(temporary))
            return []
        wrong = []
        smaller = {"height": 28, "width": 28, "sample_count": 1000, "classifier_epochs": 1}
        for at, settings in enumerate(({}, {**smaller, "source": source})):
            runs = []
            for name, code in (("before", base), ("after", ROOT)):
                root = Path(temporary, f"{name}-{at}")
                run_pipeline(sys.executable, code, root, **settings)
                runs.append(contents(root))
            changes = differences(runs[0], runs[1])
            announced = [change for glob in options.announced for change in fnmatch.filter(changes, glob)]
            counts = f"{len(runs[0])} files before, {len(runs[1])} after"
            print(f"{counts}, {len(changes)} differences, {len(announced)} of them announced", *announced, sep="\n  ")
            wrong += [change for change in changes if change not in announced]
    return wrong


def _stages(source: str, files: Path, inputs: Path, location: Path) -> dict[str, list[str]]:
    """Return the command line of each stage, which reads `inputs`, as far as they exist, and writes to `location`."""
    dataset, embedding, checkpoint = (  # an earlier commit's folder may have no key
        next((path.parent for path in inputs.rglob(manifest)), inputs)
        for manifest in ("dataset.json", "embedding.json", "step-0000000300/checkpoint.json")
    )
    small = {"steps": 300, "checkpoint_every": 100, "sample_every": 100}
    judged = {"checkpoint": checkpoint, "registry": inputs / "registry"}
    return {
        "preprocess, IDX files": command("preprocess", source=source, dataset=location / "dataset"),
        f"preprocess, {_FILES:,} PNG and JPEG files": command("preprocess", source=files, dataset=location / "files"),
        "embed": command("embed", dataset=dataset, embedding=location / "embedding", classifier_epochs=1),
        "train": command("train", dataset=dataset, checkpoints=location / "checkpoints", **small),
        "evaluate": command(
            "evaluate", dataset=dataset, embedding=embedding, evaluation=location / "evaluation", **judged
        ),
        "export": command("export", checkpoint=checkpoint, model=location / "model"),
    }


def _compare_speed(options: argparse.Namespace, sides: dict[str, Path], source: str, folder: Path) -> None:
    files, location, rows = folder / "files", folder / "made", []
    write_files(files, _FILES)
    for side, code in sides.items():
        for name in ("preprocess, IDX files", "embed", "train"):
            measured(_stages(source, files, folder / side, folder / side)[name], code)
    for name in _stages(source, files, location, location):
        turns: dict[str, list[Turn]] = {side: [] for side in sides}
        for number in range(options.turns):
            print(f"{name}, turn {number + 1} of {options.turns}", file=sys.stderr)
            for side in sides if number % 2 == 0 else reversed(sides):
                shutil.rmtree(location, ignore_errors=True)
                turns[side].append(measured(_stages(source, files, folder / side, location)[name], sides[side]))
        pairs = list(zip(turns["base"], turns["ours"], strict=True))
        ratios = [statistics.median(then[at] / now[at] for then, now in pairs) for at in range(len(Turn._fields))]
        seconds = statistics.median(now.cpu for now in turns["ours"])
        rows.append([name, f"{seconds:.1f}", *(f"{ratio:.2f}" for ratio in ratios)])
    columns = ["stage", "CPU seconds", "x by the clock", "x CPU seconds", "x memory"]
    remark = "x: the earlier commit's over ours; below 1, this checkout takes more"
    tables.show(f"This checkout against {options.base}", columns, rows, [remark])
