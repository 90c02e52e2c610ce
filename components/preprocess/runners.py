"""The runner that Beam's options name: whether it is there, a pipeline on it, and what its failures mean."""

import contextlib
import io
import ipaddress
import json
import logging
import shlex
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO
from urllib.parse import urlsplit

import apache_beam as beam
import grpc
import requests
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    StandardOptions,
)
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from components.errors import ConfigError, StageError, Terminated, TransientError
from components.preprocess import decoder

_LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")
_EMBEDDED = "embed"  # Beam's word for a job server in this process
_SECONDS_TO_ANSWER = 5.0
_WAITS_FOR_WORKER = "run_worker"  # what Beam calls the thread that waits for a process
_LONGEST_LINE = 500  # characters
_TRACEBACK = "Traceback (most recent call last):"


class Service(NamedTuple):
    """What must be there before a job is sent: the option that names it and its value, what users call it, where it is,
    and whether what is at that host and port is one.
    """

    option: str
    value: str
    kind: str
    place: tuple[str, int]
    is_one: Callable[[str, int], bool]


@contextlib.contextmanager
def pipeline(beam_options: str) -> Iterator[beam.Pipeline]:
    """A pipeline that is wired in the block, and run after it to its end.

    If this program is told to stop meanwhile, the runner is asked to cancel the job: nobody would take what it makes.

    Args:
        beam_options: Options in Beam's own words. Without a runner among them, Beam runs in this process.

    Raises:
        ConfigError: Options that Beam refuses, or that name a service of another kind.
        TransientError: A service that the options name does not answer, or the runner failed. What a runner in this
            process raises, which cannot be told from a defect of the steps, is raised as it is.
    """
    options, runner = chosen(beam_options)
    require_services(options, runner)
    try:
        made = beam.Pipeline(runner=runner, options=options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {' '.join(str(error).split())}") from None
    yield made
    if isinstance(runner, FnApiRunner):
        with contextlib.ExitStack() as stack:
            if not _is_in_memory(options):
                stack.enter_context(_without_stacks())
                stack.enter_context(_told_of_dead_workers())
            made.run().wait_until_finish()
        return
    name = type(runner).__name__
    try:
        with _without_stacks():
            _run(made)
    except (StageError, OSError):
        raise
    except (ValueError, NotImplementedError, ImportError) as error:
        raise ConfigError(f"beam_options: {name}: {_what_it_says(error)}") from None
    except Exception as error:
        raise TransientError(f"{name} failed: {_what_it_says(error)}; its own log and its workers' tell more") from None


@contextlib.contextmanager
def _told_of_dead_workers() -> Iterator[None]:
    """Ends the block with an error if a process of `multi_processing` dies, which Beam would wait for without end.

    Beam's thread that waits for the process raises when it ends too early, and nobody listens; here a signal, which
    wakes the main thread wherever it waits, turns that into an error. In another thread Beam waits as it would.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[str] = []

    def tell(failed: threading.ExceptHookArgs) -> None:
        if failed.thread is None or failed.thread.name != _WAITS_FOR_WORKER:
            hook_before(failed)
            return
        told.append(str(failed.exc_value))
        signal.raise_signal(signal.SIGUSR1)

    def give_up(number: int, frame: object) -> None:
        raise TransientError(
            f"a worker of Beam died: {told[0] if told else 'it was told to'}; if memory was short, give fewer "
            "--direct_num_workers"
        )

    hook_before, threading.excepthook = threading.excepthook, tell
    handler_before = signal.signal(signal.SIGUSR1, give_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, handler_before)
        threading.excepthook = hook_before


def _run(made: beam.Pipeline) -> None:
    """Runs it to its end, whatever Beam's options say of waiting. Job servers that Beam starts end with the program."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    result = made.run()
    if ignored:  # as under nohup; Beam's job servers install a handler that stops them
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result.wait_until_finish()
    except (KeyboardInterrupt, Terminated):
        with contextlib.suppress(Exception):
            result.cancel()
        raise


def require_services(options: PipelineOptions, runner: PipelineRunner) -> None:
    """Asks whatever the options name, so that what is not there is told in seconds; Beam would try for minutes.

    Raises:
        ConfigError: A value is no address, something of another kind is there, a runner lacks its address or the
            program that it starts, or workers would run in this process, which is on another machine than the runner.
        TransientError: Nothing answers there.
    """
    portable = options.view_as(PortableOptions)
    environment = (portable.environment_type or "").upper()
    beside = portable.job_endpoint == _EMBEDDED
    for service in _services(options, runner):
        local = is_here(*_ends_of_connection(service))
        if environment == "LOOPBACK" and not local:
            raise ConfigError(
                f"beam_options: --environment_type=LOOPBACK runs the workers in this process, and {service.option}="
                f"{service.value} is on another machine, which does not reach it; give --environment_type=EXTERNAL, "
                "with a worker pool beside every worker of the runner, or DOCKER"
            )
        beside |= local
    if environment == "EXTERNAL":
        pool = _worker_pool(portable)
        # An address of the loopback is that of each of the runner's machines.
        if pool and (beside or not _is_loopback(pool.place[0])):
            _ends_of_connection(pool)


def _services(options: PipelineOptions, runner: PipelineRunner) -> list[Service]:
    endpoint = options.view_as(PortableOptions).job_endpoint
    name = type(runner).__name__
    if isinstance(runner, PortableRunner) and endpoint:
        embedded = endpoint == _EMBEDDED
        return [] if embedded else [_service("--job_endpoint", endpoint, "job server of Beam", _speaks_grpc)]
    if name == "PortableRunner":
        raise ConfigError("beam_options: PortableRunner needs --job_endpoint=HOST:PORT of a job server of Beam")
    if name == "FlinkRunner":
        flink = options.view_as(FlinkRunnerOptions)
        if not flink.flink_submit_uber_jar:
            _require_java(options, name, "--flink_submit_uber_jar")
        if flink.flink_master not in MAGIC_HOST_NAMES:
            encrypted = flink.flink_master.startswith("https://")
            is_one = _is_anything if encrypted else _is_flink
            return [_service("--flink_master", flink.flink_master, "REST endpoint of a Flink cluster", is_one, 8081)]
    if name == "SparkRunner":
        spark = options.view_as(SparkRunnerOptions)
        if spark.spark_submit_uber_jar:
            rest = spark.spark_rest_url
            return [_service("--spark_rest_url", rest, "REST endpoint of a Spark master", _is_anything)] if rest else []
        _require_java(options, name, "--spark_submit_uber_jar")
        if spark.spark_master_url.startswith("spark://") and "," not in spark.spark_master_url:  # of several, one is up
            return [_service("--spark_master_url", spark.spark_master_url, "Spark master", _is_anything)]
    if name == "DaskRunner":
        from apache_beam.runners.dask.dask_runner import DaskOptions  # the runner has imported it, if it is the one

        address = options.view_as(DaskOptions).address
        return [_service("--dask_client_address", address, "Dask scheduler", _is_anything)] if address else []
    return []


def _require_java(options: PipelineOptions, name: str, instead: str) -> None:
    program = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(program):
        raise ConfigError(
            f"beam_options: {name} starts a job server of Beam with `{program}`, which is not here; install Java, or "
            f"give --job_endpoint=HOST:PORT of one that runs, or {instead}"
        )


def _worker_pool(portable: PortableOptions) -> Service | None:
    """The worker pool that EXTERNAL names; None if it names none, which Beam tells."""
    given = portable.environment_config
    if given:
        address = given
        if given.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                address = str(json.loads(given).get("url", ""))
        return _service("--environment_config", address, "worker pool of Beam", _speaks_grpc)
    address = portable.lookup_environment_option("external_service_address")
    option = "--environment_options=external_service_address"
    return _service(option, address, "worker pool of Beam", _speaks_grpc) if address else None


def _service(
    option: str, value: str, kind: str, is_one: Callable[[str, int], bool], default_port: int | None = None
) -> Service:
    """A service by its `host:port`, with or without a scheme.

    Raises:
        ConfigError: It has no such form.
    """
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        port = parts.port or default_port
        if not parts.hostname or not port:
            raise ValueError("it names no host or no port")
    except ValueError as error:
        raise ConfigError(f"beam_options: {option} must be HOST:PORT of a {kind}, got {value}: {error}") from None
    return Service(option, value, kind, (parts.hostname, port), is_one)


def _ends_of_connection(service: Service) -> tuple[str, str]:
    """Connects; returns the IP addresses of this end and of the other."""
    named = f"beam_options: {service.option}={service.value}"
    try:
        with socket.create_connection(service.place, timeout=_SECONDS_TO_ANSWER) as connection:
            ends = connection.getsockname()[0], connection.getpeername()[0]
    except OSError as error:
        why = error.strerror or str(error)
        raise TransientError(
            f"{named}: nothing answers there ({why}); start the {service.kind}, or give its address"
        ) from None
    if not service.is_one(*service.place):
        raise ConfigError(f"{named}: what answers there is no {service.kind}; give its address")
    return ends


def is_here(own: str, other: str) -> bool:
    """Whether the IP addresses of a connection's two ends are of one machine."""
    return own == other or _is_loopback(other)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _speaks_grpc(host: str, port: int) -> bool:
    with grpc.insecure_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_SECONDS_TO_ANSWER)
        except grpc.FutureTimeoutError:
            return False
    return True


def _is_flink(host: str, port: int) -> bool:
    """Whether Flink's REST API answers."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy would answer for what is not there
        try:
            said = session.get(f"http://{host}:{port}/v1/config", timeout=_SECONDS_TO_ANSWER)
            return "flink-version" in said.json()
        except (requests.RequestException, ValueError):
            return False


def _is_anything(host: str, port: int) -> bool:
    """A service whose own client tells soon whether it is the one."""
    return True


def chosen(beam_options: str) -> tuple[PipelineOptions, PipelineRunner]:
    """Options and runner: the one named, else Beam in this process.

    Beam's own default would first try to fetch another runner's program over the network.

    Args:
        beam_options: Options in Beam's own words.

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


def decoders(options: PipelineOptions) -> int:
    """How many processes decode image files for each worker.

    As many as keep the machine at work if the worker is the only one here; one where the runner starts as many workers
    as are wanted.
    """
    return decoder.wanted() if _is_in_memory(options) else 1


def _is_in_memory(options: PipelineOptions) -> bool:
    """Whether the one worker is a thread of this process, as by default."""
    local = options.view_as(StandardOptions).runner in _LOCAL_RUNNERS
    return local and options.view_as(DirectOptions).direct_running_mode == "in_memory"


def _unknown_words(words: list[str]) -> list[str]:
    unknown = list(words)
    if not words:
        return unknown  # to ask for all options takes as long as a thousand images

    def note(parser: Any) -> None:
        unknown[:] = parser.parse_known_args(words)[1]

    PipelineOptions(words).get_all_options(add_extra_args_fn=note, retain_unknown_options=True)
    return unknown


def _what_it_says(error: BaseException) -> str:
    """An error of a runner in a line."""
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """The line that tells most of what a runner says: pages of Java's and Python's stacks end in an exception's own."""
    lines = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line.strip()]
    if _TRACEBACK in text:
        lines = [line for line in lines if not line[0].isspace()]
    else:
        lines = [line for line in lines if line.startswith("Caused by: ")][-1:] or lines
    line = lines[0].strip() if lines else ""
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


class _OneLineStacks(io.TextIOBase):
    """A stream where a stack that is printed, as Beam's workers do, becomes a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(one_line(text) if text.startswith(_TRACEBACK) else text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextlib.contextmanager
def _without_stacks() -> Iterator[None]:
    """Keeps what Beam, its job servers and its threads say to a line each, and to warnings.

    When a job ends before its time it stays so: Beam's threads learn of it one after the other, as the program ends.
    """

    def shorten(record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] == "components":
            return True
        record.msg, record.args, record.exc_info, record.exc_text = one_line(record.getMessage()), (), None, None
        return record.levelno >= logging.WARNING

    def tell_thread(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, grpc.RpcError):  # that a service is gone is told once, by the pipeline
            before(failed)

    before = threading.excepthook
    with contextlib.ExitStack() as undone:
        threading.excepthook = tell_thread
        undone.callback(setattr, threading, "excepthook", before)
        undone.enter_context(contextlib.redirect_stderr(_OneLineStacks(sys.stderr)))
        for handler in logging.getLogger().handlers:
            handler.addFilter(shorten)
            undone.callback(handler.removeFilter, shorten)
        try:
            yield
        except (grpc.RpcError, RuntimeError, TransientError, KeyboardInterrupt, Terminated):
            undone.pop_all()
            raise
