"""How many multiplications a second this machine makes in products of matrices; a program, as NumPy loads slowly.

OPENBLAS_NUM_THREADS=1 python -m components.core.networks.products
"""

import time

import numpy as np

from components.core.sources import concurrent

_SIDE, _TRIALS = 512, 40


def rate() -> float:
    """Return the multiplications a second in float32 of one core times their number.

    It is that of the fastest trial, because other programs only slow it down; threads would wait for each other.
    """
    matrix, seconds = np.ones((_SIDE, _SIDE), np.float32), []
    for _ in range(_TRIALS):
        started = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - started)
    return float(concurrent.processors() * _SIDE**3 / min(seconds))


if __name__ == "__main__":
    print(rate())
