"""The pages of `evaluate`, `wgan report compare` and `wgan runs` in a real browser, with hostile text everywhere."""

import dataclasses
import html
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from components.core.artifacts import checkpoints, datasets, evaluations
from components.core.artifacts.datasets import ImageShape
from components.core.registry import registry
from components.core.reporting import pages
from components.core.storage.location import Location
from components.evaluate import run as evaluate
from components.evaluate.config import EvaluateConfig
from components.report import run as report
from components.report.config import ReportConfig
from pipeline.local import history, overview
from pipeline.local.history import History, TaskState
from tests.conftest import write_dataset
from tests.fakes import http
from tests.inputs import artifacts, sheets
from tests.inputs.stages import make_checkpoint, make_dataset, make_embedding

# Samples, real images, closest pairs, seven steps, classes, two splits, leaks, crops, four curves; of many classes
# there are rows of classes, but no leaks. Two sheets and four curves. Of the runs, every other has samples.
IMAGES = {"report": 18, "comparison": 6, "runs": 5}
PHONE, DESK = 390, 1040  # pixels
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CONTRAST = 4.5  # of text, as WCAG 2.2 AA asks for
SIZE_LIMIT = 2_000_000  # bytes; Kubeflow's page loads a report whole

# Visible facts of a page: that nothing in it runs, that all of it is there, and its looks.
PROBE = """(() => {
  const all = [...document.querySelectorAll('*')], images = [...document.images];
  const light = (color) => {
    const parts = color.match(/[\\d.]+/g).map(Number);
    const linear = parts.slice(0, 3).map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return parts[3] === 0 ? null : .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
  };
  const ground = (node) => light(getComputedStyle(node).backgroundColor) ?? ground(node.parentElement);
  const contrast = (node) => {
    const both = [light(getComputedStyle(node).color), ground(node)].sort();
    return (both[1] + .05) / (both[0] + .05);
  };
  const texts = all.filter(node => document.body.contains(node) &&
    [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
  const plain = new RegExp('^(HTML|HEAD|META|TITLE|STYLE|BODY|H[123]|P|DIV|TABLE|TBODY|T[RHD]|STRONG|CODE|IMG|DET.*|' +
    'SUM.*|FIG.*|A|LABEL|INPUT|svg|a|circle|line|text|title)$');
  const isLoaded = image => /^(data:image.png;base64,|file:.*.samples.png$)/.test(image.src) && image.complete &&
    image.naturalWidth > 1;
  return {
    title: document.title,
    active: all.map(node => node.tagName).filter(name => !plain.test(name)),
    attributes: [...new Set(all.flatMap(node => [...node.attributes].map(attribute => attribute.name)))],
    images: images.length,
    loaded: images.filter(isLoaded).length,
    text: document.body.textContent,
    overflow: document.documentElement.scrollWidth - innerWidth,
    hidden: Math.max(0, ...all.filter(node => node.tagName === 'TABLE').map(table =>
      table.offsetWidth - table.parentElement.clientWidth)),
    contrast: Math.min(...texts.map(contrast)),
    ground: ground(document.body),
  };
})()"""


# A page counts as loaded before its lazy images are; these are near enough for the browser to load them anyway.
LOAD_LAZY_IMAGES = """() => Promise.all([...document.images]
  .filter(image => image.loading === 'lazy' && image.getBoundingClientRect().top < innerHeight + 500)
  .map(image => { image.loading = 'eager'; return image.decode().catch(() => null); }))"""


class Outside(http.Server):
    def answer(self, request: http.Request) -> http.Answer:
        return http.Answer(404)


@pytest.fixture(scope="module")
def outside() -> Iterator[http.Server]:
    with http.serving(Outside()) as server:
        yield server


@pytest.fixture(scope="module")
def hostile(outside: http.Server) -> list[str]:
    address = outside.url
    return [
        f"<script>document.title = 'taken'; fetch('{address}/script')</script>",
        f"\"><img src='{address}/image' onerror=\"document.title='taken'\">",
        f"'><link rel=stylesheet href={address}/link><iframe src={address}/frame></iframe><base href={address}>",
        f"</style><style>body {{ background: url({address}/style) }}</style>",
        "</title></td></table></div><h1>taken</h1>",
        "{{ 7 * 7 }}{% raw %}{# &lt; &amp;",
        "$\\frac{1}{$x_{",
        "\u202eשלום, עולם\u202c",
        "wide" * 100,
    ]


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory, hostile: list[str]) -> Path:
    """A real evaluation of small gray images in three classes, with hostile text everywhere."""
    root = tmp_path_factory.mktemp("hostile")
    dataset = make_dataset(root / "dataset", {"train": 300, "test": 60}, classes=[*hostile[:2], hostile[6]])
    _spoil(dataset, hostile)
    embedding = make_embedding(root / "embedding", dataset)
    training = root / hostile[1].replace("/", "\\")
    checkpoint = make_checkpoint(training, dataset_digest=datasets.Manifest.of(dataset).digest)
    manifest = checkpoints.Manifest.of(checkpoint)
    settings = {**manifest.settings, **{f"setting {index}": text for index, text in enumerate(hostile)}, hostile[1]: 1}
    manifest = dataclasses.replace(manifest, settings=settings)
    manifest.write(checkpoint)
    write_log(checkpoint, manifest.step)
    for step in range(10, manifest.step + 1, 10):
        sheets.write(training, step, 8, 8, 1)
    champion = root / "registry" / registry.CHAMPION
    champion.parent.mkdir()
    artifacts.seal(champion, {"schema_version": 1, hostile[0]: hostile[1]})
    return evaluated(checkpoint, dataset, embedding, root / hostile[0].replace("/", "\\"), str(champion.parent))


def _spoil(dataset: str, hostile: list[str]) -> None:
    """Let a dataset report quarantined images with hostile names, cropped images, and a leak."""
    manifest = datasets.Manifest.of(dataset)
    entries = [{"name": text, "sha256": "0" * 64, "reason": text} for text in hostile[3:]]
    (train,), (test,) = (manifest.splits[split].shards for split in ("train", "test"))
    leak = {"split": "test", "shard": test.file, "record": 3, "train_shard": train.file, "train_record": 299}
    leaks = {"exact": 0, "near": 1, "compared": ["test", "validation"], "first": [leak]}
    spoilt = dataclasses.replace(
        manifest,
        made_with={**manifest.made_with, "cropped": {"images": 9, "of": 300}},
        source={**manifest.source, "duplicates": 2, "contradictions": 1, "leaks": leaks},
        quarantine={"count": len(entries), "limit": 0.5, "entries": entries},
    )
    spoilt.write(Path(dataset))


def evaluated(checkpoint: Path, dataset: str, embedding: Path, location: Path, champion: str) -> Path:
    config = EvaluateConfig(
        checkpoint=str(checkpoint),
        dataset=dataset,
        embedding=str(embedding),
        evaluation=str(location),
        registry=champion,
        sample_count=100,
    )
    return Path(str(evaluate.run(config).parameters["evaluation_uri"]))


def write_log(checkpoint: Path, rows: int) -> None:
    """Write rows up to step 100, as noisy as possible."""
    names = ("critic_loss", "generator_loss", "penalty", "gradient_norm", "images_per_second")
    values = np.random.default_rng(0).normal(size=(rows, len(names))).tolist()
    lines = [
        json.dumps({"step": -(-100 * (index + 1) // rows), **dict(zip(names, row, strict=True))})
        for index, row in enumerate(values)
    ]
    (checkpoint / "metrics.jsonl").write_text("\n".join(lines))


def compared(page: Path, *evaluations_: Path) -> Path:
    report.run(ReportConfig(action="compare", runs=tuple(map(str, evaluations_)), output=str(page)))
    return page


def write_runs(root: Path, evaluation: Path, parameters: list[str]) -> Path:
    """Write a root with a run for each value of a parameter, every other with a report, and return its page."""
    copied = shutil.copytree(evaluation, root / "evaluations" / "0")
    for index, text in enumerate(parameters):
        outputs = {"evaluation_uri": str(copied), "verdict": ("REJECT", "HOLD")[index % 4 // 2]}
        task = TaskState(history.FAILED, attempts=1) if index % 2 else TaskState(history.DONE, outputs=outputs)
        task.seconds = 1.0
        History(root, {"source": text}).write_state(0, {"evaluate": task})
    overview.write(overview.read(Location.of(root)))
    return root / overview.PAGE


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, evaluation: Path, hostile: list[str]) -> dict[str, Path]:
    other = shutil.copytree(evaluation, evaluation.parent / "other")
    return {
        "runs": write_runs(tmp_path_factory.mktemp("runs"), evaluation, ["digits", *hostile]),
        "report": evaluation / evaluations.REPORT,
        "comparison": compared(evaluation.parent / "compare.html", evaluation, other),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=program) as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_page(viewport={"width": DESK, "height": 900}) as empty:
        yield empty


def load(page: Page, path: Path) -> list[str]:
    """Open a file, wait until all of it is loaded, and return the addresses that it asked for."""
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(path.as_uri())
    page.evaluate(LOAD_LAZY_IMAGES)
    return addresses


@pytest.mark.slow
def test_pages_of_much_content_are_small_and_whole(evaluation: Path, page: Page, tmp_path: Path) -> None:
    shape = ImageShape(64, 64, 3)
    dataset = str(write_dataset(tmp_path / "dataset", shape, {"train": 200, "validation": 0, "test": 40}, 100))
    manifest = datasets.Manifest.of(dataset)
    counts = manifest.splits["train"].class_counts
    checkpoint = make_checkpoint(tmp_path / "t", image=shape, dataset_digest=manifest.digest, class_counts=counts)
    write_log(checkpoint, 10_000)
    for step in range(10, 101, 10):
        sheets.write(checkpoint.parent, step, 64, 64, 3)
    embedding = make_embedding(tmp_path / "embedding", dataset)
    large = evaluated(checkpoint, dataset, embedding, tmp_path / "evaluation", "")
    comparison = compared(tmp_path / "compare.html", evaluation, large)
    for path, images in ((large / evaluations.REPORT, IMAGES["report"]), (comparison, IMAGES["comparison"])):
        assert path.stat().st_size < SIZE_LIMIT
        load(page, path)
        seen = page.evaluate(PROBE)
        assert seen["images"] == seen["loaded"] == images


@pytest.mark.parametrize("name", IMAGES)
def test_nothing_acts_nothing_is_fetched_and_everything_is_shown(
    paths: dict[str, Path], page: Page, outside: http.Server, hostile: list[str], name: str
) -> None:
    addresses = load(page, paths[name])
    seen = page.evaluate(PROBE)
    assert seen["active"] == []
    allowed = {"alt", "charset", "class", "colspan", "content", "http-equiv", "lang", "name", "src"}
    chart_attributes = "aria-label checked cx cy dy href id loading r role text-anchor type x x1 x2 y y1 y2"
    allowed |= set(chart_attributes.split()) if name == "runs" else set()
    assert set(seen["attributes"]) <= allowed
    assert seen["title"] in ("REJECT: evaluation of step 100", "Evaluations side by side", "Runs")
    assert seen["images"] == seen["loaded"] == IMAGES[name]
    assert {address.split(":")[0] for address in addresses} <= {"file", "data"}
    assert outside.requests == []
    assert [text for text in hostile if text not in seen["text"]] == []


def test_the_policy_holds_even_where_text_is_not_escaped(
    paths: dict[str, Path], page: Page, outside: http.Server, tmp_path: Path
) -> None:
    """And without it the same text would run: the tests above check something that can happen."""
    text = html.unescape(paths["report"].read_text())
    broken = tmp_path / "broken.html"
    broken.write_text(text)
    load(page, broken)
    assert page.evaluate("document.scripts.length") > 0
    assert page.title() != "taken"
    assert outside.requests == []
    broken.write_text(re.sub("<meta http-equiv=.*?>", "", text))
    load(page, broken)
    assert page.title() == "taken"
    assert "/image" in [request.path for request in outside.requests]
    outside.requests.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", IMAGES)
def test_a_page_is_readable(paths: dict[str, Path], browser: Browser, name: str, width: int, dark: bool) -> None:
    with browser.new_page(viewport={"width": width, "height": 900}, is_mobile=width == PHONE) as page:
        page.emulate_media(color_scheme="dark" if dark else "light")
        load(page, paths[name])
        seen = page.evaluate(PROBE)
    assert (seen["overflow"], seen["hidden"]) == (0, 0)
    assert seen["contrast"] >= CONTRAST
    assert seen["ground"] < 0.05 if dark else seen["ground"] > 0.9


def test_a_paths_500_runs_is_small_lazy_and_hides_rows(page: Page, evaluation: Path, tmp_path: Path) -> None:
    path = write_runs(tmp_path, evaluation, [str(number) for number in range(500)])
    assert path.stat().st_size < SIZE_LIMIT / 4
    page.set_viewport_size({"width": PHONE, "height": 900})
    load(page, path)
    seen = "[...document.querySelectorAll('tr')].filter(row => row.offsetParent).length"
    points = "[...document.querySelectorAll('circle')].filter(point => point.getClientRects().length).length"
    assert (page.evaluate(seen), page.evaluate(points)) == (500, 250)
    loaded = page.evaluate("[...document.images].filter(image => image.complete).length")
    assert 0 < loaded < 250
    for group, rows, circles in (("HOLD", 375, 125), ("NONE", 125, 125), ("REJECT", 0, 0), ("HOLD", 125, 125)):
        page.evaluate(f"document.getElementById('show-{group}').click()")
        assert (page.evaluate(seen), page.evaluate(points)) == (rows, circles)


def test_a_template_that_cannot_be_read_is_named() -> None:
    with pytest.raises(OSError, match=r"Input/output error.*/proc/self/mem"):
        pages.render(Path("/proc/self/mem"))  # nothing is mapped at its beginning
