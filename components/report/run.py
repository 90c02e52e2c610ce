"""The report command: evaluations side by side on one HTML page."""

from pathlib import Path

from components.core.reporting import pages
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.report import contents, evaluation
from components.report.config import ReportConfig

_PAGE = Path(__file__).with_name("compare.html.j2")


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
    atomic_files.write_file(output, pages.render(_PAGE, **contents.of(runs)).encode())
    verdicts = ", ".join(f"{name} {run.described.verdict}" for name, run in runs.items())
    scored = "; ".join(f"scored {how}" for how in contents.differences(runs)) or "scored alike"
    return StageResult(parameters={"page_uri": str(output), "summary": f"{verdicts}; {scored}"})
