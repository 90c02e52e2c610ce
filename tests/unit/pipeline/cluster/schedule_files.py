"""Files of schedules, for tests."""

from pathlib import Path
from typing import Any

import yaml


def write(path: Path, package: Path, target: str, **schedules: dict[str, Any]) -> None:
    """Write a file of schedules by name, each with what it says besides, or otherwise."""
    usual = {
        "cron": "0 9 * * 1",
        "package": str(package),
        "target": target,
        "experiment": "retraining",
        "pipeline_root": "gs://bucket/root",
        "parameters": {"source": "gs://images", "root": "/data/runs", "critic_learning_rate": 0.001},
    }
    content = {"schedules": {name: {**usual, **settings} for name, settings in schedules.items()}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
