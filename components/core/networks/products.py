"""How many multiplications a second this machine makes in products of matrices; a program, as NumPy loads slowly.

OPENBLAS_NUM_THREADS=1 python -m components.core.networks.products
"""

import time

import numpy as np

from components.core import concurrent

_SIDE, _TRIALS = 512, 40


if __name__ == "__main__":
    matrix, seconds = np.ones((_SIDE, _SIDE), np.float32), []
    for _ in range(_TRIALS):
        started = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - started)
    # Of one core times their number, as threads would wait for each other; other programs slow down all but the best.
    print(float(concurrent.processors() * _SIDE**3 / min(seconds)))
