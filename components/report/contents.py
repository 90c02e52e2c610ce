"""What the page of two evaluations shows."""

from collections.abc import Mapping
from typing import Any

from components.core.errors import DataError
from components.core.reporting import grids, metric_labels, training_curves
from components.report.evaluation import Evaluation

_SAMPLES_BYTES = 500_000  # of each sheet, so that the page stays small
_DIGEST_LENGTH = 12

Runs = Mapping[str, Evaluation]


def of(runs: Runs) -> dict[str, Any]:
    """Everything that the template asks for.

    Args:
        runs: The two, by the names that the page gives them.

    Raises:
        DataError: A sheet of samples cannot be read.
    """
    settings = _settings(runs)
    trainings = {name: run.training for name, run in runs.items()}
    return {
        "runs": runs,
        "differences": differences(runs),
        "low_n": any(run.low_n for run in runs.values()),
        "differing": [row for row in settings if row["values"][0] != row["values"][1]],
        "alike": [row for row in settings if row["values"][0] == row["values"][1]],
        "tables": _metric_tables(runs),
        "samples": [
            {"caption": f"{name}, step {run.training['step']:,}", "png": _shrunk(run)} for name, run in runs.items()
        ],
        "curves": training_curves.draw(trainings, distances=not differences(runs)),
    }


def differences(runs: Runs) -> list[str]:
    """How the two were scored otherwise, so that distances cannot be compared; nothing if scored alike."""
    first, second = runs.values()
    found = [
        (
            f"on different {what}",
            getattr(first.described, name)[:_DIGEST_LENGTH],
            getattr(second.described, name)[:_DIGEST_LENGTH],
        )
        for what, name in (("data", "dataset_digest"), ("spaces", "embedding_digest"))
    ]
    found.append(("over different numbers of images", first.compared, second.compared))
    return [f"{how} ({one} and {other})" for how, one, other in found if one != other]


def _settings(runs: Runs) -> list[dict[str, Any]]:
    """A row for each setting of training and evaluation, with the value of each run; a dash for none."""
    stages = {
        "training": [run.training["settings"] for run in runs.values()],
        "evaluation": [run.described.settings for run in runs.values()],
    }
    return [
        {"stage": stage, "name": name, "values": [settings.get(name, "–") for settings in both]}
        for stage, both in stages.items()
        for name in sorted(set().union(*both))
    ]


def _metric_tables(runs: Runs) -> list[dict[str, Any]]:
    """Scores of both models, and of real images: once where they are the same."""
    columns = [metric_labels.Column(name, run.model, run.spaces) for name, run in runs.items()]
    real = {f"real images of {name}": run for name, run in runs.items()}
    first, second = runs.values()
    if first.real == second.real:
        real = {"real images": first}
    return metric_labels.tables(
        columns + [metric_labels.Column(name, run.real, run.spaces) for name, run in real.items()]
    )


def _shrunk(run: Evaluation) -> bytes:
    try:
        return grids.shrunk_sheet(run.samples, _SAMPLES_BYTES)
    except ValueError as error:
        raise DataError(f"the samples of evaluation {run.given} cannot be read: {error}") from None
