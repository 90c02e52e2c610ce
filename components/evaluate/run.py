"""The evaluate stage: read the inputs, choose the checkpoint, make the evaluation, return its outputs."""

import dataclasses
import logging

from components.core import settings
from components.core.artifacts import checkpoints, evaluations, training_log
from components.core.artifacts.made_once import made_once
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.evaluate.config import BEST, EvaluateConfig
from components.evaluate.inputs import Inputs, read_inputs, training_of

log = logging.getLogger(__name__)


def run(config: EvaluateConfig) -> StageResult:
    """Judge a checkpoint, or the best of its training, against the registry's champion if there is one.

    Returns:
        evaluation_uri, evaluation_digest: The artifact.
        judged_checkpoint_uri, judged_checkpoint_digest: The checkpoint that was judged.
        verdict: PROMOTE, HOLD or REJECT.
        Metric rows, and the report as a file.

    Raises:
        ConfigError: The folder holds something else, or the inputs do not belong together.
        DataError: An input is missing or damaged, or there are too few images. A champion that cannot be read raises
            nothing: it means REJECT.
    """
    inputs = read_inputs(config)
    if config.export_checkpoint == BEST:
        config, inputs = _choose(config, inputs)
    parts = cache_key.key_parts("evaluate", config, **inputs.digests)
    location = Location.of(cache_key.fill_key(config.evaluation, parts))

    def make() -> None:
        # Imported here, so that a finished evaluation is found without TensorFlow.
        log.info("evaluate: loading TensorFlow")
        from components.evaluate.make import make

        if inputs.choice is None:  # otherwise it was fetched for the choice
            (training_of(config) / training_log.SCORES).fetch_file()
        make(config, inputs, location)

    identity = {**settings.values_in_key(config), **inputs.digests}
    description, reused = made_once(
        location, evaluations.Description, identity, make, cache_key.is_keyed(config.evaluation)
    )
    return _result(config, location, description, reused)


def _choose(config: EvaluateConfig, inputs: Inputs) -> tuple[EvaluateConfig, Inputs]:
    """Replace the last checkpoint by the best of the training."""
    from components.evaluate.checkpoint_scores import Scorer

    dataset, embedding, training = Location.of(config.dataset), Location.of(config.embedding), training_of(config)
    scorer = Scorer(
        dataset, inputs.manifest, embedding, inputs.embedding, sample_count=config.sample_count, seed=config.seed
    )
    (training / training_log.SCORES).fetch_file()
    training.fetch_intact(checkpoints.MANIFEST)
    choice = scorer.choose(training, inputs.checkpoint.step)
    log.info("evaluate: %s", choice.reason)
    folder = checkpoints.step_folder(training, choice.chosen.step)
    checkpoint = checkpoints.Description.of(folder, choice.chosen.checkpoint_digest)
    return (
        dataclasses.replace(config, checkpoint=str(folder), checkpoint_digest=checkpoint.digest),
        dataclasses.replace(inputs, checkpoint=checkpoint, choice=choice),
    )


def _result(
    config: EvaluateConfig, location: Location, description: evaluations.Description, reused: bool
) -> StageResult:
    numbers = atomic_files.read_json(location / evaluations.METRICS, "evaluation")
    name = evaluations.distance_name(numbers)
    rows = {
        **numbers["model"],
        f"{name}_floor": numbers["real"][name],
        f"champion_{name}": numbers["champion"][name] if numbers["champion"] else None,
        "samples": numbers["samples"],
    }
    value, ratio = numbers["model"][name], numbers["model"][f"{name}_ratio"]
    shown = "FCD" if name == "fcd" else name
    distance = (
        f"no {shown}" if value is None or ratio is None else f"{shown} {value:.3g}, {ratio:.1f} x real against real"
    )
    candidates = len(numbers["choice"]["candidates"]) if numbers["choice"] else 1
    if candidates > 1:
        distance += f" at step {numbers['step']:,}, the best of {candidates} checkpoints"
    return StageResult(
        parameters={
            "evaluation_uri": location.uri,
            "evaluation_digest": description.digest,
            "judged_checkpoint_uri": Location.of(config.checkpoint).uri,
            "judged_checkpoint_digest": description.checkpoint_digest,
            "verdict": description.verdict,
            "summary": "; ".join([f"{description.verdict}: {distance}", *description.reasons]),
        },
        reused=reused,
        metrics={name: value for name, value in rows.items() if value is not None},
        files={"report": location.path / evaluations.REPORT},
    )
