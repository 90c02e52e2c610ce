"""Print the GPU, the driver and the libraries as JSON; fail if a library is not of the train-gpu image's version.

python -m tests.proofs.gpu.machine gpu|cpu
"""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import tensorflow as tf

LOCK = Path(__file__).parents[3] / "requirements/train-gpu.txt"
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def other_versions(lock: str) -> dict[str, str]:
    """Return the packages whose installed version is not that of the lock, with this version or `missing`."""

    def installed(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "missing"

    return {name: installed(name) for name, version in _PIN.findall(lock) if installed(name) != version}


def main() -> int:
    if sys.argv[1] == "cpu":
        print(json.dumps({"tensorflow": tf.__version__}))
        return 0
    (gpu, *_) = tf.config.list_physical_devices("GPU")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    others = other_versions(LOCK.read_text("utf-8"))
    facts = {
        "tensorflow": tf.__version__,
        "build": dict(tf.sysconfig.get_build_info()),
        "device": tf.config.experimental.get_device_details(gpu),
        "driver": subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip(),
        "not_of_the_image": others,
    }
    print(json.dumps(facts))
    return int(bool(others))


if __name__ == "__main__":
    sys.exit(main())
