"""The evaluate stage: read the inputs, make the evaluation, return its outputs."""

import logging

from components.core.artifacts import evaluations
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.evaluate.config import EvaluateConfig
from components.evaluate.inputs import LocalFiles, read_inputs

log = logging.getLogger(__name__)


def run(config: EvaluateConfig) -> StageResult:
    """Judge a checkpoint against the registry's champion if there is one.

    Raises:
        ConfigError: The inputs do not belong together.
        DataError: An input is missing or damaged, or there are too few images. A champion that cannot be read raises
            nothing: it means REJECT.
    """
    inputs = read_inputs(config)
    parts = cache_key.key_parts("evaluate", config, **inputs.digests)

    def make(location: Location) -> None:
        files = LocalFiles(config, inputs)
        log.info("evaluate: loading TensorFlow")
        from components.evaluate.make import make  # here, so that a finished evaluation is found at once

        with location.new_folder(evaluations.MANIFEST) as folder:
            make(config, inputs, files, folder)

    location, manifest, reused = evaluations.Manifest.made_once(config.evaluation, parts, make)
    numbers = atomic_files.read_json(location.path / evaluations.METRICS, "evaluation")
    name, scores = numbers["distance"], numbers["model"]  # of the Fréchet distance in the first space; of the model
    rows = {
        **scores,
        f"{name}_floor": numbers["real"][name],
        f"champion_{name}": numbers["champion"][name] if numbers["champion"] else None,
        "samples": numbers["samples"],
    }
    distance, value, ratio = "FCD" if name == "fcd" else name, scores[name], scores[f"{name}_ratio"]
    missing = value is None or ratio is None
    distance = f"no {distance}" if missing else f"{distance} {value:.3g}, {ratio:.1f} x real against real"
    return StageResult(
        parameters={
            "evaluation_uri": location.uri,
            "evaluation_digest": manifest.digest,
            "verdict": manifest.verdict,
            "summary": "; ".join([f"{manifest.verdict}: {distance}", *manifest.reasons]),
        },
        reused=reused,
        metrics={name: value for name, value in rows.items() if value is not None},
        files={"report": location.path / evaluations.REPORT},
    )
