"""Compare what the pipeline makes with what an earlier commit makes of the same images, artifact by artifact.

Both run the whole pipeline for 300 steps, on `digits` and on IDX files such as Fashion-MNIST. Files must have the same
bytes. JSON files must hold the same values, but for those that describe the run rather than its result (`RUN_FIELDS`).
Folder names hold keys, which cover the code: each key is replaced by its stage's name.
"""

import argparse
import difflib
import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.storage import digests
from tests.system import whole_runs

ROOT = Path(__file__).parents[2]
FOLDERS = ("datasets", "checkpoints", "embeddings", "evaluations", "models", "registry")
# Code, libraries and speed; and checksums of manifests, reports and cards, which contain them.
RUN_FIELDS = {"made_with", "code", "images_per_second", "card_sha256", "recipe_sha256"}
RUN_FILES = {"lineage.json", "report.html", "training.json"}
NOT_COMPARED = ("*/tensorboard/*", "*/.lock", "*.pb.lock", "*/saved_model.pb.tmp")


def contents(root: Path) -> dict[str, Any]:
    """Return the content of each artifact file of a run, by its path with keys replaced.

    JSON is parsed, without the fields of the run. Other text has keys and root replaced. Anything else is its sha256.
    """
    names = {str(root): "ROOT"}
    names |= {code: "CODE" for path in root.rglob("*.json") for code in _codes(json.loads(path.read_text()))}
    names |= {path.name: "KEY" for folder in FOLDERS if folder != "registry" for path in (root / folder).glob("*")}
    files: dict[str, Any] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = _renamed(path.relative_to(root).as_posix(), names)
            if path.is_file() and not any(fnmatch.fnmatch(name, pattern) for pattern in NOT_COMPARED):
                files[name] = _content(path, names)
    return files


def _codes(value: Any) -> list[str]:
    """Return the digests of code that a JSON value notes, at any depth."""
    if isinstance(value, dict):
        codes = [value["code"]] if isinstance(value.get("code"), str) and value["code"] else []
        return codes + [code for item in value.values() for code in _codes(item)]
    return [code for item in value for code in _codes(item)] if isinstance(value, list) else []


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name, stable in names.items():
        text = text.replace(name, stable)
    return text


def _content(path: Path, names: Mapping[str, str]) -> Any:
    if path.suffix not in (".json", ".jsonl", ".md", ".html"):
        return digests.sha256_of_file(path)
    text = _renamed(path.read_text(), names)
    if path.suffix == ".json":
        return _without_run_fields(json.loads(text))
    if path.suffix == ".jsonl":
        return [_without_run_fields(json.loads(line)) for line in text.splitlines()]
    return text.splitlines()


def _without_run_fields(value: Any, top: bool = True) -> Any:
    if isinstance(value, dict):
        left_out = RUN_FIELDS | RUN_FILES | ({"sha256"} if top else set())  # a manifest's own is its seal
        return {name: _without_run_fields(item, top=False) for name, item in value.items() if name not in left_out}
    return [_without_run_fields(item, top=False) for item in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """Name each place where two contents differ, with both values."""
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


def _run(code: Path, root: Path, source: str, settings: Mapping[str, object]) -> None:
    flags = [f"--{name}={value}" for name, value in {**whole_runs.SMALL, **settings, "source": source}.items()]
    command = [sys.executable, "-m", "pipeline", "run", f"--root={root}", *flags]
    with open(f"{root}.log", "wb") as log:
        ended = subprocess.run(command, cwd=code, stdout=log, stderr=log, check=False).returncode
    if ended:
        raise SystemExit(f"wgan run of {code} ended with exit code {ended}: see {root}.log")


def main() -> int:
    """Compare with `--base`; return 1 if anything differs that no `--announced` pattern matches, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--source", help="a source of 28x28 images, to compare on as well")
    parser.add_argument("--announced", action="append", default=[], metavar="GLOB", help="differences that are meant")
    options = parser.parse_args()
    sources: dict[str, dict[str, object]] = {"digits": {}}
    if options.source:
        folder = Path(options.source)
        smaller: dict[str, object] = {"height": 28, "width": 28, "sample_count": 1000, "classifier_epochs": 1}
        sources[str(folder.resolve()) if folder.is_dir() else options.source] = smaller
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary, "base")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", base, options.base], cwd=ROOT, check=True)
        try:
            for at, (source, settings) in enumerate(sources.items()):
                runs = []
                for name, code in (("before", base), ("after", ROOT)):
                    root = Path(temporary, f"{name}-{at}")
                    _run(code, root, source, settings)
                    runs.append(contents(root))
                changes = differences(runs[0], runs[1])
                patterns = options.announced
                announced = [change for change in changes if any(fnmatch.fnmatch(change, glob) for glob in patterns)]
                failed += len(changes) - len(announced)
                counts = f"{len(runs[0])} files before, {len(runs[1])} after"
                print(f"{source}: {counts}, {len(changes)} differences, {len(announced)} of them announced")
                print("\n".join(f"  {'announced: ' if change in announced else ''}{change}" for change in changes))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", base], cwd=ROOT, check=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
