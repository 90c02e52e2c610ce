"""Metrics of two sets of features, and the paired test of two models; NumPy and SciPy alone."""

from components.core.metrics.neighbors import copy_share, copy_z, make_balls, nearest, overlap
from components.core.metrics.set_distances import frechet_distance, frechet_halves, kernel_distances, mean_and_error
from components.core.metrics.whitening import fit_whitening
from components.evaluate.judging.comparison import compare

__all__ = [
    "compare",
    "copy_share",
    "copy_z",
    "fit_whitening",
    "frechet_distance",
    "frechet_halves",
    "kernel_distances",
    "make_balls",
    "mean_and_error",
    "nearest",
    "overlap",
]
