"""Our programs as processes that begin with TensorFlow and kfp already imported, which takes seconds.

They are forks of one server for each test process (`multiprocessing`'s), which has imported these libraries and used
none of them. That is the only difference from `python -m`: a fork has its own arguments, environment, output, signals
and exit code. Tests of a program's imports, or of a replaced module, start an interpreter instead.
"""

import atexit
import contextlib
import importlib.util
import io
import itertools
import json
import multiprocessing
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

_SERVER = multiprocessing.get_context("forkserver")
_STAGES = ("embed.run", "evaluate.make", "export.make", "sample.run", "selfcheck.run", "train.loop", "train.run")
_VERBS = ("cluster.run_commands", "cluster.schedule_commands", "cli.compile", "cli.run")
_OURS = [*(f"components.{name}" for name in _STAGES), *(f"pipeline.{name}" for name in _VERBS)]
_SERVER.set_forkserver_preload([*_OURS, "google.cloud.storage", "kfp.compiler"])


class Program:
    """A running fork, used like a `subprocess.Popen` of text; in a folder, its output goes to files `out` and `err`."""

    def __init__(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        label: str = "",
    ) -> None:
        pipes = [_SERVER.Pipe(duplex=False) for _ in range(2)]
        outputs: list[Any] = [writer for _, writer in pipes]
        if folder is not None:
            outputs = [str(folder / f"{name}{label}") for name in ("out", "err")]
            for path in outputs:
                Path(path).touch()
        variables = dict(os.environ if environment is None else environment)
        self._process = _SERVER.Process(target=_begin, args=(outputs, variables, umask(), call, *arguments))
        self._process.start()
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno()), encoding="utf-8") for reader, _ in pipes)
        for connection in itertools.chain(*pipes):
            connection.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def communicate(self, seconds: float | None = None) -> tuple[str, str]:
        """Wait for the end, or for so long after the end of its output; return the rest of stdout and stderr."""
        with ThreadPoolExecutor(2) as readers:
            out, err = readers.map(lambda text: text.read(), (self.stdout, self.stderr))
        self.stdout.close()
        self.stderr.close()
        self._process.join(seconds)
        return out, err

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.stdout.closed:
            self.communicate()


def start(
    words: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None, label: str = ""
) -> Program:
    """Start `[python, "-m", module, *arguments]` or `[python, "-c", code, *arguments]`."""
    python, kind, program, *arguments = words
    assert python == sys.executable
    return Program(_MAIN[kind], program, arguments, environment=environment, folder=folder, label=label)


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    with start(words, environment) as program:
        out, err = program.communicate()
    assert program.returncode is not None
    return subprocess.CompletedProcess(words, program.returncode, out, err)


def until(question: Callable[[], Any], seconds: float = 120) -> Any:
    """Repeat a question until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < end, f"still false after {seconds:g} s"
        time.sleep(0.02)
    return answer


class Ended(NamedTuple):
    """How a command line ended: its exit code, output and errors, and what it and its programs imported."""

    code: int
    out: str
    err: str
    imported: set[str]


_FORKS = """
import json, os, sys
print("begun", file=sys.stderr)
leave = os._exit
from pipeline import __main__ as program
folder, lines = json.loads(sys.argv[1])
def end(code):
    sys.stdout.flush()
    print(code, file=open(f"{folder}/{number}.end", "w"), flush=True)
    leave(0)
os._exit = end  # for argcomplete
for number, (words, variables) in enumerate(lines):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    os.environ.update(variables)
    for name, fd in (("out", 1), ("err", 2)):
        os.dup2(os.open(f"{folder}/{number}.{name}", os.O_WRONLY | os.O_CREAT, 0o644), fd)
    try:
        end(program.main(words))
    except SystemExit as ended:
        end(ended.code or 0)
"""
_IMPORT = re.compile(r"import time: .*\| +([\w.]+)\n")
_IMPORTS = re.compile(r"import time: .*\n")


def in_forks(
    lines: Sequence[Sequence[str]],
    cwd: Path | str = ".",
    python: Path | str = sys.executable,
    variables: Sequence[Mapping[str, str]] = (),
) -> list[Ended]:
    """Run command lines of `wgan` in forks of one interpreter that has imported nothing but `wgan` itself."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        pairs = zip(lines, variables or [{}] * len(lines), strict=True)
        command = [str(python), "-c", _FORKS, json.dumps([folder, [*pairs]])]
        environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
        log = subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True).stderr
        before, all_have = ({*_IMPORT.findall(part)} for part in log.split("begun\n"))
        for number in range(len(lines)):
            out, err, end = ((Path(folder) / f"{number}.{name}").read_text() for name in ("out", "err", "end"))
            imported = all_have.union(_IMPORT.findall(err)) - before
            results.append(Ended(int(end), out, _IMPORTS.sub("", err), imported))
    return results


def on_replicas(file: str, function: str, replicas: int, *arguments: Any) -> Any:
    """Call `function(strategy, *arguments)` of a test file on so many virtual CPU devices; JSON in and out.

    Each call is a process, because devices can be made only before TensorFlow begins.
    """
    with Program(_on_replicas, file, function, replicas, json.dumps(arguments)) as program:
        out, err = program.communicate()
    assert program.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def _on_replicas(file: str, function: str, replicas: int, arguments: str) -> None:
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    names = [f"/cpu:{index}" for index in range(replicas)]
    one = replicas == 1
    strategy = tf.distribute.OneDeviceStrategy(names[0]) if one else tf.distribute.MirroredStrategy(names)
    spec = importlib.util.spec_from_file_location("tested", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, function)(strategy, *json.loads(arguments))))


@contextlib.contextmanager
def two_workers(folder: Path, command: list[str]) -> Iterator[list[Program]]:
    """Run a command as two workers on loopback with a `TF_CONFIG` each, their output in `folder` as out0, err0, ....

    At the end of the block wait for both, which end in any case.
    """
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        addresses = [f"127.0.0.1:{door.getsockname()[1]}" for door in doors]
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        workers = []
        for index in range(2):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {**os.environ, "TF_CONFIG": json.dumps(task)}
            started = start(command, environment, folder=folder, label=str(index))
            workers.append(stack.enter_context(started))
            stack.callback(workers[-1].send_signal, signal.SIGKILL)
        yield workers
        for worker in workers:
            worker.communicate(200)


def umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _begin(
    output: Sequence[Connection | str],
    environment: dict[str, str],
    umask: int,
    call: Callable[..., Any],
    *arguments: Any,
) -> None:
    """Do an interpreter's work at the beginning and end of a call."""
    if context := sys.modules.get("tensorflow.python.eager.context"):
        assert context._context is None, "the server has used TensorFlow, not just imported it"
    os.environ.clear()
    os.environ.update(environment)
    os.umask(umask)
    tempfile.tempdir = None
    for file, descriptor in zip(output, (1, 2), strict=True):
        opened = os.open(file, os.O_WRONLY) if isinstance(file, str) else file.fileno()
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), write_through=True) for fd in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        call(*arguments)
    finally:
        atexit._run_exitfuncs()


def _run_module(module: str, arguments: list[str]) -> None:
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _run_code(code: str, arguments: list[str]) -> None:
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})  # noqa: S102


_MAIN = {"-m": _run_module, "-c": _run_code}


@contextlib.contextmanager
def ignoring(*signals: signal.Signals) -> Iterator[None]:
    """Ignore signals, as processes started in the block do: cron, nohup and a script's `&` start programs like that."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
