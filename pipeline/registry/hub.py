"""`wgan registry export`: a version as a folder that is ready to upload to the Hugging Face Hub."""

import shutil
from pathlib import Path

import yaml

from components.core.artifacts import evaluations, models
from components.core.artifacts.lineage import Lineage
from components.core.errors import ConfigError
from components.core.registry.registry import EVALUATION, Version
from components.core.storage import atomic_files

CARD = "README.md"
_TASK = "unconditional-image-generation"


def export(
    version: Version, origin: Lineage, source: Path, folder: Path, license_id: str, hub_datasets: list[str]
) -> None:
    """Write SavedModel, samples and model card of a version in `source` to a new folder.

    The card is that of the registry below the Hub's metadata. `license_id` and `hub_datasets` are the user's: the Hub's
    identifier of a license, and names of datasets there. Raises `ConfigError` if the folder exists, and `KeyError` if
    the evaluation lacks a score.
    """
    if folder.exists():
        raise ConfigError(f"FOLDER is {folder}, which exists: name a new one")
    judged = source / EVALUATION
    numbers = atomic_files.read_json(judged / evaluations.METRICS, "evaluation")
    distance, labels = numbers["distance"], dict(numbers["names"])
    metrics = [
        {"type": score, "name": labels[score], "value": numbers["model"][score]}
        for score in (distance, f"{distance}_ratio")
    ]
    data = hub_datasets[0] if hub_datasets else origin.dataset["source"]["kind"]
    result = {"task": {"type": _TASK}, "dataset": {"type": data, "name": data}, "metrics": metrics}
    metadata = {
        "license": license_id,
        **({"datasets": hub_datasets} if hub_datasets else {}),
        "library_name": "tensorflow",
        "pipeline_tag": _TASK,
        "tags": ["gan", "wgan-gp", "tensorflow"],
        "model-index": [{"name": folder.name, "results": [result]}],
    }
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    card = (source / models.CARD).read_text(encoding="utf-8")
    with atomic_files.new_folder(folder, CARD) as new_folder:
        for name in version.model.files:
            (new_folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, new_folder / name)
        shutil.copyfile(judged / evaluations.SAMPLES, new_folder / evaluations.SAMPLES)
        text = f"---\n{front}---\n\n![Samples]({evaluations.SAMPLES})\n\n{card}"
        atomic_files.write_file(new_folder / CARD, text.encode())
