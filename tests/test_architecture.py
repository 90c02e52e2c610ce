"""The import contracts of pyproject.toml hold, and rules that they cannot express."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import container_images, stages
from pipeline import step_table
from tests.system import pythons

ROOT = Path(__file__).parents[1]
PACKAGES = ("components", "pipeline", "wgan_gp_pipeline")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_import_contracts() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_importing_does_nothing() -> None:
    """At module level there are only imports, definitions, constants and the one `if __name__` of an entry point."""
    definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    statements = []
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            # Imports for type checkers alone do not happen at run time.
            allowed_if = isinstance(node, ast.If) and ast.unparse(node.test) in (
                "__name__ == '__main__'",
                "TYPE_CHECKING",
            )
            if not (isinstance(node, definitions) or docstring or allowed_if):
                statements.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    # A script that export starts by its path, where our packages cannot be imported.
    assert [statement for statement in statements if not statement.startswith("components/export/draw.py")] == []


def test_only_ci_knows_of_a_folder_beside_the_checkout() -> None:
    """Nothing else refers to `shared` beside it, in a path or joined from parts."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout of git: git clone")
    beside = re.compile(rb"""\.\./+shared\b|/\s*["']shared\b""")
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    mentions = [str(path.relative_to(ROOT)) for path in files if path.is_file() and beside.search(path.read_bytes())]
    assert mentions == [".ci/run"]


def test_no_package_among_the_tests() -> None:
    """One would shadow `components` or `pipeline` for pytest."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_stage_has_the_same_files_and_is_in_the_list_and_the_pipeline() -> None:
    programs = {path.parent.name for path in (ROOT / "components").glob("*/config.py")}
    for program in programs:
        for name in ("__init__.py", "config.py", "run.py"):
            assert (ROOT / "components" / program / name).is_file(), f"{program}/{name}"
    assert programs == set(stages.PROGRAMS)
    assert programs - set(stages.ALL) == {"report", "sample", "selfcheck"}
    assert {step.stage for step in step_table.STEPS} == set(stages.ALL)


def test_the_tests_that_make_names_exist() -> None:
    command = ["make", "--dry-run", "test-docker", "test-flink", "test-kfp216", "test-tf220"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = {name.partition("::")[0] for name in (*re.findall(r"tests/[\w/.]+", printed), *pythons.TESTS)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_documents_name_images_of_this_version() -> None:
    texts = [path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
    assert set(re.findall(r"wgan/(?:preprocess|train\S*):(\d+\.\d+\.\d+)", "".join(texts))) == {
        container_images.VERSION
    }


def test_the_map_names_what_exists() -> None:
    """Every path in docs/architecture.md exists, and every name beside one is defined or used there."""
    missing = []
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        path = ROOT
        for word in re.findall(r"`([\w./]+)`", line):
            if "/" in word:
                path = ROOT / word
                missing += [] if path.exists() else [word]
            elif line.startswith("|") and path.is_file() and not re.search(rf"\b{word}\b", path.read_text()):
                missing.append(f"{word} in {path.relative_to(ROOT)}")
    assert missing == []


@pytest.mark.parametrize(
    ("title", "limits"),
    [("The life of one image", (15, 30)), ("The life of one score", (12,)), ("A local run, from its flags", (10,))],
)
def test_a_walk_names_functions_beside_their_files_and_counts_both(title: str, limits: tuple[int, ...]) -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().partition(f"\n## {title}")[2].partition("\n## ")[0]
    file_and_functions = re.compile(r"`([\w/]+\.py)`(?:\s+\(((?:`\w+`,?\s*)+)\))?")
    mentions = file_and_functions.findall(section)
    functions = [(path, name) for path, names in mentions for name in re.findall(r"\w+", names)]
    assert [name for _, name in functions] == re.findall(r"`(\w+)`", section)  # none stands elsewhere
    for path, name in functions:
        body = ast.parse((ROOT / path).read_text()).body
        definitions = [*body, *(node for outer in body if isinstance(outer, ast.ClassDef) for node in outer.body)]
        names_defined = {node.name for node in definitions if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in names_defined, f"{name} in {path}"
    count = re.search(r"\n1\. (.*?)(\d+) files(?: and (\d+) calls)?\.", section, re.DOTALL)
    assert count, "it does not say how many files it passes"
    passed = file_and_functions.findall(count[1])
    calls = re.findall(r"\b[a-z_]\w*", " ".join(names for _, names in passed))  # not of classes
    counts = (len({path for path, _ in passed}), len(calls))[: len(limits)]
    assert counts == tuple(int(number) for number in count.groups()[1:] if number)
    assert [pair for pair in zip(counts, limits, strict=True) if pair[0] > pair[1]] == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(page for name in ("benchmarks", "docs", "tests") for page in (ROOT / name).rglob("*.md")),
    ]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text())]
    broken = [f"{page}: {link}" for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []
