"""Files of many images, written by the libraries of their formats."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import scipy.io


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def npz(compressed: bool = False, /, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def mat(compressed: bool = False, /, **arrays: Any) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, arrays, do_compression=compressed)
    return file.getvalue()


def parquet(features: dict[str, Any] | None = None, packing: str = "snappy", /, **columns: Any) -> bytes:
    """Return a table in groups of four rows, with the features that `datasets` notes, if any."""
    table = pyarrow.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression=packing, row_group_size=4)
    return file.getvalue()


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def entry(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, target
    return info


def tarred(files: Mapping[str, bytes], form: int = tarfile.GNU_FORMAT, *others: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, content in files.items():
            archive.addfile(entry(name, len(content)), io.BytesIO(content))
        for other in others:
            archive.addfile(other)
    return file.getvalue()
