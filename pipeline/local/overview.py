"""What a root shows of its runs: `index.html`, and the folders of links `latest` and `champion`."""

import dataclasses
import logging
import math
import os
import secrets
from pathlib import Path

from components.core.artifacts import evaluations
from components.core.errors import StageError, describe_os_error, line_of
from components.core.registry import registry
from components.core.reporting.text import duration
from components.core.storage import atomic_files
from components.core.storage.location import Location
from pipeline.local import history
from pipeline.local.history import PastRun

log = logging.getLogger("pipeline")

PAGE = "index.html"
_TEMPLATE = Path(__file__).with_name("overview.html.j2")
_NO_VERDICT = "NONE"


@dataclasses.dataclass(frozen=True)
class Overview:
    runs: list[PastRun]  # oldest first
    champion: Path | None = None  # folder of the champion's version

    def verdict(self, run: PastRun) -> str:
        """Return the verdict on a run, and whether its model is the champion."""
        verdict = str(run.output("evaluate", "verdict") or "no report")
        version = run.output("publish", "version")
        return f"{verdict}, champion" if self.champion and str(version) == self.champion.name else verdict


def read(root: Location) -> Overview:
    """Read the runs of a root, and the champion unless it is unknown."""
    runs = history.read(root)
    try:
        version = registry.read_pointer(root / "registry").champion.version
    except (StageError, OSError) as error:
        log.warning("no champion is shown: %s", line_of(error))
        version = 0
    return Overview(runs, registry.version_location(root / "registry", version).path if version else None)


def write(overview: Overview) -> None:
    """Write the page and the links of a root, unless it is in a bucket; only log a failure."""
    if not overview.runs or overview.runs[0].root.in_bucket:
        return
    newest = overview.runs[-1]
    root = newest.root.path
    try:
        results = newest.evaluation, newest.location("export", "model_uri")
        evaluation, model = (result.path if result else None for result in results)
        _link(root / "latest", evaluation, model, newest.folder)
        if overview.champion:
            _link(root / "champion", overview.champion / registry.EVALUATION, overview.champion, None)
        atomic_files.write_file(root / PAGE, _page(overview).encode())
    except OSError as error:
        log.warning("%s and the links beside it are not up to date: %s", root / PAGE, describe_os_error(error))


def changes(run: PastRun) -> str:
    """Return the parameters that differ from the run before."""
    if run.changed is None:
        return "the first run"
    return ", ".join(f"{name}={value}" for name, value in run.changed.items()) or "nothing"


def _link(folder: Path, evaluation: Path | None, model: Path | None, logs: Path | None) -> None:
    """Make a folder of links to the files of a run that exist; remove the other links in it."""
    folder.mkdir(exist_ok=True)
    targets = {"model": model, "logs": logs}
    targets |= {name: evaluation and evaluation / name for name in (evaluations.SAMPLES, evaluations.REPORT)}
    for name, target in targets.items():
        if target and target.exists():
            link = folder / f".tmp-{name}-{secrets.token_hex(4)}"
            link.symlink_to(os.path.relpath(target, folder))
            link.replace(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def _page(overview: Overview) -> str:
    from components.core.reporting import pages  # it needs Jinja2, which is slow to import

    version = overview.champion
    best = evaluations.distance_ratio(version / registry.EVALUATION) if version else None
    scores = [run.score for run in overview.runs]
    drawn = [score for score in (*scores, best) if score and score > 0]
    low, high = (math.log(end) for end in (min(drawn, default=1), max(drawn, default=1)))

    def height(score: float | None) -> float | None:
        """Return the place of a score on the logarithmic axis, in percent from the top; None if it has none."""
        return 90 - 80 * (math.log(score) - low) / (high - low or 1) if score in drawn else None

    rows = [
        {
            "run": run,
            "verdict": overview.verdict(run),
            "group": run.output("evaluate", "verdict") or _NO_VERDICT,
            "folder": f"evaluations/{run.evaluation.name}" if run.evaluation and run.evaluation.path.exists() else "",
            "score": score,
            "x": 8 + 88 * index / max(len(scores) - 1, 1),
            "y": height(score),
            "took": duration(run.seconds),
            "changed": changes(run),
        }
        for index, (run, score) in enumerate(zip(overview.runs, scores, strict=True))
    ]
    groups = [row["group"] for row in rows]
    names = (evaluations.PROMOTE, evaluations.HOLD, evaluations.REJECT, _NO_VERDICT)
    return pages.render(
        _TEMPLATE,
        rows=rows[::-1],
        groups={name: groups.count(name) for name in names},  # which the page can hide
        ends=[min(drawn), max(drawn)] if drawn else [],
        champion=version and {"version": version.name, "score": best, "y": height(best)},
    )
