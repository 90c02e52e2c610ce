"""Why TensorFlow uses no GPU, and what to do about it.

TensorFlow logs the cause in C++, below the level that users see, or not at all, and goes on with the CPU. Standard
library only: the causes are looked up in NVIDIA's driver itself.
"""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DRIVER = "libcuda.so.1"
# Libraries that TensorFlow loads beside the driver, without which it takes no GPU; the versions are those of CUDA 12
# and cuDNN 9, which it is built with (`tf.sysconfig.get_build_info`). In the order in which they need each other.
_LIBRARIES = (
    "libcudart.so.12",
    "libcublasLt.so.12",
    "libcublas.so.12",
    "libcufft.so.11",
    "libnvJitLink.so.12",
    "libcusparse.so.12",
    "libcusolver.so.11",
    "libcudnn.so.9",
)
# CUresult and CUdevice_attribute in NVIDIA's CUDA driver API reference.
_NO_DEVICE, _NOT_INITIALIZED_SYSTEM, _DRIVER_MISMATCH = 100, 802, 803
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_HIDING = "CUDA_VISIBLE_DEVICES"
# Parts of the errors that TensorFlow raises where a GPU was found and cannot compute, and what is missing.
_FAILURES = {
    "libdevice": "XLA finds no libdevice.10.bc, a file of NVIDIA's compiler",
    "ptxas": "XLA cannot use ptxas, NVIDIA's assembler",
    "PTX compilation": "XLA finds neither ptxas nor nvJitLink, NVIDIA's assembler and linker",
    "DNN": "cuDNN cannot be used: it is missing, older than the one that TensorFlow is built with, or finds no memory",
    "no kernel image": "this TensorFlow has no kernels for this kind of GPU",
    "UNSUPPORTED_PTX_VERSION": "NVIDIA's driver is too old to compile TensorFlow's kernels for this kind of GPU",
}


def why_no_gpu(build: Mapping[str, Any], packages: Path) -> str:
    """Return why TensorFlow uses no GPU and what to do, as `cause; remedy`.

    Args:
        build: `tf.sysconfig.get_build_info()`.
        packages: The folder that TensorFlow is installed in, and NVIDIA's packages beside it.
    """
    if not build.get("is_cuda_build"):
        return (
            "this TensorFlow is built without CUDA; install the `gpu` extra instead of `cpu`, in an environment of its "
            "own, or use the image wgan/train-gpu"
        )
    return why_no_driver(build) or _missing_library(packages) or _too_old_device(build)


def why_no_driver(build: Mapping[str, Any]) -> str:
    """Return why NVIDIA's driver offers no GPU to this process, and what to do; empty if it offers one."""
    visible = os.environ.get(_HIDING)
    if visible is not None and (not visible.strip() or visible.strip().startswith("-")):
        return f"{_HIDING} is {visible!r}, which hides every GPU; unset it"
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        return (
            f"NVIDIA's driver is not there ({error}); install it on the host; give a container its GPUs by `--gpus "
            "all`, which needs NVIDIA's container toolkit, and a pod by a profile such as gpu-l4"
        )
    return _refusal_of(driver, build)


def why_it_fails(error: Exception) -> str:
    """Return what an error of TensorFlow says about CUDA, as `cause; remedy`; empty if nothing that is known here."""
    text = str(error)
    cause = next((cause for part, cause in _FAILURES.items() if part in text), "")
    return cause and (
        f"{cause}; install the `gpu` extra in an environment of its own, without other CUDA libraries in "
        "LD_LIBRARY_PATH, or use the image wgan/train-gpu, and compare the driver that nvidia-smi shows"
    )


def _refusal_of(driver: ctypes.CDLL, build: Mapping[str, Any]) -> str:
    """Return why the driver offers no device; empty if it offers one."""
    status = driver.cuInit(0)
    version, needed = _number(driver.cuDriverGetVersion), int(str(build.get("cuda_version", "12")).split(".")[0])
    if 0 < version < 1000 * needed:
        return (
            f"NVIDIA's driver is too old: it is made for CUDA {version // 1000}.{version % 1000 // 10}, and this "
            f"TensorFlow needs {needed}; update the driver of the host"
        )
    nothing = f"check that nvidia-smi lists a GPU here, and that {_HIDING}, if set, names one"
    if status:
        remedies = {
            _NO_DEVICE: nothing,
            _NOT_INITIALIZED_SYSTEM: "start NVIDIA's fabric manager on the host",
            _DRIVER_MISMATCH: "restart the host, so that its kernel loads the driver that is installed",
        }
        remedy = remedies.get(status, "check that nvidia-smi works here")
        return f"NVIDIA's driver answers {_name_of(driver, status)}; {remedy}"
    if not _number(driver.cuDeviceGetCount):
        return f"NVIDIA's driver lists no GPU; {nothing}"
    return ""


def _missing_library(packages: Path) -> str:
    """Return which library cannot be loaded; empty if all can, from NVIDIA's packages or the system."""
    for name in _LIBRARIES:
        found = next(packages.glob(f"nvidia/*/lib/{name}"), name)
        try:
            ctypes.CDLL(str(found))
        except OSError as error:
            return (
                f"a library of CUDA cannot be loaded ({error}); install the `gpu` extra in an environment of its own, "
                "or use the image wgan/train-gpu"
            )
    return ""


def _too_old_device(build: Mapping[str, Any]) -> str:
    """Return that TensorFlow is not built for the first device, or at last that the cause is unknown."""
    driver = ctypes.CDLL(_DRIVER)
    major, minor = (_number(driver.cuDeviceGetAttribute, of, 0) for of in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
    targets = [str(each).rpartition("_")[2] for each in build.get("cuda_compute_capabilities", ())]
    oldest = min((int(each) for each in targets if each.isdecimal()), default=0)
    if 10 * major + minor < oldest:
        return (
            f"the GPU has compute capability {major}.{minor}, and this TensorFlow needs {oldest // 10}.{oldest % 10}; "
            "use a newer GPU"
        )
    return "NVIDIA's driver and CUDA's libraries work; run the command with TF_CPP_MIN_LOG_LEVEL=0 for TensorFlow's log"


def _number(function: Any, *arguments: int) -> int:
    """Return the number that a function of the driver writes to its first argument; 0 if it fails."""
    found = ctypes.c_int()
    return 0 if function(ctypes.byref(found), *arguments) else found.value


def _name_of(driver: ctypes.CDLL, status: int) -> str:
    """Return a status of the driver with its name and description."""
    words = []
    for function in (driver.cuGetErrorName, driver.cuGetErrorString):
        text = ctypes.c_char_p()
        if not function(status, ctypes.byref(text)) and text.value:
            words.append(text.value.decode())
    return f"{status} ({': '.join(words)})" if words else str(status)
