"""Our metrics against torch-fidelity's and prdc's on the same features. `metrics.md` has the results.

The features are written in this project's environment, from samples of a checkpoint and the test images:

    python -m benchmarks.judging.metrics_oracle --features F.npz --dataset D --embedding E --checkpoint C

and compared in an environment that has the others as well (`pip install torch-fidelity==0.4.0 prdc==0.2 torch
torchvision scipy scikit-learn`), from the top of the repository:

    python -m benchmarks.judging.metrics_oracle --features F.npz
"""

import argparse
from pathlib import Path

import numpy as np

from components.core.metrics import feature_spaces, neighbors, set_distances

_COUNT = 10_000
_NEIGHBOR = 5


def write_features(path: Path, dataset: str, embedding: str, checkpoint: str) -> None:
    """Write the features of samples and of test images in each space, float64 [10000, components]."""
    from components.core.artifacts import checkpoints, datasets
    from components.core.data import dataset_reader
    from components.evaluate.scoring import candidates, samples

    manifest = datasets.Manifest.of(dataset, "")
    loaded = feature_spaces.load(embedding)
    generator = candidates.averaged(checkpoint, checkpoints.Description.of(checkpoint))
    drawn = np.concatenate([batch for batch, _ in samples.draw(generator, manifest.image, _COUNT, seed=0)])
    real = dataset_reader.load_split(dataset, manifest, "test")[0]
    real = real[np.random.default_rng(0).permutation(len(real))[:_COUNT]]
    arrays = {
        f"{space}/{what}": features
        for what, images in (("drawn", drawn), ("real", real))
        for space, features in loaded.embed(images)[0].items()
    }
    np.savez(path, allow_pickle=False, **arrays)


def of_ours(drawn: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Compute this project's metrics."""
    shared = neighbors.overlap(neighbors.make_balls(drawn), neighbors.make_balls(real))
    return {
        "Fréchet distance": set_distances.frechet_distance(drawn, real),
        "kernel distance": float(set_distances.kernel_distances(drawn, real).mean()),
        "precision": shared.precision,
        "recall": shared.recall,
        "density": shared.density,
        "coverage": float(shared.covered.mean()),
    }


def of_torch_fidelity(drawn: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Compute torch-fidelity's metrics, the kernel distance on our blocks, as it draws its own at random."""
    import torch
    from torch_fidelity import metric_fid, metric_kid, metric_prc

    tensors = torch.from_numpy(drawn), torch.from_numpy(real)
    statistics = [metric_fid.fid_features_to_statistics(tensor) for tensor in tensors]
    size = len(drawn) // set_distances.KERNEL_BLOCKS
    kernel = {"kid_kernel": "poly", "kid_kernel_poly_degree": 3, "kid_kernel_poly_coef0": 1}
    blocks = [
        metric_kid.kernel_mmd(drawn[at : at + size], real[at : at + size], **kernel)
        for at in range(0, len(drawn), size)
    ]
    precision, recall = metric_prc.calculate_precision_recall_part(*tensors, neighborhood=_NEIGHBOR, batch_size=1000)
    fid = metric_fid.fid_statistics_to_metric(*statistics, verbose=False)
    return {
        "Fréchet distance": float(fid["frechet_inception_distance"]),
        "kernel distance": float(np.mean(blocks)),
        "precision": precision,
        "recall": recall,
    }


def of_prdc(drawn: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Compute the metrics of prdc, which is by the authors of density and coverage."""
    from prdc import compute_prdc

    return {name: float(value) for name, value in compute_prdc(real, drawn, _NEIGHBOR).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", required=True, type=Path)
    parser.add_argument("--dataset", default="")
    parser.add_argument("--embedding", default="")
    parser.add_argument("--checkpoint", default="")
    arguments = parser.parse_args()
    if arguments.checkpoint:
        write_features(arguments.features, arguments.dataset, arguments.embedding, arguments.checkpoint)
        return
    with np.load(arguments.features) as arrays:
        spaces = sorted({name.split("/")[0] for name in arrays.files})
        for space in spaces:
            drawn, real = arrays[f"{space}/drawn"], arrays[f"{space}/real"]
            ours = of_ours(drawn, real)
            for library, theirs in (
                ("torch-fidelity", of_torch_fidelity(drawn, real)),
                ("prdc", of_prdc(drawn, real)),
            ):
                for name, value in theirs.items():
                    difference = abs(ours[name] - value) / abs(value)
                    print(f"| {space} | {name} | {ours[name]:.9g} | {library} | {value:.9g} | {difference:.1e} |")


if __name__ == "__main__":
    main()
