"""Tests for the selfcheck: it passes on the real step, and catches every common mistake."""

import sys
from typing import Any

import keras
import pytest
import tensorflow as tf

from components.core import errors
from components.core.artifacts.datasets import ImageShape
from components.core.distributed.global_batch import BatchPartition, BatchShard, apply_update
from components.core.networks import gan
from components.core.stage import cli
from components.selfcheck import checks
from components.train import step
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from tests import programs
from tests.programs import on_replicas


def _plants(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[object, str, Any]]:
    """Return what makes each common mistake in the step: an object, its attribute, and another value of that.

    They test the checks of `selfcheck`, a command of users, not our tests: those must fail on each such mistake.
    """
    context, here = tf.distribute.ReplicaContext, BatchPartition.here
    build: Any = gan.build_generator
    all_reduce, shard_of = context.all_reduce, BatchShard.of

    def mean_instead_of_sum(self: Any, op: Any, value: Any) -> Any:
        return all_reduce(self, tf.distribute.ReduceOp.MEAN, value)

    def reduced_twice(self: Any, op: Any, value: Any) -> Any:
        return all_reduce(self, op, all_reduce(self, op, value))

    def by_local_batch(terms: Any, variables: Any, adam: Any, sharing: BatchPartition, *rest: Any) -> Any:
        local = BatchPartition(sharing.batch // int(tf.distribute.get_replica_context().num_replicas_in_sync))
        monkeypatch.setattr(BatchPartition, "here", lambda _: here(sharing))
        return apply_update(terms, variables, adam, local, *rest)

    def same_noise_everywhere(self: BatchShard, values: tf.Tensor) -> tf.Tensor:
        return shard_of(self, values) if values.dtype == tf.uint8 else values[: self.size]

    def unsynchronized(*arguments: Any, **settings: Any) -> keras.Model:
        return build(*arguments, **{**settings, "synchronized": False})

    return {
        "none": (gan, "build_generator", build),
        "mean, not sum": (context, "all_reduce", mean_instead_of_sum),
        "reduced twice": (context, "all_reduce", reduced_twice),
        "local batch as divisor": (step, "apply_update", by_local_batch),
        "noise per replica": (BatchShard, "of", same_noise_everywhere),
        "BN unsynchronized": (gan, "build_generator", unsynchronized),
    }


def _subject(strategy: tf.distribute.Strategy | None = None) -> checks.Subject:
    one = tf.distribute.OneDeviceStrategy("/cpu:0")
    return checks.Subject(
        config=TrainConfig(dataset="none", checkpoints="none", batch_size=8, latent_size=6, base_filters=4),
        network=gan.NetworkConfig(ImageShape(12, 10, 1), 6, 4),
        one=one,
        many=strategy or one,
        tolerance=1e-9,
    )


def outcomes(strategy: tf.distribute.Strategy) -> dict[str, str]:
    """Return how the checks end on a sound build and on each faulty one, up to the first failure."""
    outcome_of = {}
    for fault in _plants(pytest.MonkeyPatch()):
        subject = _subject(strategy)
        with pytest.MonkeyPatch.context() as monkeypatch, in_float64():
            monkeypatch.setattr(*_plants(monkeypatch)[fault])
            failed = (finding.check for finding in checks.check_step(subject) if finding.outcome == checks.FAILED)
            outcome_of[fault] = next(failed, None) or checks.check_losses(subject).outcome
    return outcome_of


@pytest.mark.slow
def test_every_planted_fault_is_caught() -> None:
    outcome_of = on_replicas(__file__, "outcomes", 2)
    assert [fault for fault, failed in outcome_of.items() if failed == checks.PASSED] == ["none"]


@pytest.mark.slow
def test_the_checks_need_no_equal_noise_on_unequal_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a TPU other numbers come from the same seed; here one more than on the other device."""
    subject, noise = _subject(tf.distribute.OneDeviceStrategy("/cpu:0")), step.WganStep._noise

    def noise_by_strategy(self: step.WganStep, *arguments: Any) -> tf.Tensor:
        return noise(self, *arguments) + float(self._strategy is subject.many)

    monkeypatch.setattr(step.WganStep, "_noise", noise_by_strategy)
    with in_float64():
        findings = [*checks.check_step(subject), checks.check_losses(subject)]
    assert {finding.outcome for finding in findings} == {checks.PASSED}


SMALL = ("--height=12", "--width=10", "--batch_size=8", "--base_filters=4")


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["--critic_steps=2", "--augmentation=geometric"],
        pytest.param(["--conditioning=class", "--classes=3"], marks=pytest.mark.long),
    ],
)
def test_it_passes_here_and_says_what_it_could_not_check(more: list[str]) -> None:
    done = programs.run([sys.executable, "-m", "components", "selfcheck", *SMALL, *more])
    assert done.returncode == errors.OK, done.stderr
    rows = [line for line in done.stdout.splitlines() if "  " in line]
    assert len(rows) == 8
    assert sum(" passed " in row for row in rows) == 7


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--batch_size=2", "--replicas=3"), "batch_size"),
        (("--accelerator=cpu", "--replicas=1"), "replicas"),
        (("--accelerator=gpu",), "GPU"),
        (("--accelerator=tpu", "--reproducibility=exact"), "reproducibility"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    flags: tuple[str, ...], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert cli.main("selfcheck", [*flags]) == errors.BAD_CONFIGURATION
    assert named in caplog.text
    assert "Traceback" not in caplog.text


def test_a_tensorflow_without_xla_for_the_device_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like `tensorflow-tpu` 2.20 on a CPU, which cannot be installed beside `tensorflow-cpu`."""
    function = tf.function

    def without_xla(called: Any, jit_compile: bool | None = None, **options: Any) -> Any:
        def answer(*_: Any) -> Any:
            raise tf.errors.NotFoundError(None, None, "could not find registered transfer manager for platform Host\n")

        return answer if jit_compile else function(called, **options)

    monkeypatch.setattr(tf, "function", without_xla)
    finding = checks.check_xla(_subject())
    assert finding.outcome == checks.NOT_CHECKED
    assert finding.detail.endswith("could not find registered transfer manager for platform Host")


def test_a_step_that_xla_cannot_compile_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_text(self: step.WganStep, *_: Any) -> dict[str, tf.Tensor]:
        return {"loss": tf.strings.length(tf.as_string(self.step))}

    for update in ("critic_update", "generator_update"):
        monkeypatch.setattr(step.WganStep, update, as_text)
    finding = checks.check_xla(_subject())
    assert finding.outcome == checks.FAILED
    assert "unsupported operations" in finding.detail


# A common mistake in a line, and the checks that can see it.
PENALTY_WITHOUT_GRADIENT = """
import sys
import tensorflow as tf
from components.core.stage import cli
from components.selfcheck import checks
from components.train import losses
norms = losses.gradient_norms
losses.gradient_norms = lambda critic, points: tf.stop_gradient(norms(critic, points))
checks.check_step = lambda subject: []
checks.check_losses = checks.check_xla = checks.check_input_order
sys.exit(cli.main("selfcheck", sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_build_with_a_penalty_that_has_no_gradient_ends_with_70() -> None:
    done = programs.run([sys.executable, "-c", PENALTY_WITHOUT_GRADIENT, *SMALL])
    assert done.returncode == errors.DEFECT, done.stderr
    assert done.stdout.count("FAILED") == 1
