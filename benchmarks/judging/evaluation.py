"""Time and memory of an evaluation: 10,000 samples against 10,000 test images, without and with a champion.

    python -m benchmarks.judging.evaluation

Runs the stages as a user does, on Fashion-MNIST: an embedding and two short trainings, the first made champion.
Measures each `python -m components evaluate` as a whole, start and imports included.
"""

import argparse
import shutil

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.processes import measured
from tests.inputs.limits import NO_LIMITS
from tests.proofs.stages import command, stage

_FOLDER = fashion_mnist.BUILD / "evaluation"
_STEPS = 500


def main() -> None:
    """Make missing inputs, evaluate twice, and print a table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    fashion_mnist.prepare()
    dataset, embedding, registry = fashion_mnist.DATASET, _FOLDER / "embedding", _FOLDER / "registry"
    for earlier in ("registry", "model", "evaluation-0", "evaluation-1"):
        shutil.rmtree(_FOLDER / earlier, ignore_errors=True)
    stage("embed", dataset=dataset, embedding=embedding)
    # So short a training is not good; what is measured does not depend on that.
    common = {**NO_LIMITS, "dataset": dataset, "embedding": embedding, "registry": registry}
    turns = {}
    for seed, case in enumerate(("without a champion", "with a champion beside it")):
        stage("train", dataset=dataset, checkpoints=_FOLDER / f"training-{seed}", steps=_STEPS, seed=seed)
        checkpoint = _FOLDER / f"training-{seed}" / f"step-{_STEPS:010d}"
        location = _FOLDER / f"evaluation-{seed}"
        turns[case] = measured(command("evaluate", checkpoint=checkpoint, evaluation=location, **common))
        if not seed:
            stage("export", checkpoint=checkpoint, model=_FOLDER / "model")
            stage("publish", model=_FOLDER / "model", evaluation=location, registry=registry)
    rows = [[case, f"{turn.seconds:.0f}", f"{turn.mebibytes:,.0f}"] for case, turn in turns.items()]
    tables.show("Evaluation", ["10,000 samples against 10,000 test images", "seconds", "MiB at most"], rows)


if __name__ == "__main__":
    main()
