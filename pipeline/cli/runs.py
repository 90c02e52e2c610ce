"""`wgan runs` and `wgan open`: find the runs that began on this machine, and look at them."""

import argparse
import logging
import webbrowser

from components.core.artifacts import evaluations
from components.core.errors import ConfigError, DataError
from components.core.reporting.text import duration
from components.core.stage import cli
from components.core.storage import atomic_files
from components.core.storage.location import Location
from pipeline import tables, verbs
from pipeline.local import garbage, history, overview
from pipeline.local.display import relative

log = logging.getLogger("pipeline")


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    text = "list the runs of this machine, show one (runs show N), or remove old results (runs gc)"
    runs = verbs.add(command, "runs", text, _runs)
    help_text = "show one run, or list results that are not needed (default: list the runs)"
    runs.add_argument("action", nargs="?", choices=("show", "gc"), help=help_text)
    help_text = "gc: keep the results of the newest K runs, besides those of published versions (default: 3)"
    runs.add_argument("--keep", type=verbs.positive_int, default=3, metavar="K", help=help_text)
    runs.add_argument("--yes", action="store_true", help="gc: remove the results instead of only listing them")
    opening = verbs.add(command, "open", "open the report or the samples of a run in a browser", _open)
    opening.add_argument("file", choices=tables.FILES, help="what to open")
    for parser, default in ((runs, ""), (opening, " (default: the newest with a report)")):
        parser.add_argument("number", nargs="?", type=int, metavar="N", help=f"number of the run{default}")
        text = "folder, or gs://BUCKET/FOLDER, of the runs (default: ./runs)"
        parser.add_argument("--root", default="runs", help=text)


def _root(parsed: argparse.Namespace) -> Location:
    cli.set_umask()
    return Location.of(parsed.root).resolved()


def _overview(parsed: argparse.Namespace) -> overview.Overview:
    """Return the runs under the root; `DataError` if there are none."""
    root_overview = overview.read(_root(parsed))
    if not root_overview.runs:
        raise DataError(f"no run of this machine under {parsed.root}: give --root, or run the pipeline")
    return root_overview


def _runs(parsed: argparse.Namespace) -> None:
    if (parsed.action == "show") != (parsed.number is not None):
        raise ConfigError("runs show needs the number of a run, such as: wgan runs show 3; nothing else takes one")
    if parsed.action == "gc":
        root = _root(parsed)
        if not root.is_folder:
            raise DataError(f"no runs at {root}: there is no such folder; give --root")
        with atomic_files.only_one(root.own):
            _collect(root, parsed.keep, parsed.yes)
        return
    root_overview = _overview(parsed)
    if parsed.action == "show":
        _show(root_overview, history.numbered(root_overview.runs, parsed.number))
        return
    rows = []
    for run in root_overview.runs:
        result = run.state, root_overview.verdict(run), tables.number(run.score)
        rows.append((str(run.number), run.began, duration(run.seconds), *result, overview.changes(run)))
    tables.print_rows(("run", "began (UTC)", "took", "state", "verdict", "distance / real", "what changed"), rows)
    root = root_overview.runs[0].root
    if not root.in_bucket:
        overview.write(root_overview)
        print()
        tables.print_facts({"page": relative(root.path / overview.PAGE)})


def _collect(root: Location, keep: int, yes: bool) -> None:
    """List the results that are not needed, and remove them if the user said yes."""
    if not (folders := garbage.unneeded(root, keep)):
        print("nothing to remove")
        return
    rows = [(folder.name, f"{folder.bytes / 1e6:,.1f} MB", folder.run) for folder in folders]
    tables.print_rows(("folder", "size", "last run"), rows)
    in_all = f"{len(rows):,} folders, {sum(folder.bytes for folder in folders) / 1e6:,.1f} MB"
    if not yes:
        print(f"\nnothing was removed; --yes removes them: {in_all}")
        return
    garbage.remove(root, folders)
    overview.write(overview.read(root))
    print(f"\nremoved: {in_all}")


def _show(root_overview: overview.Overview, run: history.PastRun) -> None:
    facts: dict[str, object] = {
        "run": run.number,
        "began": f"{run.began} UTC",
        "state": run.state,
        "verdict": root_overview.verdict(run),
        "changed": overview.changes(run),
        "logs": relative(run.folder),
    }
    tables.print_facts(facts)
    print()
    tables.print_run(run.tasks, run.root)


def _open(parsed: argparse.Namespace) -> None:
    runs, file = _overview(parsed).runs, tables.FILES[parsed.file]
    newest = [run.number for run in runs if run.evaluation] or [runs[-1].number]
    run = history.numbered(runs, newest[-1] if parsed.number is None else parsed.number)
    evaluation = run.evaluation
    if evaluation is None or not evaluation.fetch(evaluations.MANIFEST, lambda name: name == file):
        raise DataError(f"run {run.number} has no {parsed.file}: {run.state}; `wgan runs` lists runs with a verdict")
    path = evaluation.path / file
    print(relative(path))
    if not webbrowser.open(path.as_uri()):
        log.warning("no browser can be started here: open this file yourself")
