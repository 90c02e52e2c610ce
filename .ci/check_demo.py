"""Checks what `make demo` made: a champion that draws, a report that stands alone, a table that tells it.

python .ci/check_demo.py build/ci-runs/demo build/demo.log
"""

import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

from components.core import stages

# In a process of its own, where nothing of this project can be imported.
DRAW = """
import sys, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
images = model.signatures["sample"](seed=tf.constant(7, tf.int64), count=tf.constant(5, tf.int64))["images"]
print(images.dtype.name, *images.shape, len(set(images.numpy().ravel().tolist())))
"""


def check(holds: bool, what: str, found: object = "") -> None:
    """Ends the program, with what was found, if something does not hold."""
    if not holds:
        sys.exit(f"check_demo: not so: {what} {found}")
    print(f"check_demo: {what}")


def main(root: Path, log: Path) -> None:
    """Looks at the registry, the evaluation and the last lines of the demo."""
    champion = json.loads((root / "registry" / "champion.json").read_text())
    version = root / "registry" / "versions" / str(champion["version"])
    check(champion["version"] == 1, "version 1 is the champion")

    drawn = subprocess.run(
        [sys.executable, "-I", "-c", DRAW, version.resolve()], capture_output=True, text=True, cwd="/"
    )
    check(drawn.returncode == 0, "the SavedModel loads without this project", drawn.stderr)
    kind, *shape, values = drawn.stdout.split()
    check(kind == "uint8" and shape == ["5", "16", "16", "1"] and int(values) > 50, "it draws images", drawn.stdout)

    card = (version / "CARD.md").read_text()
    check("**PROMOTE**" in card and "| fcd |" in card, "its card tells the verdict and the metrics")
    uncertified = "uncertified: 221 test images, 2,000 needed"
    check(uncertified in card, "its card tells that the feature space is uncertified")
    command = [Path(sys.executable).with_name("wgan"), "models", "list", "--registry", root / "registry"]
    listed = subprocess.run(command, capture_output=True, text=True)
    check(uncertified in listed.stdout, "so does wgan models list", listed.stderr)
    command = [Path(sys.executable).with_name("wgan"), "models", "reproduce", "1", "--registry", root / "registry"]
    printed = subprocess.run(command, capture_output=True, text=True)
    check("python -m components.train" in printed.stdout, "wgan models reproduce prints commands", printed.stderr)

    grid = root / "grid.png"
    command = [Path(sys.executable).with_name("wgan"), "sample", "--registry", root / "registry"]
    subprocess.run([*command, "--count", "64", "--out", grid], check=True)
    with Image.open(grid) as image:
        check(min(image.size) > 400, "wgan sample writes a grid", image.size)

    record = json.loads((root / "records" / "wgan-gp-0001" / "record.json").read_text())
    told = (record["state"], record["verdict"], record["version"], record["training"]["made"])
    check(told == ("SUCCEEDED", "PROMOTE", 1, True), "the final record says what was trained and published", record)

    (evaluation,) = (root / "evaluations").iterdir()
    verdict = json.loads((evaluation / "verdict.json").read_text())
    check(verdict["verdict"] == "PROMOTE", "the verdict is PROMOTE", verdict["reasons"])
    report = (evaluation / "report.html").read_text()
    check("<script" not in report and "http://" not in report and "PROMOTE" in report, "the report stands alone")
    check(uncertified in report, "it tells that the feature space is uncertified")

    lines = log.read_text().splitlines()
    check(any(uncertified in line for line in lines), "so does the summary of evaluate")
    for stage in stages.ALL:
        check(any(line.split()[:2] == [stage, "done"] for line in lines), f"the table says that {stage} is done")
    for place in ("samples", "report", "model", "champion"):
        path = next(line.split()[1] for line in lines if line.split()[:1] == [place])
        check(Path(path).exists(), f"{place} lies where it says: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
