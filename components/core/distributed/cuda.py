"""Why a TensorFlow for GPUs uses none: it logs the cause in C++, below the level that users see, and takes the CPU."""

import ctypes
from pathlib import Path

_CUDA = 12  # that TensorFlow is built with, as `tf.sysconfig.get_build_info` says
# Libraries without which TensorFlow takes no GPU, in the order in which they need each other.
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


def why_no_gpu(packages: Path) -> str:
    """Return why TensorFlow, installed in `packages` beside NVIDIA's libraries, uses no GPU, as `cause; remedy`."""
    if cause := why_no_driver():
        return cause
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(str(next(packages.glob(f"nvidia/*/lib/{name}"), name)))
        except OSError as error:
            return (
                f"a library of CUDA cannot be loaded ({error}); install the `gpu` extra in an environment of its own, "
                "or use the image wgan/train-gpu"
            )
    return "NVIDIA's driver and CUDA's libraries work; run the command with TF_CPP_MIN_LOG_LEVEL=0 for TensorFlow's log"


def why_no_driver() -> str:
    """Return why NVIDIA's driver offers no GPU to this process, and what to do; empty if it offers one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return (
            f"NVIDIA's driver is not there ({error}); install it on the host; give a container its GPUs by `--gpus "
            "all`, which needs NVIDIA's container toolkit, and a pod by a profile such as gpu-l4"
        )
    version, devices = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if 0 < version.value < 1000 * _CUDA:
        return (
            f"NVIDIA's driver is too old: it is made for CUDA {version.value // 1000}.{version.value % 1000 // 10}, "
            f"and this TensorFlow needs {_CUDA}; update the driver of the host"
        )
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(devices))
    if not devices.value:
        return (
            f"NVIDIA's driver offers no GPU (its status is {status}); check that nvidia-smi lists one here, and that "
            "CUDA_VISIBLE_DEVICES, if set, names one"
        )
    return ""
