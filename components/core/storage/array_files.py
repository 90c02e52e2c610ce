"""NPZ files with the same bytes on every Python.

`np.savez` leaves the frame around each array to Python's zipfile, which changed it between 3.11.2 and 3.11.7: the same
weights would have another digest in a container than beside it.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

# The earliest time that a ZIP archive can hold, instead of the current one.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of any shape and dtype but object, in the order of their names."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[name]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
            entry.create_system = _UNIX
            # As a whole, so that the size is known and the frame is the short one below 2 GiB.
            archive.writestr(entry, buffer.getbuffer())
