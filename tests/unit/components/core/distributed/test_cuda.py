"""Why there is no GPU, found in drivers made for the test: real libraries that answer as NVIDIA's would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.core.distributed import cuda

DRIVER = """
int cuInit(unsigned flags) {{ return {status}; }}
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = {devices}; return 0; }}
"""
WORKING = {"status": 0, "version": 12090, "devices": 1}

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def library(file: Path, source: str = "int nothing;") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file)], input=source, text=True, check=True)


def answer(folder: Path, packages: Path) -> str:
    """Ask in a process of its own, as the folders of libraries are read once when a process starts."""
    code = "from components.core.distributed.cuda import why_no_gpu; from pathlib import Path; "
    code += f"print(why_no_gpu(Path({str(packages)!r})))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    first, *others = (tmp_path / "packages/nvidia/all/lib" / name for name in cuda._LIBRARIES)
    library(first)
    for other in others:
        shutil.copyfile(first, other)
    return tmp_path / "packages"


@needs_compiler
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 100}, ["100", "CUDA_VISIBLE_DEVICES", "nvidia-smi"]),
        ({"version": 11040, "status": 999}, ["11.4", "needs 12"]),
        ({"devices": 0}, ["nvidia-smi"]),
        ({}, ["TF_CPP_MIN_LOG_LEVEL=0"]),
    ],
)
def test_the_answer_is_named(tmp_path: Path, packages: Path, changes: dict[str, int], expected: list[str]) -> None:
    library(tmp_path / "driver/libcuda.so.1", DRIVER.format(**{**WORKING, **changes}))
    message = answer(tmp_path / "driver", packages)
    assert [part for part in expected if part not in message] == [], message


@needs_compiler
@pytest.mark.parametrize("name", ["libcudnn.so.9", "libcudart.so.12"])
def test_a_missing_or_damaged_library_is_named(tmp_path: Path, packages: Path, name: str) -> None:
    library(tmp_path / "driver/libcuda.so.1", DRIVER.format(**WORKING))
    file = packages / "nvidia/all/lib" / name
    file.write_bytes(b"no library")
    assert f"{file}: " in answer(tmp_path / "driver", packages)
    file.unlink()
    assert f"{name}: " in answer(tmp_path / "driver", packages)


def test_without_a_driver_the_driver_is_named(tmp_path: Path) -> None:
    message = answer(tmp_path, tmp_path)
    assert "libcuda.so.1" in message
    assert "--gpus all" in message
