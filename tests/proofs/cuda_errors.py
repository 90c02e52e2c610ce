"""What `--accelerator gpu` says where TensorFlow for GPUs finds none: the real one, with drivers that fail.

The selfcheck runs with the libraries of the train-gpu image, on any machine with a C compiler. The drivers answer as
NVIDIA's would; what TensorFlow and CUDA's libraries do is real.
"""

import argparse
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from components.core import errors

ROOT = Path(__file__).parents[2]
PYTHON = ".venv-train-gpu/bin/python"
_DRIVER = """
int cuInit(unsigned flags) {{ return {status}; }}
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = 1; return 0; }}
int cuDeviceGetAttribute(int *value, int attribute, int device) {{ *value = attribute == 75 ? 9 : 0; return 0; }}
int cuGetErrorName(int status, const char **text) {{ *text = "NAME"; return 0; }}
int cuGetErrorString(int status, const char **text) {{ *text = "description"; return 0; }}
"""


@dataclass(frozen=True)
class Case:
    """A way to have no GPU, and a part of the error that must name it."""

    name: str
    named: str
    status: int = 0
    version: int = 12090
    driver: bool = True
    without: str = ""  # one of NVIDIA's packages


CASES = (
    Case("no driver", "libcuda.so.1", driver=False),
    Case("driver without a device", "status is 100", status=100),
    Case("driver of 2021", "CUDA 11.4", version=11040),
    Case("no cuDNN", "libcudnn.so.9", without="cudnn"),
    Case("a driver that only pretends", "TF_CPP_MIN_LOG_LEVEL"),
)


def packages_without(packages: Path, name: str, folder: Path) -> Path:
    """Return a folder of links to everything in `packages` but one of NVIDIA's packages."""
    nvidia = folder / "nvidia"
    nvidia.mkdir(parents=True)
    for source, target in ((packages, folder), (packages / "nvidia", nvidia)):
        for entry in source.iterdir():
            if entry.name not in ("nvidia", name):
                (target / entry.name).symlink_to(entry)
    return folder


def error_of(case: Case, packages: Path, folder: Path) -> str:
    """Run the selfcheck for a GPU as the case has it, and return its last line; fail unless it is a user's error."""
    folder.mkdir()
    if case.driver:
        source = _DRIVER.format(status=case.status, version=case.version)
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / "libcuda.so.1")]
        subprocess.run(command, input=source, text=True, check=True)
    code = [str(packages_without(packages, case.without, folder / "packages")), str(ROOT)]
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment |= {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": os.pathsep.join(code)}
    command = [PYTHON, "-S", "-m", "components.selfcheck", "--accelerator", "gpu"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == errors.BAD_CONFIGURATION, done.stderr
    return done.stderr.splitlines()[-1]


def prove(options: argparse.Namespace) -> list[str]:
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            error = error_of(case, packages, Path(folder) / str(number))
            print(f"{case.name}: {error}", flush=True)
            wrong += [] if case.named in error else [f"{case.name}: {case.named} is not named"]
    return wrong
