"""Checks the result of `make demo`: a champion that passed real limits and draws without this project, and the log.

python .ci/check_demo.py runs/demo build/demo.log
"""

import json
import subprocess
import sys
from pathlib import Path

from components.core import stages

# In a separate process that cannot import this project.
DRAW = """
import sys, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
images = model.signatures["sample"](seed=tf.constant(7, tf.int64), count=tf.constant(5, tf.int64))["images"]
print(images.dtype.name, *images.shape, len(set(images.numpy().ravel().tolist())) > 50)
"""
UNCERTIFIED = "uncertified: 167 test images, 2,000 needed"

root, log = map(Path, sys.argv[1:])
record = json.loads((root / "records" / "wgan-gp-0001" / "record.json").read_text())
version = root / "registry" / "versions" / "1"
(evaluation,) = (root / "evaluations").iterdir()
report = (evaluation / "report.html").read_text()
command = [sys.executable, "-I", "-c", DRAW, version.resolve()]
drawn = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True).stdout
done = {line.split()[0] for line in log.read_text().splitlines() if line.split()[1:2] == ["done"]}
checks = {
    "the record says PROMOTE and version 1": (record["state"], record["verdict"], record["version"])
    == ("SUCCEEDED", "PROMOTE", 1),
    "the SavedModel draws images without this project": drawn.split() == ["uint8", "5", "16", "16", "1", "True"],
    "card, report and log say that the space is uncertified": all(
        UNCERTIFIED in text for text in ((version / "CARD.md").read_text(), report, log.read_text())
    ),
    "the report stands alone": "<script" not in report and "http://" not in report and "PROMOTE" in report,
    "the table names every stage as done": set(stages.ALL) <= done,
}
sys.exit(", ".join(f"check_demo: not so: {what}" for what, holds in checks.items() if not holds) or 0)
