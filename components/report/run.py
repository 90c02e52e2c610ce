"""The report command: evaluations, found by the numbers of runs or by folders, side by side on one HTML page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core.artifacts import evaluations
from components.core.errors import ConfigError, DataError
from components.core.reporting import charts, grids, metric_labels, pages
from components.core.stage import run_notes
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.report.config import ReportConfig

_PAGE = Path(__file__).with_name("compare.html.j2")
_SAMPLES_BYTES = 1_000_000  # for all sheets, so that the page stays small
_DIGEST_LENGTH = 12


class Evaluation:
    """An evaluation as it is read from its folder; a `DataError` if it is damaged."""

    def __init__(self, folder: Location) -> None:
        self.folder, self.manifest = folder, evaluations.Manifest.of(folder)
        self.metrics = atomic_files.read_json(folder.path / evaluations.METRICS, "evaluation")
        # `step`, `settings`, and the rows of the curves, as `log`.
        self.training = atomic_files.read_json(folder.path / evaluations.TRAINING, "evaluation")
        self.subject = evaluations.subject(self.training["step"])
        self.samples = (folder.path / evaluations.SAMPLES).read_bytes()  # a sheet, PNG

    def scores(self, images: str) -> metric_labels.Column:
        """Return the scores of images, those of the `model` or `real` ones."""
        return metric_labels.read(self.metrics[images], [space["name"] for space in self.metrics["spaces"]])


def run(config: ReportConfig) -> StageResult:
    """Write the page.

    Raises:
        ConfigError: The file cannot be written there, or there are not two runs.
        DataError: One of them has no evaluation, or it is damaged.
    """
    output = Path(config.output)
    atomic_files.require_writable(output, "output")
    runs = {name: Evaluation(folder) for name, folder in _select(config.runs, config.root).items()}
    atomic_files.write_file(output, pages.render(_PAGE, **_contents(runs)).encode())
    verdicts = ", ".join(f"{name} {run.manifest.verdict}" for name, run in runs.items())
    scored = "; ".join(f"scored {how}" for how in _differences(runs)) or "scored alike"
    return StageResult(parameters={"page_uri": str(output), "summary": f"{verdicts}; {scored}"})


def _select(words: Sequence[str], root: str) -> dict[str, Location]:
    """Return the evaluations to compare, by their names on the page: `run N`, or a letter for a folder."""
    numbers = [word for word in words if word.isdecimal()]
    if len(words) < 2 and not numbers:
        runs = _evaluations_by_run(Location.of(words[0] if words else root))
        last = {location: name for name, location in runs.items()}  # several runs may have the same evaluation
        chosen = {name: runs[name] for name in [name for name in runs if last[runs[name]] == name][-2:]}
    else:
        chosen, numbered = {}, _evaluations_by_run(Location.of(root)) if numbers else {}
        for index, word in enumerate(words):
            name = f"run {int(word)}" if word.isdecimal() else chr(ord("A") + index)
            if word.isdecimal() and name not in numbered:
                raise DataError(f"{name} of {root} has no evaluation, but these have: {', '.join(numbered) or 'none'}")
            chosen[name] = numbered[name] if word.isdecimal() else _find(Location.of(word))
    if len(chosen) < 2:
        place = " ".join(words) or root
        raise ConfigError(f"runs must give at least two evaluations, got {len(chosen)} from {place}; name more runs")
    return chosen


def _evaluations_by_run(root: Location) -> dict[str, Location]:
    """Return the evaluations of the runs under a root, oldest first, by `run N` or the id of a run on a cluster."""
    runs = {}
    for folder, notes in run_notes.read_all(root / "records"):
        number = run_notes.local_number(folder.name)
        for uri in [note.outputs["evaluation_uri"] for note in notes if "evaluation_uri" in note.outputs]:
            runs[f"run {number}" if number else folder.name] = root / "evaluations" / Path(str(uri)).name
    return runs


def _find(location: Location) -> Location:
    """Return the folder of an evaluation: the location, a version of a registry, or the newest of a root."""
    for folder in (location, location / "evaluation", *[*_evaluations_by_run(location).values()][-1:]):
        if folder.fetch(evaluations.MANIFEST):
            return folder
    raise DataError(
        f"no evaluation at {location}: give the folder of an evaluation (it holds {evaluations.MANIFEST}), of a "
        "version in a registry (REGISTRY/versions/N), the root of runs, or the number of a run"
    )


def _contents(runs: dict[str, Evaluation]) -> dict[str, Any]:
    """Return the template's values for runs, by their names on the page."""
    settings_of_stages = {
        "training": [run.training["settings"] for run in runs.values()],
        "evaluation": [run.manifest.settings for run in runs.values()],
    }
    settings = [
        {"stage": stage, "name": name, "values": [settings.get(name, "–") for settings in settings_of_runs]}
        for stage, settings_of_runs in settings_of_stages.items()
        for name in sorted(set().union(*settings_of_runs))
    ]
    models = {name: run.scores("model") for name, run in runs.items()}
    real = {f"real images of {name}": run.scores("real") for name, run in runs.items()}
    if _alike(list(real.values())):
        real = {"real images": next(iter(real.values()))}
    samples = []
    for name, run in runs.items():
        png = grids.shrunk_sheet(run.samples, _SAMPLES_BYTES // len(runs))
        samples.append({"caption": f"{name}, {run.subject}", "png": png})
    return {
        "runs": runs,
        "differences": _differences(runs),
        "low_n": any(run.metrics["low_n"] for run in runs.values()),
        "differing": [row for row in settings if not _alike(row["values"])],
        "alike": [row for row in settings if _alike(row["values"])],
        "tables": metric_labels.tables(models | real),
        "samples": samples,
        "curves": charts.training_curves({name: run.training for name, run in runs.items()}),
    }


def _differences(runs: dict[str, Evaluation]) -> list[str]:
    """Return the differences in scoring that make distances incomparable; nothing if scored alike."""
    aspects: dict[str, list[Any]] = {
        "on different data": [run.manifest.dataset_digest[:_DIGEST_LENGTH] for run in runs.values()],
        "on different spaces": [run.manifest.embedding_digest[:_DIGEST_LENGTH] for run in runs.values()],
        "over different numbers of images": [run.metrics["compared"] for run in runs.values()],
    }
    return [f"{how} ({' and '.join(map(str, values))})" for how, values in aspects.items() if not _alike(values)]


def _alike(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)
