"""The report command: evaluations side by side on one HTML page."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core.errors import DataError
from components.core.reporting import grids, metric_labels, pages, training_curves
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.report import evaluation
from components.report.config import ReportConfig

_PAGE = Path(__file__).with_name("compare.html.j2")
_SAMPLES_BYTES = 1_000_000  # for all sheets, so that the page stays small
_DIGEST_LENGTH = 12

Runs = Mapping[str, evaluation.Evaluation]


def run(config: ReportConfig) -> StageResult:
    """Write the page.

    Raises:
        ConfigError: The file cannot be written there, or there are not two runs.
        DataError: One of them has no evaluation, or it is damaged.
    """
    output = Path(config.output)
    atomic_files.require_writable(output, "output")
    chosen = evaluation.select(config.runs, config.root)
    runs = {name: evaluation.read(folder) for name, folder in chosen.items()}
    atomic_files.write_file(output, pages.render(_PAGE, **_contents(runs)).encode())
    verdicts = ", ".join(f"{name} {run.described.verdict}" for name, run in runs.items())
    scored = "; ".join(f"scored {how}" for how in _differences(runs)) or "scored alike"
    return StageResult(parameters={"page_uri": str(output), "summary": f"{verdicts}; {scored}"})


def _contents(runs: Runs) -> dict[str, Any]:
    """Return the template's values for runs, by their names on the page."""
    settings_of_stages = {
        "training": [run.training["settings"] for run in runs.values()],
        "evaluation": [run.described.settings for run in runs.values()],
    }
    settings = [
        {"stage": stage, "name": name, "values": [settings.get(name, "–") for settings in settings_of_runs]}
        for stage, settings_of_runs in settings_of_stages.items()
        for name in sorted(set().union(*settings_of_runs))
    ]
    models = [metric_labels.Column(name, run.model) for name, run in runs.items()]
    real = [metric_labels.Column(f"real images of {name}", run.real) for name, run in runs.items()]
    if _alike([column.scores for column in real]):
        real = [dataclasses.replace(real[0], heading="real images")]
    samples = []
    for name, run in runs.items():
        try:
            png = grids.shrunk_sheet(run.samples, _SAMPLES_BYTES // len(runs))
        except ValueError as error:
            raise DataError(f"the samples of evaluation {run.folder} cannot be read: {error}") from None
        samples.append({"caption": f"{name}, step {run.training['step']:,}", "png": png})
    return {
        "runs": runs,
        "differences": _differences(runs),
        "low_n": any(run.low_n for run in runs.values()),
        "differing": [row for row in settings if not _alike(row["values"])],
        "alike": [row for row in settings if _alike(row["values"])],
        "tables": metric_labels.tables(models + real),
        "samples": samples,
        "curves": training_curves.draw({name: run.training for name, run in runs.items()}),
    }


def _differences(runs: Runs) -> list[str]:
    """Return the differences in scoring that make distances incomparable; nothing if scored alike."""
    aspects: dict[str, list[Any]] = {
        "on different data": [run.described.dataset_digest[:_DIGEST_LENGTH] for run in runs.values()],
        "on different spaces": [run.described.embedding_digest[:_DIGEST_LENGTH] for run in runs.values()],
        "over different numbers of images": [run.compared for run in runs.values()],
    }
    return [f"{how} ({' and '.join(map(str, values))})" for how, values in aspects.items() if not _alike(values)]


def _alike(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)
