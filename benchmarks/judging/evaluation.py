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
from tests.proofs.stages import command, make_embedding, stage

_FOLDER = fashion_mnist.BUILD / "evaluation"
_STEPS = 500


def main() -> None:
    """Make missing inputs, evaluate twice, and print a table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    dataset, registry, evaluations = fashion_mnist.prepare(), _FOLDER / "registry", _FOLDER / "evaluations"
    for earlier in (registry, evaluations):
        shutil.rmtree(earlier, ignore_errors=True)
    embedding = make_embedding(_FOLDER, dataset)
    # So short a training is not good; what is measured does not depend on that.
    common = {**NO_LIMITS, "dataset": dataset, "embedding": embedding, "registry": registry}
    turns = {}
    for seed, case in enumerate(("without a champion", "with a champion beside it")):
        trained = stage("train", dataset=dataset, checkpoints=_FOLDER / "checkpoints", steps=_STEPS, seed=seed)
        checkpoint = trained["checkpoint_uri"]
        turns[case] = measured(command("evaluate", checkpoint=checkpoint, evaluation=evaluations, **common))
        if not seed:
            (evaluation,) = evaluations.iterdir()
            model = stage("export", checkpoint=checkpoint, model=_FOLDER / "models")["model_uri"]
            stage("publish", model=model, evaluation=evaluation, registry=registry)
    rows = [[case, f"{turn.seconds:.0f}", f"{turn.mebibytes:,.0f}"] for case, turn in turns.items()]
    tables.show("Evaluation", ["10,000 samples against 10,000 test images", "seconds", "MiB at most"], rows)


if __name__ == "__main__":
    main()
