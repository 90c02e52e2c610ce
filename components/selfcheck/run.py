"""The selfcheck command: choose the hardware, run each check, and print the findings."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator

import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.core.distributed.strategies import choose_strategy, detect
from components.core.errors import ConfigError, StageError
from components.core.stage.executor import StageResult
from components.selfcheck import checks
from components.selfcheck.config import SelfcheckConfig
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import network_of

log = logging.getLogger(__name__)

_CPU_REPLICAS = 2
_FLOAT64_TOLERANCE, _FLOAT32_TOLERANCE = 1e-9, 2e-3


def run(config: SelfcheckConfig) -> StageResult:
    """Run every check and print the table.

    Raises:
        ConfigError: The hardware is missing, or cannot share the batch.
        StageError: A check failed; the table names it.
    """
    kind = detect() if config.accelerator == "auto" else config.accelerator
    replicas = config.replicas or (_CPU_REPLICAS if kind == "cpu" else 0)
    # Each check traces another step, and TensorFlow warns about retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    many = choose_strategy(kind, replicas, config.batch_size, exact=config.reproducibility == "exact")
    if kind == "cpu" and many.num_replicas_in_sync == 1:
        raise ConfigError("replicas must be at least 2 on a CPU, got 1: one replica has no other to compare with")
    training_fields = {field.name for field in dataclasses.fields(TrainConfig)}
    shared = {name: value for name, value in dataclasses.asdict(config).items() if name in training_fields}
    training = TrainConfig(dataset="none", checkpoints="none", **shared)
    subject = checks.Subject(
        config=training,
        network=network_of(training, ImageShape(config.height, config.width, config.channels), config.classes),
        one=tf.distribute.OneDeviceStrategy("/gpu:0" if kind == "gpu" else "/cpu:0"),
        many=many,
        tolerance=_FLOAT32_TOLERANCE if kind == "tpu" else _FLOAT64_TOLERANCE,
    )
    findings, started = [], time.monotonic()
    for finding in _findings(subject, kind):
        findings.append(finding)
        log.info("selfcheck: %s: %s (%.0f s so far)", finding.check, finding.outcome, time.monotonic() - started)
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        print(f"{finding.check:<{width}}  {finding.outcome:<11}  {finding.detail}")
    outcomes = [finding.outcome for finding in findings]
    failed, passed = outcomes.count(checks.FAILED), outcomes.count(checks.PASSED)
    if failed:
        raise StageError(f"{failed} of {len(findings)} checks failed; do not trust a training with these settings here")
    return StageResult(parameters={"summary": f"{passed} checks passed, {len(findings) - passed} not made"})


def _findings(subject: checks.Subject, kind: str) -> Iterator[checks.Finding]:
    yield checks.check_input_order(subject)
    yield checks.check_second_order(subject)
    # In float64 rounding cannot hide a mistake; a TPU has none, and multiplies in bfloat16.
    with contextlib.nullcontext() if kind == "tpu" else in_float64():
        yield from checks.check_step(subject)
        yield checks.check_losses(subject)
        if kind != "tpu":  # there everything is compiled by XLA
            yield checks.check_xla(subject)
    missing = {"cpu": "a GPU or a TPU", "gpu": "a TPU", "tpu": "a GPU"}[kind]
    yield checks.Finding("other hardware", checks.NOT_CHECKED, f"{missing}: run this there")
