"""The runner that Beam's options name, and what it makes of them."""

import contextlib
import io
import shlex
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from components.errors import ConfigError

_DIRECT = ("--direct_num_workers", "--direct_running_mode")
_LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")


def chosen(beam_options: str, threads: int) -> tuple[PipelineOptions, PipelineRunner]:
    """Options and runner: the one named, else Beam in this process.

    Beam's own default would first try to fetch another runner's program over the network.

    Args:
        beam_options: Options in Beam's own words.
        threads: How many work in this process, unless the options say how many or how.

    Raises:
        ConfigError: Beam does not know an option or a runner.
    """
    try:
        words = shlex.split(beam_options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {error} in {beam_options!r}") from None
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(words)
            named = options.view_as(StandardOptions).runner
            unknown = _unknown_words(words)
    except SystemExit:
        reason = complaint.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise ConfigError(f"beam_options: {reason}") from None
    if named in _LOCAL_RUNNERS:
        if unknown:
            raise ConfigError(f"beam_options: Beam does not know {' '.join(unknown)}")
        if threads > 1 and not any(word.startswith(_DIRECT) for word in words):
            direct = options.view_as(DirectOptions)
            direct.direct_num_workers, direct.direct_running_mode = threads, "multi_threading"
        return options, FnApiRunner()
    # Other runners have options that only they know, and check them themselves.
    try:
        return options, create_runner(named)
    except (ValueError, ImportError, AttributeError) as error:
        raise ConfigError(f"beam_options: {error}") from None


def keeps_in_memory(options: PipelineOptions) -> bool:
    """Whether what a job gathers stays in this machine's memory rather than in that of a cluster, or on its disks."""
    named = options.view_as(StandardOptions).runner
    return named in _LOCAL_RUNNERS or options.view_as(PortableOptions).environment_type == "LOOPBACK"


def _unknown_words(words: list[str]) -> list[str]:
    unknown = list(words)

    def note(parser: Any) -> None:
        unknown[:] = parser.parse_known_args(words)[1]

    PipelineOptions(words).get_all_options(add_extra_args_fn=note, retain_unknown_options=True)
    return unknown
