"""Why there is no GPU, found in drivers made for the test: real libraries that answer as NVIDIA's would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from components.core.distributed import cuda

BUILD = {"is_cuda_build": True, "cuda_version": "12.5.1", "cuda_compute_capabilities": ["sm_60", "compute_90"]}
DRIVER = """
int cuInit(unsigned flags) {{ return {status}; }}
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = {devices}; return 0; }}
int cuDeviceGetAttribute(int *value, int attribute, int device) {{ *value = attribute == 75 ? {major} : 0; return 0; }}
int cuGetErrorName(int status, const char **text) {{ *text = "NAME_OF_ERROR"; return 0; }}
int cuGetErrorString(int status, const char **text) {{ *text = "words about it"; return 0; }}
"""
WORKING = {"status": 0, "version": 12090, "devices": 1, "major": 9}

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def library(file: Path, source: str = "int nothing;") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file)], input=source, text=True, check=True)


def answer(folder: Path, packages: Path, build: object = BUILD, **more: str) -> str:
    """Ask in a process of its own, as the folders of libraries are read once when a process starts."""
    code = "from components.core.distributed.cuda import why_no_gpu; from pathlib import Path; "
    code += f"print(why_no_gpu({build!r}, Path({str(packages)!r})))"
    plain = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment = {**plain, "LD_LIBRARY_PATH": str(folder), **more}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """NVIDIA's packages with a library of every name."""
    for name in cuda._LIBRARIES:
        library(tmp_path / "packages/nvidia/all/lib" / name)
    return tmp_path / "packages"


@needs_compiler
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 100}, ["100 (NAME_OF_ERROR: words about it)", "CUDA_VISIBLE_DEVICES"]),
        ({"status": 802}, ["802", "fabric manager"]),
        ({"status": 803}, ["803", "restart"]),
        ({"status": 999}, ["999", "nvidia-smi"]),
        ({"version": 11040}, ["11.4", "needs 12"]),
        ({"version": 11040, "status": 999}, ["11.4", "needs 12"]),
        ({"devices": 0}, ["lists no GPU"]),
        ({"major": 5}, ["capability 5.0", "needs 6.0"]),
        ({}, ["TF_CPP_MIN_LOG_LEVEL=0"]),
    ],
)
def test_what_the_driver_answers_is_named(
    tmp_path: Path, packages: Path, changes: dict[str, int], expected: list[str]
) -> None:
    library(tmp_path / "driver/libcuda.so.1", DRIVER.format(**{**WORKING, **changes}))
    found = answer(tmp_path / "driver", packages)
    assert [part for part in expected if part not in found] == [], found


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
    found = answer(tmp_path, tmp_path)
    assert "libcuda.so.1" in found
    assert "--gpus all" in found


@pytest.mark.parametrize("hidden", ["", "-1", " "])
def test_a_variable_that_hides_every_gpu_is_named(tmp_path: Path, hidden: str) -> None:
    assert f"CUDA_VISIBLE_DEVICES is {hidden!r}" in answer(tmp_path, tmp_path, CUDA_VISIBLE_DEVICES=hidden)


def test_a_tensorflow_without_cuda_is_named(tmp_path: Path) -> None:
    found = answer(tmp_path, tmp_path, dict(tf.sysconfig.get_build_info()))
    assert "without CUDA" in found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("libdevice not found at ./libdevice.10.bc [Op:__inference_double_7]", "libdevice.10.bc"),
        ("No DNN in stream executor. [Op:Conv2D]", "cuDNN"),
        ("DNN library initialization failed. Look at the errors above for more details. [Op:Conv2D]", "cuDNN"),
        ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with an unsupported toolchain.", "driver"),
        ("no kernel image is available for execution on the device", "kernels"),
    ],
)
def test_errors_of_a_gpu_that_cannot_compute_are_explained(text: str, named: str) -> None:
    assert named in cuda.why_it_fails(tf.errors.InternalError(None, None, text))


def test_other_errors_are_not_explained() -> None:
    assert cuda.why_it_fails(tf.errors.InvalidArgumentError(None, None, "input and filter differ in depth")) == ""
