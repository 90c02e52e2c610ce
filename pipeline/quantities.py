"""Amounts of processor and memory as Kubernetes writes them and Kubeflow reads them: `500m`, `1.5`, `16Gi`, `32G`."""

import re

_CPU = re.compile(r"(?:[0-9]{0,9}\.)?[0-9]{1,9}m?")
_MEMORY = re.compile(r"([0-9]{1,18})([EPTGMK]?)(i?)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def cores(text: str) -> float:
    """The number of processors, such as 0.5 for `500m`.

    Raises:
        ValueError: It is no such text; the message says what is expected.
    """
    if not _CPU.fullmatch(text):
        raise ValueError("a number of processors such as 4, 0.5 or 500m")
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def size(text: str) -> int:
    """The number of bytes, such as 16 * 2**30 for `16Gi`.

    Raises:
        ValueError: It is no such text; the message says what is expected.
    """
    found = _MEMORY.fullmatch(text)
    if not found or (found[3] and not found[2]):
        raise ValueError("a whole number with K, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, such as 16Gi")
    base = 1024 if found[3] else 1000
    return int(found[1]) * int(base ** _POWERS[found[2]])
